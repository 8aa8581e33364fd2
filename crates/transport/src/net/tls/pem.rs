//! Reads PEM files (RFC 7468), and tells what is wrong with one.

use std::path::Path;

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::base::error::cause;
use crate::base::whole_file;

/// What some editors write before text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Both forms of encrypted private keys contain this word.
const ENCRYPTED: &str = "ENCRYPTED";
const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";

/// Returns the content of a PEM file, without a byte order mark. Errors: the file with the problem, and its
/// description.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut pem = whole_file::bytes(path, whole_file::LARGEST).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{}: no such file", path.display()),
        std::io::ErrorKind::PermissionDenied => format!("{}: permission denied", path.display()),
        std::io::ErrorKind::IsADirectory => format!("{}: it is a directory", path.display()),
        _ => format!("{}: {}", path.display(), cause(&error)),
    })?;
    if pem.starts_with(BYTE_ORDER_MARK) {
        pem.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(pem)
}

/// Parses the certificates in `pem`, the content of the file at `path`; at least one.
pub(super) fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        found => Err(explain(path, pem, CERTIFICATE, &found.err().unwrap_or(Error::NoItemsFound))),
    }
}

/// Parses the first private key in `pem`, the content of the file at `path`.
pub(super) fn private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| explain(path, pem, KEY, &error))
}

/// Describes why there is no `wanted` in `pem`, the content of the file at `path`.
fn explain(path: &Path, pem: &[u8], wanted: &str, error: &Error) -> String {
    let (file, text) = (path.display(), String::from_utf8_lossy(pem));
    let label = text.split("-----BEGIN ").nth(1).and_then(|rest| rest.split("-----").next());
    let label = label.map(|label| label.escape_debug().to_string().to_lowercase());
    match (error, label) {
        _ if wanted == KEY && text.contains(ENCRYPTED) => {
            format!("{file}: the private key is encrypted; decrypt it: openssl pkey -in {file} -out KEY.pem")
        }
        (Error::MissingSectionEnd { .. }, Some(label)) => {
            format!("{file}: the {label} is cut short: it has no line -----END {}-----", label.to_uppercase())
        }
        (Error::NoItemsFound, Some(label)) if label.contains(CERTIFICATE) || label.contains(KEY) => {
            format!(
                "{file}: no {wanted} in it, but a {label}; are the files of certificate and key exchanged?"
            )
        }
        (Error::NoItemsFound, Some(label)) => format!("{file}: no {wanted} in it, but '{label}'"),
        // The tag of a sequence, which all certificates and keys are (X.690 section 8.9).
        (Error::NoItemsFound, None) if pem.starts_with(b"\x30") => {
            let command = if wanted == KEY { "pkey" } else { "x509" };
            format!(
                "{file}: it is DER; convert it to PEM: openssl {command} -inform der -in {file} -out NEW.pem"
            )
        }
        (Error::NoItemsFound, None) => format!("{file}: no {wanted} in it; it has to be PEM"),
        (error, _) => format!("{file}: malformed PEM: {error}"),
    }
}
