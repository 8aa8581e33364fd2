//! The files with accounts and certificates, which survive a restart: one directory for each authority, in the state
//! directory. Only this user may read them, and files of other users are refused.

use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use larder_acme::Credentials;
use larder_store::private;
use larder_words::hex;

use super::failure_streak::FailureStreak;
use crate::base::settings::CertificateFiles;
use crate::net::tls::certificates::Certificate;

/// The name of the directory in the state directory.
const FOLDER: &str = "acme";
/// The place of a certificate's configuration in error messages.
const PLACE: &str = "acme";

/// The files of one authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Returns the files of the authority whose directory is at the URL `directory`.
    pub(super) fn new(state: &Path, directory: &str) -> Self {
        Self { folder: state.join(FOLDER).join(name_of(directory)) }
    }

    /// Reads the account as it was [written](Self::write_account); `None` if there is none. Errors: the file with the
    /// problem, and the reason.
    pub(super) fn account(&self) -> Result<Option<Vec<u8>>, String> {
        let path = self.account_path();
        let Some(bytes) = read(&path)? else { return Ok(None) };
        match Credentials::read(&bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => Err(format!(
                "{}: not an ACME account: {error}; remove the file, and a new account will be made",
                path.display()
            )),
        }
    }

    /// Errors: the file with the problem, and the reason.
    pub(super) fn write_account(&self, credentials: &[u8]) -> Result<(), String> {
        self.write(&self.account_path(), credentials)
    }

    /// Reads the certificate for `name` with its key; `None` if there is none. Errors: the file with the problem, and
    /// the reason.
    pub(super) fn certificate(&self, name: &str) -> Result<Option<(Certificate, Vec<u8>)>, String> {
        let path = self.certificate_path(name);
        let Some(pem) = read(&path)? else { return Ok(None) };
        let certificate = self.parse(name, &pem);
        certificate
            .map(|certificate| Some((certificate, pem)))
            .map_err(|why| format!("{why}; remove the file, and a new certificate will be ordered"))
    }

    /// Errors: the file with the problem, and the reason.
    pub(super) fn write_certificate(&self, name: &str, pem: &[u8]) -> Result<(), String> {
        self.write(&self.certificate_path(name), pem)
    }

    /// Parses the certificate and the key in `pem`, and checks that they are for `name`. The error is the reason why
    /// they cannot be used.
    pub(super) fn parse(&self, name: &str, pem: &[u8]) -> Result<Certificate, String> {
        let path = self.certificate_path(name);
        let files = CertificateFiles::at(path.clone(), path.clone(), PLACE);
        let certificate = Certificate::from_pem(&files, pem).map_err(|fault| fault.to_string())?;
        match certificate.is_for(name) {
            true => Ok(certificate),
            false => Err(format!("{}: a certificate for {}", path.display(), certificate.names.join(", "))),
        }
    }

    /// Reads the failures of orders for `name`; `None` if the last order succeeded. Errors: the file with the problem,
    /// and the reason.
    pub(super) fn standing(&self, name: &str) -> Result<Option<FailureStreak>, String> {
        // A malformed file is ignored: the only effect is an early retry.
        Ok(read(&self.standing_path(name))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Errors: the file with the problem, and the reason.
    pub(super) fn write_standing(&self, name: &str, standing: Option<&FailureStreak>) -> Result<(), String> {
        let path = self.standing_path(name);
        match standing.map(serde_json::to_vec) {
            Some(Ok(bytes)) => self.write(&path, &bytes),
            Some(Err(error)) => Err(said(&path, &error.into())),
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(said(&path, &error)),
                _ => Ok(()),
            },
        }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let made = private::make_directory(&self.folder);
        made.and_then(|()| private::write(path, bytes)).map_err(|error| said(path, &error))
    }

    fn account_path(&self) -> PathBuf {
        // A host name cannot begin with an underscore.
        self.folder.join("_account.json")
    }

    fn certificate_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pem"))
    }

    fn standing_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.failed"))
    }
}

/// Returns the name of a directory's folder: its host for readers, and a hash that distinguishes directories of the
/// same host.
pub(super) fn name_of(directory: &str) -> String {
    let host =
        directory.split("://").nth(1).unwrap_or_default().split(['/', ':', '?']).next().unwrap_or_default();
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
    let hash = digest(&SHA256, directory.as_bytes());
    format!("{}-{}", host.trim_matches('.'), hex(&hash.as_ref()[..4]))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match private::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(said(path, &error)),
    }
}

fn said(path: &Path, error: &io::Error) -> String {
    let (path, text) = (path.display().to_string(), error.to_string());
    if text.starts_with(&path) { text } else { format!("{path}: {text}") }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pem(name: &str) -> String {
        let key = KeyPair::generate().expect("a key");
        let made = CertificateParams::new(vec![name.to_owned()]).expect("a name").self_signed(&key);
        made.expect("a certificate").pem() + &key.serialize_pem()
    }

    #[test]
    fn authorities_do_not_share_files() {
        let one = name_of("https://ca.test/dir");
        assert!(one.starts_with("ca.test-") && one != name_of("https://ca.test/other"), "{one}");
        assert!(name_of("https://../../etc/x").starts_with('-'));
    }

    #[test]
    fn a_written_certificate_is_read_back_and_closed_to_other_users() {
        let state = tempfile::tempdir().expect("a folder");
        let files = Files::new(state.path(), "https://ca.test/dir");
        assert!(files.certificate("a.test").expect("none").is_none());
        let written = pem("a.test");
        files.write_certificate("a.test", written.as_bytes()).expect("written");
        let (certificate, read) = files.certificate("a.test").expect("read").expect("it is there");
        assert_eq!((certificate.names.as_slice(), read), (&["a.test".to_owned()][..], written.into_bytes()));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&files.folder), mode(&files.certificate_path("a.test"))), (0o700, 0o600));
    }

    #[test]
    fn files_that_are_no_certificate_are_refused_with_a_sentence() {
        let state = tempfile::tempdir().expect("a folder");
        let files = Files::new(state.path(), "https://ca.test/dir");
        let refused = |name: &str| files.certificate(name).expect_err("refused");
        files.write_certificate("a.test", pem("b.test").as_bytes()).expect("written");
        assert!(refused("a.test").ends_with(
            "a.test.pem: a certificate for b.test; remove the file, and a new certificate will be ordered"
        ));
        files.write_certificate("c.test", b"nothing").expect("written");
        assert!(refused("c.test").contains("c.test.pem: no certificate in it"));
        symlink("/dev/null", files.certificate_path("d.test")).expect("a link");
        assert!(refused("d.test").ends_with("d.test.pem is a symbolic link"));
        files.write_account(b"{}").expect("written");
        assert!(files.account().expect_err("refused").contains("_account.json: not an ACME account"));
    }
}
