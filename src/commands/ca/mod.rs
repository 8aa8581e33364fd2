//! `larder ca`: the authority that signs certificates for intercepted hosts.

mod trust;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use larder_proxy::net::tls::authority::AuthorityTerms;

use crate::cli::numbers::whole;
use crate::cli::{Failure, say};
use crate::config::authority::{self, DAYS};
use crate::config::names;

const INIT_EXAMPLES: &str = "\
Examples:
  larder ca init
  larder ca init --only packages.example --days 365
      clients accept its certificates for packages.example and the names below it only";

const EXPORT_EXAMPLES: &str = "\
Examples:
  larder ca export > larder-ca.pem";

const SHOW_EXAMPLES: &str = "\
Examples:
  larder ca show";

const TRUST_EXAMPLES: &str = "\
Examples:
  larder ca trust --dry-run
  sudo larder ca trust --directory ~/.local/state/larder";

const UNTRUST_EXAMPLES: &str = "\
Examples:
  larder ca untrust --dry-run
  sudo larder ca untrust";

/// The arguments of `ca`.
#[derive(Debug, Args)]
pub(crate) struct CaArgs {
    #[command(subcommand)]
    command: CaCommand,
}

#[derive(Debug, Subcommand)]
enum CaCommand {
    /// Make the authority
    #[command(after_help = INIT_EXAMPLES)]
    Init(Init),
    /// Print its certificate in PEM, for clients that are to trust it
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Place),
    /// Show its files, its validity and its fingerprint
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Place),
    /// Add its certificate to the stores of this machine: those of the system, of Chromium, and of Java
    #[command(after_help = TRUST_EXAMPLES)]
    Trust {
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        place: Place,
    },
    /// Remove its certificate from these stores
    #[command(after_help = UNTRUST_EXAMPLES)]
    Untrust(Change),
}

#[derive(Debug, Args)]
struct Change {
    /// Print the steps, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct Init {
    /// Sign certificates that clients accept for this domain and the names below it only; repeatable
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    only: Vec<String>,
    /// Days for which it is valid
    #[arg(long, value_name = "NUMBER", default_value_t = DAYS, value_parser = whole::<u32>(1..=3_650))]
    days: u32,
    /// Replace the authority that is there
    #[arg(long)]
    renew: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Place {
    /// Directory of its files, as intercept.ca in the config [default: the state directory]
    #[arg(long, value_name = "DIR", value_parser = names::directory)]
    directory: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &CaArgs) -> Result<(), Failure> {
    match &args.command {
        CaCommand::Init(Init { only, days, renew, place }) => {
            let files = place.files()?;
            let terms = AuthorityTerms { days: *days, only: only.clone() };
            authority::make(&files, &terms, *renew).map_err(Failure::Failed)?;
            place.show()
        }
        CaCommand::Export(place) => {
            say(place.read()?.pem().trim_end());
            Ok(())
        }
        CaCommand::Show(place) => place.show(),
        CaCommand::Trust { change, place } => {
            // A certificate that cannot be used is not added.
            place.read()?;
            trust::change(Some(&place.files()?.cert), change.dry_run)
        }
        CaCommand::Untrust(change) => trust::change(None, change.dry_run),
    }
}

impl Place {
    fn files(&self) -> Result<larder_proxy::settings::CertificateFiles, Failure> {
        authority::files(self.directory.clone(), "ca").map_err(Failure::Failed)
    }

    fn read(&self) -> Result<larder_proxy::net::tls::authority::CertificateAuthority, Failure> {
        authority::read(&self.files()?).map_err(Failure::Failed)
    }

    fn show(&self) -> Result<(), Failure> {
        let (files, authority) = (self.files()?, self.read()?);
        let certificate = authority.certificate();
        say(&format!("certificate {}, SHA-256 {}", files.cert.display(), certificate.fingerprint()));
        say(&format!(
            "key {}: a program with this key can read and change all https of a client that trusts the certificate",
            files.key.display()
        ));
        let end = Timestamp::from_second(certificate.not_after.cast_signed()).unwrap_or_default();
        say(&format!("valid until {}", end.strftime("%F")));
        Ok(())
    }
}

/// Parses the domain of a constraint: constraints have no wildcards, and include all names below.
fn domain(text: &str) -> Result<String, String> {
    let name = names::host(text.strip_prefix("*.").unwrap_or(text))?;
    match name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok() {
        true => Err(format!("'{name}' is an address; write a domain")),
        false => Ok(name),
    }
}
