//! A certificate that this program makes and signs itself, to try TLS without an authority.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_proxy::Settings;
use larder_proxy::net::tls::certificates::Certificate;
use larder_proxy::settings::CertificateFiles;
use larder_store::private;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

use super::state::state_directory;

/// The flag that asks for it.
pub(crate) const FLAG: &str = "--tls-self-signed";
/// A certificate that ends sooner is made again.
const LEAST: Duration = Duration::from_secs(7 * 86_400);
/// Names that reach a listener on this machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Where the certificate is kept, so that a client which trusts it does so after a restart, too.
pub(crate) fn files() -> CertificateFiles {
    let folder = state_directory().unwrap_or_default();
    let file = |name| folder.join(name);
    CertificateFiles::at(file("self-signed.pem"), file("self-signed.key"), FLAG)
}

/// The certificate, for those who are to trust it.
#[derive(Debug)]
pub(crate) struct SelfSigned {
    pub(crate) file: PathBuf,
    /// SHA-256, as browsers show it.
    pub(crate) fingerprint: String,
}

/// Makes the certificate if `settings` ask for it and there is none for their sites.
///
/// # Errors
/// Why there is none, in one line.
pub(crate) fn provide(settings: &Settings) -> Result<Option<SelfSigned>, String> {
    let Some(files) = settings.certificates.iter().find(|files| files.place == FLAG) else {
        return Ok(None);
    };
    if settings.state.is_none() {
        return Err(format!(
            "{FLAG} has no directory to keep its certificate in: set STATE_DIRECTORY or HOME, or name files with --tls-cert \
             and --tls-key"
        ));
    }
    let hosts = settings.sites.iter().flat_map(|site| &site.hosts);
    let mut names: Vec<String> = LOCAL.iter().map(|name| (*name).to_owned()).chain(hosts.cloned()).collect();
    names.dedup();
    if !is_there(files, &names) {
        make(files, names)
            .map_err(|error| format!("cannot make a certificate in {}: {error}", files.cert.display()))?;
    }
    let made = Certificate::read(files).map_err(|fault| files.blame(&fault))?;
    Ok(Some(SelfSigned { file: files.cert.clone(), fingerprint: made.fingerprint() }))
}

fn is_there(files: &CertificateFiles, names: &[String]) -> bool {
    let Ok(made) = Certificate::read(files) else { return false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_name = |name: &&String| name.parse::<std::net::IpAddr>().is_err();
    made.not_after > (now + LEAST).as_secs()
        && names.iter().filter(is_name).all(|name| made.names.contains(name))
}

fn make(files: &CertificateFiles, names: Vec<String>) -> io::Result<()> {
    let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
    params.distinguished_name.push(DnType::CommonName, "Larder, self-signed");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2099, 12, 31);
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    if let Some(folder) = files.cert.parent() {
        private::make_directory(folder)?;
    }
    private::write(&files.key, key.serialize_pem().as_bytes())?;
    private::write(&files.cert, certificate.pem().as_bytes())
}
