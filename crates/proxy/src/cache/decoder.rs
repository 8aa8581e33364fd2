//! Decodes contents that their origins compressed, for clients that do not accept the coding.
//!
//! The decoded form is stored beside the response, like the forms of the compressor, or the failure is remembered, so
//! that each content is decoded once. A request waits a short time for that; few contents are decoded at once, and a
//! client has a share of these places. Decoded bytes that cannot be stored count against a budget until they are sent.
//! Content that arrives is decoded while it is sent, which takes the memory of a decoder.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_coding::StreamDecoder;
use larder_semantics::coding::Coding;
use larder_store::Entry;
use larder_words::with_defaults;

use super::Cache;
use crate::base::low_priority;
use crate::exchange::encoded::ContentCoder;
use crate::net::byte_budget::{ByteBudget, Share};
use crate::net::concurrency::{ConcurrencyLimit, Permit};

/// The most contents that are decoded at once, those for RPC clients included. One client has at most half.
const AT_ONCE: usize = 4;
/// The most requests that wait for their turn.
const WAITING: usize = 256;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most bytes of decoded contents that are not stored and wait to be sent. One client has at most half.
const UNSENT: usize = 64 << 20;
/// The longest content that is decoded, in bytes, with its coding and without. Longer content is sent as it is.
const LONGEST: u64 = 8 << 20;
/// The largest window of zstd, as a power of two: the window of browsers (RFC 9659).
const WINDOW: u32 = 23;
/// The most bytes of decoders through which content passes. One client has at most half.
const PASSING: usize = 64 << 20;

with_defaults! {
    /// The limits on decoding.
    pub(crate) struct Decoder {
        limit: Arc<ConcurrencyLimit> = Arc::new(ConcurrencyLimit::new(AT_ONCE, WAITING)),
        unsent: ByteBudget = ByteBudget::new(UNSENT),
        passing: ByteBudget = ByteBudget::new(PASSING),
    }
}

pub(crate) enum DecodedContent {
    /// It is stored with this response.
    Stored(Entry),
    /// It is not stored.
    Loose(Bytes),
}

impl Decoder {
    /// Waits for `client`'s turn to have content decoded; `None` after `patience`, or if too many requests wait.
    pub(crate) async fn turn(&self, client: IpAddr, patience: Duration) -> Option<Permit> {
        let claim = self.limit.claim(client, client);
        tokio::time::timeout(patience, self.limit.enter(claim, None)).await.ok()?.ok()
    }

    /// Returns a decoder through which content passes to `client`, and its share of the budget; `None` without room.
    pub(crate) fn passing(&self, coding: Coding, client: IpAddr) -> Option<ContentCoder> {
        let mut share = self.passing.share(client);
        // The windows of the codings, with some buffers.
        let window = match coding {
            Coding::Gzip => 64 << 10,
            Coding::Brotli => 16 << 20,
            Coding::Zstd => 1 << WINDOW,
        };
        let decoder = share.grow(window).then(|| StreamDecoder::new(coding, WINDOW).ok())??;
        Some(ContentCoder::decoder(decoder, share))
    }
}

/// Returns the content of `entry` without its `coding`, for `client`; `None` if there is no place for it, or if the
/// content cannot be decoded or is too long.
pub(crate) async fn decoded(
    cache: &Arc<Cache>,
    entry: Entry,
    coding: Coding,
    client: IpAddr,
) -> Option<DecodedContent> {
    let permit = cache.decoder.turn(client, PATIENCE).await?;
    let cache = Arc::clone(cache);
    let work = move || {
        // Only decoding needs the permit: a client that reads slowly must not take decoding from others.
        let _permit = permit;
        decode(&cache, &entry, coding, client)
    };
    low_priority::run("decode", work).await?
}

fn decode(cache: &Cache, entry: &Entry, coding: Coding, client: IpAddr) -> Option<DecodedContent> {
    let resident = cache.variant(entry.key(), entry.signature());
    let is_same = |own: &Entry| {
        let is_in_memory = own.body().record().is_none();
        is_in_memory && own.freshness() == entry.freshness() && own.body().len() == entry.body().len()
    };
    let resident = resident.filter(is_same);
    // Meanwhile, another request may have had it decoded.
    if let Some(coded) = resident.as_ref().and_then(Entry::coded).filter(|coded| coded.is_tried(None)) {
        return coded.form(None).and(resident.clone()).map(DecodedContent::Stored);
    }
    let body = entry.body();
    let input = body.copy(0, LONGEST as usize).ok().filter(|input| input.len() as u64 == body.len());
    let bytes = input.and_then(|input| larder_coding::decode(coding, &input, WINDOW, LONGEST));
    let Some(resident) = resident else { return bytes.and_then(|bytes| loose(cache, bytes.into(), client)) };
    let Some(bytes) = bytes else {
        cache.store.memory.add_form(&resident, None, None);
        return None;
    };
    let body = cache.body(bytes).ok()?;
    if cache.store.memory.add_form(&resident, None, Some(body.duplicate()))
        && let Some(stored) = cache.variant(entry.key(), entry.signature())
        && stored.coded().is_some_and(|coded| coded.form(None).is_some())
    {
        return Some(DecodedContent::Stored(stored));
    }
    loose(cache, body.copy(0, LONGEST as usize).ok()?, client)
}

/// Returns `bytes` as content that counts against the budget until it is sent; `None` if there is no room in it.
fn loose(cache: &Cache, bytes: Bytes, client: IpAddr) -> Option<DecodedContent> {
    let mut share = cache.decoder.unsent.share(client);
    share
        .grow(bytes.len())
        .then(|| DecodedContent::Loose(Bytes::from_owner(DecodedPart { bytes, _share: share })))
}

/// Decoded bytes, and their share of the budget.
struct DecodedPart {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for DecodedPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_waits_for_its_turn_as_long_as_it_may() {
        let decoder = Decoder::default();
        let [client, other] = [1, 2].map(|number| IpAddr::from([127, 0, 0, number]));
        let mut held = Vec::new();
        while let Some(permit) = decoder.turn(client, Duration::ZERO).await {
            held.push(permit);
        }
        assert_eq!(held.len(), AT_ONCE / 2, "more would have to wait, and may not");
        assert!(decoder.turn(other, Duration::ZERO).await.is_some());
        let ended = async { drop(held.pop()) };
        let (turn, ()) = tokio::join!(decoder.turn(client, Duration::MAX), ended);
        assert!(turn.is_some(), "after the end of another");
    }
}
