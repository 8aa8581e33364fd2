//! Negotiates the form of a reply that took some waiting: by [`forms::choose`], also by rules on the response, and
//! without a coding for the few clients that do not accept the coding of the origin.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use larder_semantics::coding::Coding;
use larder_semantics::storable::Rules;
use larder_store::{Body, Entry};
use tokio::sync::OwnedSemaphorePermit;

use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::rulebook::Ruling;
use crate::flow::forms;
use crate::flow::worker::Worker;

/// The longest content that is decoded, in bytes. Longer content is sent as it is.
const LONGEST: u64 = 8 << 20;
/// The largest window of zstd, as a power of two: the window of browsers (RFC 9659).
const WINDOW: u32 = 23;

/// Chooses the form of a stored response. Another node that requests a response compresses it itself.
pub(super) async fn form(worker: &Arc<Worker>, plan: &Plan, request: &Request, reply: &mut Reply) {
    let Some(accepted) = request.accepted.as_ref().filter(|_| !request.by_peer && request.ruling.caches)
    else {
        return;
    };
    let by_response = request.route.rulebook(&plan.forward).compresses_by_response();
    let ruling = by_response.then(|| ruling(plan, request, reply)).flatten();
    let Rules { compression, .. } = &ruling.as_ref().unwrap_or(&request.ruling).caching;
    if !compression.is_on() {
        return;
    }
    if let Some(coding) = forms::choose(&worker.cache, compression, (&request.fields, accepted), reply)
        && let (Source::Entry(entry), Content::Stored(..)) = (&reply.fields, &reply.content)
    {
        let (entry, is_head) = (entry.clone(), request.method == Method::HEAD);
        Box::pin(undo(worker, coding, entry, is_head, reply)).await;
    }
}

/// Returns the ruling on the request and on the response of which `reply` is made; `None` if it is that of the request.
fn ruling(plan: &Plan, request: &Request, reply: &Reply) -> Option<Arc<Ruling>> {
    match &reply.fields {
        Source::Entry(entry) | Source::NotModified(entry) => {
            let about = (entry.status(), Some(entry.body().len()), &entry.fields());
            request.rule_response(plan, about)
        }
        Source::Fill(head) => request.rule_response(plan, (head.status, head.length, &head.fields.view())),
        Source::Answer(lines) => request.rule_response(plan, (reply.status, reply.length, &**lines)),
        Source::Fields(fields) if reply.status == StatusCode::OK => {
            request.rule_response(plan, (reply.status, reply.length, &**fields))
        }
        Source::Fields(_) => None,
    }
}

/// Replaces the content of the reply with the decoded content of `entry`, if a permit is free now.
async fn undo(worker: &Arc<Worker>, coding: Coding, entry: Entry, is_head: bool, reply: &mut Reply) {
    if is_head {
        (reply.length, reply.content) = (None, Content::None);
        reply.negotiated = reply.negotiated.undone();
        return;
    }
    let Ok(permit) = Arc::clone(&worker.cache.undoing).try_acquire_owned() else { return };
    let work =
        move || undone(coding, entry.body()).map(|bytes| Bytes::from_owner(Held { bytes, _permit: permit }));
    if let Ok(Some(bytes)) = tokio::task::spawn_blocking(work).await {
        // The whole content, even if a range was requested: the client may have the beginning in another form.
        (reply.status, reply.content_range) = (StatusCode::OK, None);
        (reply.length, reply.content) = (Some(bytes.len() as u64), Content::Bytes(bytes));
        reply.negotiated = reply.negotiated.undone();
    }
}

/// Decoded bytes, which count against the limit of all clients until they are sent.
struct Held {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the decoded content; `None` if it is not in that coding, or too long.
fn undone(coding: Coding, body: &Body) -> Option<Vec<u8>> {
    let input = body.copy(0, LONGEST as usize).ok().filter(|input| input.len() as u64 == body.len())?;
    let mut reader: Box<dyn Read> = match coding {
        Coding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(&input[..])),
        Coding::Brotli => Box::new(brotli::Decompressor::new(&input[..], 64 << 10)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&input[..]).ok()?;
            decoder.window_log_max(WINDOW).ok()?;
            Box::new(decoder)
        }
    };
    let mut whole = Vec::new();
    reader.by_ref().take(LONGEST + 1).read_to_end(&mut whole).ok()?;
    (whole.len() as u64 <= LONGEST).then_some(whole)
}
