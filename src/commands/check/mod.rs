//! `larder check`: checks whether `larder serve` would accept the same arguments, and prints a summary of the result.

mod expectations;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use larder_proxy::net::tls::certificates::Certificate;
use larder_proxy::settings::CertificateFiles;
use larder_proxy::{CertificateFile, Settings, examine_access_log, examine_acme};
use larder_store::Directory;

use crate::cli::units::counted;
use crate::cli::{Failure, clock, say};
use crate::config::flags::Run;
use crate::config::{self, docs, self_signed};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder check --config larder.toml
  larder check --origin http://127.0.0.1:3000 --memory 4GiB
  larder check --config larder.toml --test tests.toml
      compares the config with the expectations in a file, without a connection
  larder check --example > larder.toml";

/// The arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print a config file with every key and its default
    #[arg(long, exclusive = true)]
    example: bool,
    /// Print a reference in Markdown: of the config's keys, or of the metrics
    #[arg(long, value_name = "PAGE", num_args = 0..=1, default_missing_value = "config", exclusive = true)]
    reference: Option<Reference>,
    /// Compare the config with the expectations in this file (docs/rules.md)
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// The arguments of `serve` to validate.
    #[command(flatten)]
    run: Run,
}

/// A reference that the program prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reference {
    Config,
    Metrics,
}

/// Prints `ok` and a summary, or fails with all errors.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    if check.example {
        say(docs::example().trim_end());
        return Ok(());
    }
    if let Some(reference) = check.reference {
        let page = match reference {
            Reference::Config => docs::reference(),
            Reference::Metrics => larder_server::metrics_reference(),
        };
        say(page.trim_end());
        return Ok(());
    }
    let (path, flags) = (check.run.config.as_deref(), &check.run.flags);
    let settings = config::load(path, flags).map_err(|error| Failure::Refused(error.to_string()))?;
    let findings = examine(&settings).map_err(Failure::Refused)?;
    say("ok");
    for (what, value) in config::summary(&settings) {
        say(&format!("{what:<8} {value}"));
    }
    findings.certificates.iter().for_each(|line| say(line));
    for warning in findings.warnings {
        eprintln!("larder: warning: {warning}");
    }
    if let Some(path) = &check.test {
        let count = expectations::run(path, settings)?;
        say(&format!("{:<8} {}", "tests", counted(count as u64, "passed", "passed")));
    }
    Ok(())
}

/// What a check of valid settings has found, in lines.
pub(super) struct Findings {
    /// The certificates, those that an authority issues included.
    certificates: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Examines valid settings and the files that they name. Errors: the errors of certificates that cannot be used, one
/// line each.
pub(super) fn examine(settings: &Settings) -> Result<Findings, String> {
    let (mut certificates, expired) = certificates(settings)?;
    let kept = examine_acme(settings);
    certificates.extend(kept.iter().map(describe_kept));
    let spoilt = kept.into_iter().filter_map(|kept| kept.not_after.err());
    let warnings = config::warnings(settings).into_iter().chain(expired);
    Ok(Findings { certificates, warnings: warnings.chain(unusable(settings)).chain(spoilt).collect() })
}

/// Returns the errors of directories and files that `serve` could not use at present, in its words. Another user may
/// have other rights.
fn unusable(settings: &Settings) -> Vec<String> {
    let disks =
        settings.disks.iter().map(|disk| Directory::examine(&disk.path).map_err(|why| why.to_string()));
    let log = settings.access_log_file.iter();
    let log = log.map(|path| examine_access_log(path).map_err(|why| why.to_string()));
    disks.chain(log).filter_map(Result::err).collect()
}

/// Describes the certificates that listeners show to clients. The second list has warnings: certificates that clients
/// do not accept, and hosts without a certificate. Errors: the errors of certificates that cannot be used, one line
/// each.
fn certificates(settings: &Settings) -> Result<(Vec<String>, Vec<String>), String> {
    let read = |files: &CertificateFiles| Certificate::read(files).map_err(|why| files.blame(&why));
    let made_here = |files: &&CertificateFiles| files.place != self_signed::FLAG;
    let (read, problems): (Vec<_>, Vec<_>) =
        settings.certificates.iter().filter(made_here).map(read).partition(Result::is_ok);
    let problems: Vec<_> = problems.into_iter().filter_map(Result::err).collect();
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let read: Vec<_> = read.into_iter().flatten().collect();
    let now = clock::now();
    let lines = read.iter().filter_map(|certificate| describe(certificate, now)).collect();
    let trouble = |certificate: &Certificate| {
        let trouble = certificate.trouble(now).or_else(|| certificate.chain_trouble(now));
        let trouble = trouble.or_else(|| certificate.missing_chain());
        trouble.map(|trouble| certificate.tell(&trouble))
    };
    let troubles = read.iter().filter_map(trouble);
    let all_here = read.len() == settings.certificates.len();
    let by_file = settings.sites.iter().filter(|site| site.acme.is_none());
    let hosts = by_file.flat_map(|site| &site.hosts).filter(|_| all_here && !read.is_empty());
    let uncovered = hosts.filter(|host| !read.iter().any(|certificate| certificate.is_for(host)));
    let uncovered = uncovered.map(|host| format!("no [[tls]] has a certificate for {host}"));
    Ok((lines, troubles.chain(uncovered).collect()))
}

/// Describes a certificate that is valid.
fn describe(certificate: &Certificate, now: u64) -> Option<String> {
    let left = certificate.not_after.checked_sub(now).filter(|_| certificate.not_before <= now)?;
    let days = counted(left / 86_400, "day left", "days left");
    Some(format!("{:<8} {}, {days}", "tls", certificate.names.join(", ")))
}

/// Describes a certificate that an authority issues.
fn describe_kept(kept: &CertificateFile) -> String {
    let CertificateFile { name, directory, not_after } = kept;
    let state = match not_after {
        Ok(None) => format!("to be ordered from {directory}"),
        Ok(Some(end)) => match end.checked_sub(clock::now()) {
            Some(left) => counted(left / 86_400, "day left", "days left"),
            None => format!("has expired, to be ordered from {directory}"),
        },
        Err(_) => "its file cannot be used".to_owned(),
    };
    format!("{:<8} {name}, {state}", "acme")
}
