//! Asks the origin again for what a hit answered, and makes of what comes a number that can be compared.

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

/// The field by which an origin can tell such a request from a client's.
pub(super) const MARK: HeaderName = HeaderName::from_static(VALIDATE);
/// Bytes of content that are fetched again at most.
pub(super) const LARGEST: u64 = 16 << 20;
/// Bytes of stored content that are read at once.
const PIECE: usize = 256 << 10;

/// What somebody was answered: status and content, without keeping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    status: StatusCode,
    digest: u64,
}

/// What the origin answers at this moment.
pub(super) struct Refetched {
    pub(super) content: Content,
    /// `Last-Modified`, in seconds since 1970.
    pub(super) modified: Option<u32>,
}

impl Content {
    /// That of a stored response.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn of(entry: &Entry) -> Result<Self, String> {
        let (body, mut digest, mut at) = (entry.body(), hasher(), 0);
        while at < body.len() {
            let piece = body.load(at, PIECE).await.map_err(|error| error.to_string())?;
            digest.write(&piece);
            at += piece.len() as u64;
        }
        Ok(Self { status: entry.status(), digest: digest.finish() })
    }

    /// It as a number: different for different content, but for one case in 2^64.
    pub(super) fn digest(self) -> u64 {
        self.digest ^ u64::from(self.status.as_u16())
    }
}

/// Asks for what `request` asks for, past the cache.
///
/// # Errors
/// Why there is no answer, or none to compare with.
pub(super) async fn refetch(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &Request,
) -> Result<Refetched, String> {
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
    // A time that is yet to come says nothing (RFC 9110 section 8.8.2.1).
    let modified = modified.filter(|modified| *modified <= clock::now());
    let (mut download, mut digest, mut length) = (answer.download, hasher(), 0);
    while let Some(chunk) = download.next().await? {
        let Chunk::Data(data) = chunk else { continue };
        let room = usize::try_from(LARGEST - length).unwrap_or(usize::MAX);
        // What is longer than anything that it is compared with is told apart by its beginning.
        digest.write(&data[..data.len().min(room)]);
        if data.len() > room {
            break;
        }
        length += data.len() as u64;
    }
    Ok(Refetched { content: Content { status, digest: digest.finish() }, modified })
}

/// Digests are keyed, so that no origin can make up content that looks the same.
fn hasher() -> SipHasher13 {
    static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    SipHasher13::new_with_keys(*KEY, !*KEY)
}
