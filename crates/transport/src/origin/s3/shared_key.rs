//! Shared Key, by which requests to Azure's Blob Storage are signed: a pure function of the request, the key and the time.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use larder_semantics::fields::Fields;

/// The version of the storage's interface.
pub(super) const VERSION: &str = "2021-12-02";
/// The fields of a request that are signed by their places. The third is the length of the content, which is none, and the
/// sixth is the date, which has a field of its own.
const SIGNED: [&str; 11] = [
    "content-encoding",
    "content-language",
    "",
    "content-md5",
    "content-type",
    "",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// Returns the value of `Authorization` for a request for `path` with the fields `sent` at `moment`, a time in the form of
/// HTTP, under this account and its key; `None` if the key is not in Base64.
pub(super) fn authorization(
    (account, key): (&str, &str),
    (method, path, sent): (&str, &str, &HeaderMap),
    moment: &str,
) -> Option<String> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(key).ok()?);
    let mut text = method.as_bytes().to_vec();
    for name in SIGNED {
        text.push(b'\n');
        text.extend_from_slice(sent.first(name).filter(|_| !name.is_empty()).unwrap_or_default());
    }
    let own = format!("\nx-ms-date:{moment}\nx-ms-version:{VERSION}\n/{account}{path}");
    text.extend_from_slice(own.as_bytes());
    Some(format!("SharedKey {account}:{}", STANDARD.encode(hmac::sign(&key, &text))))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    /// Computed separately, with hmac of Python.
    #[test]
    fn a_signature_covers_the_path_and_the_conditions() {
        let mut sent = HeaderMap::new();
        let of = |sent: &HeaderMap| {
            let account = ("account", "c2VjcmV0");
            let moment = "Thu, 01 Jan 2026 00:00:00 GMT";
            authorization(account, ("GET", "/media/a%20b.txt", sent), moment).unwrap()
        };
        assert_eq!(of(&sent), "SharedKey account:PhZ61+c1w5Pb6AozgK11mW3yJFpAqQjHmhs1Zr++nyU=");
        sent.insert(header::RANGE, HeaderValue::from_static("bytes=2-4"));
        sent.insert(header::IF_MATCH, HeaderValue::from_static("\"a\""));
        assert_eq!(of(&sent), "SharedKey account:MZWlQGlLoNknu5eeenP7MZCGhG88JFQLMi/CRPtLTws=");
        assert!(authorization(("a", "no base64!"), ("GET", "/", &sent), "").is_none());
    }
}
