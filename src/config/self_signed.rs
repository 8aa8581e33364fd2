//! Self-signed certificates: to try TLS without an authority, and for the admin listener.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_proxy::Settings;
use larder_proxy::net::tls::certificates::Certificate;
use larder_proxy::settings::CertificateFiles;
use larder_store::private;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustix::fs::{FlockOperation, flock};
use rustls::pki_types::DnsName;

use crate::cli::admin_tls;
use crate::cli::files::unwritten;
use crate::cli::state::state_directory;

/// The flag that requests the certificate.
pub(crate) const FLAG: &str = "--tls-self-signed";
/// A certificate with less time left is made again.
const LEAST: Duration = Duration::from_secs(7 * 86_400);
/// Names by which clients reach a listener on this machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Returns the files of the certificate, which is kept so that a client which trusts it does so after a restart, too.
pub(crate) fn files() -> CertificateFiles {
    let folder = state_directory().unwrap_or_default();
    let file = |name| folder.join(name);
    CertificateFiles::at(file("self-signed.pem"), file("self-signed.key"), FLAG)
}

/// The place in errors about the certificate of the admin listener.
const ADMIN: &str = "admin";

/// Returns the files of the admin listener's certificate; `None`: there is no directory for them.
pub(crate) fn of_admin() -> Option<CertificateFiles> {
    let folder = state_directory()?;
    Some(CertificateFiles::at(folder.join(admin_tls::OWN), folder.join("admin.key"), ADMIN))
}

/// The certificate, as shown to users who may trust it.
#[derive(Debug)]
pub(crate) struct SelfSigned {
    pub(crate) file: PathBuf,
    /// The fingerprint by SHA-256, as browsers show it.
    pub(crate) fingerprint: String,
}

/// Makes the certificate if `settings` request it and there is none for their sites. The error is the reason why there
/// is none, in one line.
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
    keep(files, hosts.cloned()).map(Some)
}

/// Makes the certificate of the admin listener if `settings` request it and there is none. The error is the reason why
/// there is none, in one line.
pub(crate) fn provide_for_admin(settings: &Settings) -> Result<Option<SelfSigned>, String> {
    let files = settings.admin_tls.as_ref().and_then(|tls| tls.own.as_ref());
    let machine = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    // A name that is invalid in a certificate is omitted.
    let machine = Some(machine).filter(|name| DnsName::try_from(name.as_str()).is_ok());
    match files.map(|files| keep(files, machine)) {
        // Clients get another certificate.
        Some(Err(why)) if !settings.certificates.is_empty() => {
            tracing::warn!("{why}");
            Ok(None)
        }
        kept => kept.transpose(),
    }
}

/// Returns the certificate in `files`, and makes it if there is none for this machine and `hosts`.
fn keep(files: &CertificateFiles, hosts: impl IntoIterator<Item = String>) -> Result<SelfSigned, String> {
    let mut names: Vec<String> = LOCAL.iter().map(|name| (*name).to_owned()).chain(hosts).collect();
    names.dedup();
    let unmade = |error| format!("cannot make {}: {}", files.cert.display(), unwritten(&error));
    let locked = files.cert.parent().map(lock).transpose().map_err(unmade)?;
    if !is_there(files, &names) {
        make(files, names).map_err(unmade)?;
    }
    drop(locked);
    let made = Certificate::read(files).map_err(|fault| files.blame(&fault))?;
    Ok(SelfSigned { file: files.cert.clone(), fingerprint: made.fingerprint() })
}

/// Locks `folder`, which is made if it does not exist. Without the lock, two processes that start at the same time could
/// leave the key of one beside the certificate of the other.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    private::make_directory(folder)?;
    let folder = File::open(folder)?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
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
    private::write(&files.key, key.serialize_pem().as_bytes())?;
    private::write(&files.cert, certificate.pem().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{CertificateFiles, FLAG, keep};
    use std::thread;

    #[test]
    fn processes_that_start_at_the_same_time_get_one_certificate() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = |name| folder.path().join("state").join(name);
        let files = CertificateFiles::at(file("a.pem"), file("a.key"), FLAG);
        let made = thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| keep(&files, None))).collect();
            let kept =
                starts.into_iter().map(|start| start.join().expect("no panic").expect("a certificate"));
            kept.map(|made| made.fingerprint).collect::<Vec<_>>()
        });
        assert!(made.iter().all(|fingerprint| *fingerprint == made[0]), "{made:?}");
    }
}
