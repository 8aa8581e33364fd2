//! The files of the authority that signs certificates for intercepted hosts.

use std::path::PathBuf;

use jiff::Timestamp;
use larder_proxy::net::tls::authority::{AuthorityTerms, CertificateAuthority};
use larder_proxy::settings::CertificateFiles;

use super::self_signed::lock;
use crate::cli::clock::now;
use crate::cli::files::unwritten;
use crate::cli::state::state_directory;

/// The days for which an authority is valid by default.
pub(crate) const DAYS: u32 = 1_095;
/// An authority with less time left, in seconds, is replaced by [`provide`].
const LEAST: u64 = 86_400;

/// Returns the files in `folder`, or else in the state directory. `place` of the config names them. Errors: there is no
/// state directory.
pub(crate) fn files(folder: Option<PathBuf>, place: &str) -> Result<CertificateFiles, String> {
    match folder.or_else(state_directory) {
        Some(folder) => Ok(CertificateAuthority::files(&folder, place)),
        None => Err("there is no directory for the authority: set STATE_DIRECTORY or HOME".to_owned()),
    }
}

/// Returns the authority in `files`, which is made with default terms if it is not there or has expired. The error is
/// the reason why there is none, in one line.
pub(crate) fn provide(files: &CertificateFiles) -> Result<CertificateAuthority, String> {
    let unmade = |error| {
        let why = unwritten(&error);
        format!("cannot make {}: {why}; XDG_STATE_HOME names another directory", files.cert.display())
    };
    let _locked = files.cert.parent().map(lock).transpose().map_err(unmade)?;
    let (now, known) = (now(), files.cert.exists().then(|| read(files)).transpose()?);
    let Some(known) = known.filter(|known| known.certificate().not_after >= now + LEAST) else {
        let terms = AuthorityTerms { days: DAYS, only: Vec::new() };
        CertificateAuthority::make(files, &terms, now).map_err(unmade)?;
        return read(files);
    };
    // Most likely the clock is wrong, and then no certificate of an origin is valid either.
    if known.certificate().not_before > now {
        let day =
            |second: u64| Timestamp::from_second(second.cast_signed()).unwrap_or_default().strftime("%F");
        return Err(format!(
            "{}: the authority is valid from {} on, and the clock of this machine says {}; set the clock, or larder ca init --renew \
             makes a new authority",
            files.cert.display(),
            day(known.certificate().not_before),
            day(now)
        ));
    }
    Ok(known)
}

/// Makes a new authority in `files`, in place of the one that is there if `renew` is set. The error is the reason why
/// there is none, in one line.
pub(crate) fn make(files: &CertificateFiles, terms: &AuthorityTerms, renew: bool) -> Result<(), String> {
    let unmade = |error| format!("cannot make {}: {}", files.cert.display(), unwritten(&error));
    let _locked = files.cert.parent().map(lock).transpose().map_err(unmade)?;
    if files.cert.exists() && !renew {
        let file = files.cert.display();
        return Err(format!(
            "{file} is there already; --renew replaces it, and clients have to trust the new one"
        ));
    }
    CertificateAuthority::make(files, terms, now()).map_err(unmade)
}

/// Returns the authority in `files`. The error is the reason why it is not usable, in one line.
pub(crate) fn read(files: &CertificateFiles) -> Result<CertificateAuthority, String> {
    CertificateAuthority::read(files).map_err(|fault| match files.cert.try_exists() {
        Ok(true) | Err(_) => files.blame(&fault),
        Ok(false) => format!("{}: no such file; larder ca init makes an authority", files.cert.display()),
    })
}
