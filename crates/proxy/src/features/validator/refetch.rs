//! Requests the response of a hit from the origin again, and computes a digest of the answer for the comparison.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use http::header::{LAST_MODIFIED, RANGE};
use http::{HeaderName, HeaderValue, StatusCode};
use larder_semantics::date;
use larder_semantics::fields::Fields;
use larder_store::Entry;
use siphasher::sip::SipHasher13;

use crate::base::clock;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::flow::upstream;
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::names::VALIDATE;
use crate::origin::Chunk;

/// The field that distinguishes a validator's request from a client's, for the origin.
pub(super) const MARK: HeaderName = HeaderName::from_static(VALIDATE);
/// The most bytes of content that are fetched again.
pub(super) const LARGEST: u64 = 16 << 20;
/// Bytes of stored content that are read at once.
const PIECE: usize = 256 << 10;

/// The status of an answer and a digest of its content, which is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    status: StatusCode,
    digest: u64,
}

/// The current answer of the origin.
pub(super) struct CurrentAnswer {
    pub(super) content: Content,
    /// `LastRun-Modified`, in seconds since 1970.
    pub(super) modified: Option<u32>,
}

impl Content {
    /// Returns the status and digest of a stored response. Errors: the content cannot be read.
    pub(super) async fn of(entry: &Entry) -> Result<Self, String> {
        let (body, mut digest, mut at) = (entry.body(), hasher(), 0);
        while at < body.len() {
            let piece = body.load(at, PIECE).await.map_err(|error| error.to_string())?;
            digest.write(&piece);
            at += piece.len() as u64;
        }
        Ok(Self { status: entry.status(), digest: digest.finish() })
    }

    /// Returns status and digest as one number: different for different content, except for one case in 2^64.
    pub(super) fn digest(self) -> u64 {
        self.digest ^ u64::from(self.status.as_u16())
    }
}

/// Fetches the target of `request`, past the cache. The error is the reason why there is no answer, or none that can be
/// compared.
pub(super) async fn refetch(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &Request,
) -> Result<CurrentAnswer, String> {
    let mut fields = request.fields.clone();
    fields.remove(RANGE);
    fields.insert(MARK, HeaderValue::from_static("1"));
    let answer = upstream::send(worker, plan, request, &fields, &mut Upload::Empty, None).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status;
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(format!("the origin answered {}", status.as_u16()));
    }
    let modified = answer.fields.first(LAST_MODIFIED.as_str()).and_then(date::parse);
    // A time in the future is of no use (RFC 9110 section 8.8.2.1).
    let modified = modified.filter(|modified| *modified <= clock::now());
    let (mut download, mut digest, mut length) = (answer.download, hasher(), 0);
    while let Some(chunk) = download.next().await? {
        let Chunk::Data(data) = chunk else { continue };
        let room = usize::try_from(LARGEST - length).unwrap_or(usize::MAX);
        // Content above the limit is longer than the hit's, so its beginning is enough to tell them apart.
        digest.write(&data[..data.len().min(room)]);
        if data.len() > room {
            break;
        }
        length += data.len() as u64;
    }
    Ok(CurrentAnswer { content: Content { status, digest: digest.finish() }, modified })
}

/// Digests are keyed, so that no origin can construct content with the same digest.
fn hasher() -> SipHasher13 {
    static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    SipHasher13::new_with_keys(*KEY, !*KEY)
}
