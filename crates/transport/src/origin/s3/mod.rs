//! Buckets as origins: the names of objects, signed requests, and the answers that are no objects.
//!
//! A bucket is only read. Of a client's request, the path, the conditions and the range reach it, and neither the query
//! nor fields that the storage would take for its own: with a signature, they would act under Larder's credentials. The
//! signature covers the host, the path and the time; ranges and conditions need none.

mod credentials;
mod shared_key;
mod sigv4;
mod sources;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use larder_semantics::date;
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use percent_encoding::percent_decode_str;
use tokio::sync::Mutex;

use self::credentials::Credentials;
use super::{Client, Download, OriginError};
use crate::base::clock;
use crate::base::path_prefix::has_dot_segments;
use crate::base::settings::{CredentialSource, S3Bucket};
use crate::http::response::Head;

/// The longest refusal of a storage that is read, in bytes.
const LONGEST: usize = 16 << 10;
/// Seconds between two attempts to get credentials while the old ones are valid, or while they are refused.
const PAUSE: u64 = 30;
/// The same without valid ones: each request would wait for the sources.
const SHORT_PAUSE: u64 = 5;
/// Fields of these beginnings are between this proxy and the storage.
const PRIVATE: [&str; 7] = ["x-amz-", "x-amzn-", "x-goog-", "x-guploader-", "x-minio-", "x-ms-", "x-rgw-"];
/// Fields that describe the text of an error.
const ABOUT_TEXT: [&str; 6] =
    ["content-encoding", "content-language", "content-length", "content-type", "etag", "last-modified"];

/// Signs the requests to one bucket. Shared by all workers.
#[derive(Debug)]
pub struct Signer {
    bucket: S3Bucket,
    current: ArcSwapOption<Credentials>,
    /// Held while credentials are renewed, so that one request renews them for all.
    renewal: Mutex<()>,
    /// When they were last requested (UNIX seconds).
    requested: AtomicU64,
    /// Why that failed; empty if it did not.
    trouble: parking_lot::Mutex<String>,
}

/// A request in the form in which the bucket gets it.
#[derive(Debug)]
pub struct SignedTarget {
    /// The path and query.
    pub path: String,
    /// The fields with the signature.
    pub fields: Vec<(&'static str, String)>,
}

/// Whether a field of a client's request is kept from a bucket.
pub fn is_private(name: &str) -> bool {
    name == "authorization" || name == "cookie" || PRIVATE.iter().any(|begin| name.starts_with(begin))
}

/// Checks whether a bucket may be asked for `path`, which may have a query. Errors: the error for another method than
/// GET and HEAD, for a request with content, and for a path that a storage could resolve to an object of another
/// prefix.
pub fn check(method: &Method, has_content: bool, path: &str) -> Result<(), OriginError> {
    let refused = |status, why, detail: &str| Err(OriginError::unsent(status, why, detail));
    if has_content || !matches!(*method, Method::GET | Method::HEAD) {
        let detail = "a bucket answers GET and HEAD without content only";
        return refused(StatusCode::METHOD_NOT_ALLOWED, Why::ReadOnly, detail);
    }
    match has_dot_segments(path) {
        true => {
            let detail = "the path has segments '.' or '..', which a bucket could resolve";
            refused(StatusCode::FORBIDDEN, Why::OriginForbidden, detail)
        }
        false => Ok(()),
    }
}

impl Signer {
    pub(super) fn new(bucket: &S3Bucket) -> Self {
        Self {
            bucket: bucket.clone(),
            current: ArcSwapOption::empty(),
            renewal: Mutex::default(),
            requested: AtomicU64::default(),
            trouble: parking_lot::Mutex::default(),
        }
    }

    /// Returns the form of a request for `path` at `host` with the fields `sent`. Credentials are requested through
    /// `client`. The error is the reason why there are no credentials.
    pub async fn sign(
        &self,
        client: &Client,
        method: &Method,
        (host, path): (&str, &str),
        sent: &HeaderMap,
    ) -> Result<SignedTarget, OriginError> {
        let (path, query) = self.target(path);
        let whole = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        if self.bucket.credentials == Some(CredentialSource::None) {
            return Ok(SignedTarget { path: whole, fields: Vec::new() });
        }
        let missing = |detail: String| OriginError {
            unconnected: true,
            ..OriginError::unsent(StatusCode::BAD_GATEWAY, Why::NoCredentials, detail)
        };
        let credentials = self.credentials(client).await.map_err(missing)?;
        if let Some(account) = &self.bucket.account {
            let moment = String::from_utf8_lossy(&date::format(clock::now())).into_owned();
            let account = (account.as_str(), credentials.secret.as_str());
            let value = shared_key::authorization(account, (method.as_str(), &path, sent), &moment);
            let value = value.ok_or_else(|| missing("AZURE_STORAGE_KEY is not in Base64".to_owned()))?;
            let version = ("x-ms-version", shared_key::VERSION.to_owned());
            let fields = vec![("x-ms-date", moment), version, ("authorization", value)];
            return Ok(SignedTarget { path: whole, fields });
        }
        let moment = moment(clock::now());
        let mut signed =
            vec![("host", host), ("x-amz-content-sha256", sigv4::EMPTY), ("x-amz-date", &moment)];
        signed.extend(credentials.token.as_deref().map(|token| ("x-amz-security-token", token)));
        let parts = sigv4::Parts {
            method: method.as_str(),
            path: &path,
            query: &query,
            fields: &signed,
            content: sigv4::EMPTY,
        };
        let value = sigv4::authorization(&parts, &credentials, &moment, (&self.bucket.region, "s3"));
        let mut fields: Vec<_> =
            signed.iter().skip(1).map(|(name, value)| (*name, (*value).to_owned())).collect();
        fields.push(("authorization", value));
        Ok(SignedTarget { path: whole, fields })
    }

    /// Returns the path and the query of the request for `path`, without the query of the client.
    fn target(&self, path: &str) -> (String, String) {
        let path = path.split('?').next().unwrap_or_default();
        let mut decoded: Vec<u8> = percent_decode_str(path).collect();
        let mut query = String::new();
        if decoded.last() == Some(&b'/') {
            if let Some(index) = &self.bucket.index {
                decoded.extend_from_slice(index.as_bytes());
            } else if self.bucket.lists {
                let root = self.bucket.root.as_bytes();
                let names = decoded.strip_prefix(root).unwrap_or_default();
                query = format!("delimiter=%2F&list-type=2&prefix={}", sigv4::query(names));
                decoded = root.to_vec();
            }
        }
        (sigv4::path(&decoded).to_string(), query)
    }

    /// Returns valid credentials. While they are renewed, other requests use the old ones as long as they are valid.
    async fn credentials(&self, client: &Client) -> Result<Arc<Credentials>, String> {
        let now = || u64::from(clock::now());
        let known = self.current.load_full();
        let valid = known.clone().filter(|known| now() < known.end);
        if let Some(valid) = valid.as_ref().filter(|valid| now() < valid.renewal) {
            return Ok(valid.clone());
        }
        let _renewal = match &valid {
            Some(valid) => match self.renewal.try_lock() {
                Ok(renewal) => renewal,
                Err(_) => return Ok(valid.clone()),
            },
            None => self.renewal.lock().await,
        };
        let newer = self.current.load_full().filter(|newer| now() < newer.renewal);
        if let Some(newer) = newer {
            return Ok(newer);
        }
        let passed = now().saturating_sub(self.requested.load(Ordering::Relaxed));
        let trouble = Some(self.trouble.lock().clone()).filter(|trouble| !trouble.is_empty());
        match (&valid, trouble) {
            (Some(valid), Some(_)) if passed < PAUSE => return Ok(valid.clone()),
            (None, Some(trouble)) if passed < SHORT_PAUSE => return Err(trouble),
            _ => {}
        }
        let found = sources::find(client, &self.bucket).await.map(Arc::new);
        // At the end, so that the requests that have waited share a failure.
        self.requested.store(now(), Ordering::Relaxed);
        let found = found.map_err(|why| format!("no credentials for {}: {why}", self.bucket.url));
        *self.trouble.lock() = found.as_ref().err().cloned().unwrap_or_default();
        match (found, valid) {
            (Ok(found), _) => {
                self.current.store(Some(Arc::clone(&found)));
                Ok(found)
            }
            (Err(why), Some(valid)) => {
                tracing::warn!("{why}; the old ones are still valid");
                Ok(valid)
            }
            (Err(why), None) => Err(why),
        }
    }

    /// Removes the fields of the storage from the answer to `method` with this `head`, and replaces the text of an error,
    /// which names the bucket. Errors: the error for an answer that refuses the request: its text is for the owner of the
    /// credentials.
    pub async fn accept(
        &self,
        method: &Method,
        head: &mut Head,
        download: &mut Download,
    ) -> Result<(), OriginError> {
        let begins = |name: &[u8], begin: &str| {
            name.get(..begin.len()).is_some_and(|found| found.eq_ignore_ascii_case(begin.as_bytes()))
        };
        let is = |name: &[u8], own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        let is_kept = |name: &[u8]| !PRIVATE.iter().any(|begin| begins(name, begin));
        let refused = |status, detail| Err(OriginError::new(status, Why::BucketRefused, detail));
        match head.status.as_u16() {
            301 | 307 | 308 => {
                let region = head.fields.first("x-amz-bucket-region").map(String::from_utf8_lossy);
                let region =
                    region.map_or_else(String::new, |region| format!(", and is in the region {region}"));
                let detail = format!("{} has another endpoint{}", self.bucket.url, region.escape_debug());
                refused(StatusCode::BAD_GATEWAY, detail)
            }
            400 | 401 | 403 => {
                let text = download.whole(LONGEST).await.unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let part = |name| element(&text, name).unwrap_or_default();
                let (code, message) = (part("Code"), part("Message"));
                // Without text, in answers to HEAD, 403 is all that is known: the credentials may have expired.
                let is_denied = matches!(code, "AccessDenied" | "AllAccessDisabled" | "")
                    || code.starts_with("Authorization")
                    || code.starts_with("Insufficient");
                if !is_denied || code.is_empty() {
                    self.forget();
                }
                let status = match head.status == StatusCode::FORBIDDEN && is_denied {
                    true => StatusCode::FORBIDDEN,
                    false => StatusCode::BAD_GATEWAY,
                };
                let detail =
                    format!("{} answers {}: {code} {message}", self.bucket.url, head.status.as_u16());
                refused(status, detail.trim_end_matches([' ', ':']).escape_debug().to_string())
            }
            400.. => {
                let status = head.status;
                let text = format!("{}: {}\n", status.as_u16(), status.canonical_reason().unwrap_or("error"));
                let length = text.len().to_string();
                let own = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", &*length)];
                let stays = |name: &[u8]| is_kept(name) && !ABOUT_TEXT.iter().any(|own| is(name, own));
                head.fields.rebuild(
                    |name, _| stays(name),
                    own.map(|(name, value)| (name, value.as_bytes())).into_iter(),
                );
                if *method != Method::HEAD {
                    // Read to its end, so that the connection can be used again.
                    let _ = download.whole(LONGEST).await;
                    download.replace(text.into_bytes());
                }
                Ok(())
            }
            _ => {
                if head.fields.iter().any(|(name, _)| !is_kept(name)) {
                    head.fields.rebuild(|name, _| is_kept(name), std::iter::empty());
                }
                Ok(())
            }
        }
    }

    /// Requests new credentials for the next request, unless that was done just now.
    fn forget(&self) {
        if u64::from(clock::now()) >= self.requested.load(Ordering::Relaxed) + PAUSE {
            self.current.store(None);
        }
    }
}

/// Returns the time in the form of signatures.
fn moment(now: u32) -> String {
    let time = Timestamp::from_second(now.into()).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Returns the text of the first element of this name in a document of XML.
fn element<'x>(document: &'x str, name: &str) -> Option<&'x str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(index: Option<&str>, lists: bool) -> Signer {
        Signer::new(&S3Bucket {
            url: "s3://b".to_owned(),
            account: None,
            region: "us-east-1".to_owned(),
            root: "/b/".to_owned(),
            index: index.map(str::to_owned),
            lists,
            credentials: None,
            profile: None,
        })
    }

    #[test]
    fn targets_have_the_encoding_of_signatures_and_no_query_of_clients() {
        let rows = [
            ("/b/a%20b+c/%C3%A4?acl&x-amz-x=1", "/b/a%20b%2Bc/%C3%A4", ""),
            ("/b/A(1)!.txt", "/b/A%281%29%21.txt", ""),
            ("/b/x/", "/b/x/", ""),
        ];
        for (path, target, query) in rows {
            assert_eq!(signer(None, false).target(path), (target.to_owned(), query.to_owned()));
        }
        assert_eq!(signer(Some("index.html"), true).target("/b/x/?y").0, "/b/x/index.html");
        let list = "delimiter=%2F&list-type=2&prefix=x%2F%26y%2F".to_owned();
        assert_eq!(signer(None, true).target("/b/x/&y/"), ("/b/".to_owned(), list));
        assert_eq!(moment(1_369_353_600), "20130524T000000Z");
    }

    #[test]
    fn a_bucket_is_only_read_and_only_below_its_prefix() {
        let why = |method: Method, content, path| check(&method, content, path).err().map(|error| error.why);
        assert_eq!(why(Method::GET, false, "/b/a"), None);
        assert_eq!(why(Method::HEAD, false, "/b/a"), None);
        assert_eq!(why(Method::GET, true, "/b/a"), Some(Why::ReadOnly));
        for method in [Method::PUT, Method::DELETE, Method::POST, Method::OPTIONS] {
            assert_eq!(why(method, false, "/b/a"), Some(Why::ReadOnly));
        }
        for path in ["/b/../c", "/b/%2e%2E/c", "/b/x%2f..%2fc", "/b/."] {
            assert_eq!(why(Method::GET, false, path), Some(Why::OriginForbidden), "{path}");
        }
        assert!(
            ["authorization", "x-amz-acl", "x-amzn-requestid", "cookie"].into_iter().all(is_private)
                && !is_private("range")
        );
    }
}
