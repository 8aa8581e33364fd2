//! Asks the second tier for a response, before an origin is asked.
//!
//! What is found is read whole and checked before anybody gets a byte of it; whatever is wrong is as if nothing were
//! there. It is worth what a response is that was fetched when the request came: younger purges reach it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use larder_cluster::message::Order;
use larder_cluster::record::{CHUNK, Content, Piece, Record, Response, sum};
use larder_cluster::{Follower, Position};
use larder_semantics::fields::HeadLines;
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::vary;
use larder_store::entry::Parts;
use larder_store::fill::Lead;
use larder_store::{Body, Entry, Purges};

use super::{Side, Tier, chunk};
use crate::clock;
use crate::cluster::Cluster;
use crate::cluster::engine::EngineError;
use crate::cluster::scopes;
use crate::request::Request;
use crate::worker::Shared;

/// As many entries of the stream are read to judge a response; one that is older than these is not used.
const MOST: usize = 4_096;

/// What came of asking.
enum Found {
    Response(Entry),
    Nothing,
    /// It was purged, or that is not known.
    Outdated,
    /// It is not as it was written, or not whole.
    Damaged,
}

/// A value, and for how many milliseconds the engine is to keep it.
type Value = (Option<Vec<u8>>, i64);

/// What the second tier has for `request`, whose fill `lead` leads.
pub(crate) async fn recall(shared: &Shared, request: &Request, lead: &mut Lead) -> Option<Entry> {
    let cluster = shared.cluster.as_deref()?;
    let tier = cluster.tier_for(request)?;
    let figures = &tier.figures;
    if !tier.reads.admits() {
        figures.skipped.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    figures.asked.fetch_add(1, Ordering::Relaxed);
    let ordered = cluster.news.stream.ordered();
    let found = Reading { shared, cluster, tier, request }.look(lead).await;
    tier.reads.went(&found);
    let count = match &found {
        // What this node was told to purge meanwhile need not be in the stream yet.
        Ok(Found::Response(_)) if ordered.is_none() || ordered != cluster.news.stream.ordered() => {
            &figures.outdated
        }
        Ok(Found::Response(entry)) => {
            figures.hits.fetch_add(1, Ordering::Relaxed);
            return Some(entry.clone());
        }
        Ok(Found::Nothing) => return None,
        Ok(Found::Outdated) => &figures.outdated,
        Ok(Found::Damaged) => &figures.damaged,
        Err(error) => {
            tracing::debug!("{}: second tier: {error}", request.url());
            &figures.failed
        }
    };
    count.fetch_add(1, Ordering::Relaxed);
    None
}

struct Reading<'r> {
    shared: &'r Shared,
    cluster: &'r Cluster,
    tier: &'r Tier,
    request: &'r Request,
}

impl Reading<'_> {
    async fn look(&self, lead: &mut Lead) -> Result<Found, EngineError> {
        let key = &self.request.key;
        let mut name = self.cluster.record(key, &[]);
        let (mut value, mut left) = self.value(&name).await?;
        let mut signature = Vec::new();
        if let Some(Record::Varies { key: of, signature: by }) = value.as_deref().and_then(Record::decode)
            && of == &key[..]
        {
            signature = vary::again(by, &self.request.fields);
            name = self.cluster.record(key, &signature);
            (value, left) = self.value(&name).await?;
        }
        let Some(value) = value else { return Ok(Found::Nothing) };
        let Some(Record::Response(response)) = Record::decode(&value) else { return Ok(Found::Damaged) };
        // Another key of the same hash is no damage.
        if response.key != &key[..] || response.signature != signature {
            return Ok(Found::Nothing);
        }
        let Some(freshness) = freshness(&response, left) else { return Ok(Found::Damaged) };
        if !freshness.is_fresh(clock::now()) || response.content.len() > self.tier.settings.object {
            return Ok(Found::Nothing);
        }
        let Some(position) = self.judge(&response).await? else { return Ok(Found::Outdated) };
        tracing::trace!("{}: second tier: not purged since {position}", self.request.url());
        if !lead.takes(response.content.len()) {
            return Ok(Found::Nothing);
        }
        let Some(body) = self.body(&name, &response.content).await? else { return Ok(Found::Damaged) };
        Ok(self.entry(lead, &response, freshness, body).map_or(Found::Damaged, Found::Response))
    }

    fn side(&self) -> &Side {
        &self.tier.reads
    }

    async fn value(&self, name: &str) -> Result<Value, EngineError> {
        let mut commands = redis::pipe();
        commands.cmd("GET").arg(name).cmd("PTTL").arg(name);
        self.side().ask(&self.cluster.engine, &commands).await
    }

    /// The place since which nothing has purged the response; `None` if something has, or nobody knows.
    async fn judge(&self, response: &Response<'_>) -> Result<Option<Position>, EngineError> {
        let commands = self.cluster.commands_for_stream(response.position, MOST + 1);
        let read = self.side().ask(&self.cluster.engine, &commands).await?;
        let Some((engine, entries)) = Cluster::stream_of(read) else { return Ok(None) };
        let positions: Vec<_> = entries.iter().map(|entry| entry.position).collect();
        let follower = Follower::at(response.engine, response.position);
        let Ok(known) = follower.check(&engine, &positions) else { return Ok(None) };
        if entries.len() > MOST {
            return Ok(None);
        }
        let mut orders = Vec::new();
        for entry in entries.into_iter().skip(known) {
            match entry.message.map(|message| message.order) {
                Ok(Order::Purge(effect, about)) => {
                    orders.push((scopes::effect(effect), about.into_iter().map(scopes::heard).collect()));
                }
                Ok(Order::Blank(_) | Order::Doubt(_) | Order::Begin) => {}
                Ok(Order::Distrust) | Err(_) => return Ok(None),
            }
        }
        let fields = HeadLines(response.fields);
        let is_purged = Purges::would_reach(&orders, response.key, &fields);
        Ok(positions.last().copied().filter(|_| !is_purged))
    }

    /// The content; `None` if it is not what was written.
    async fn body(&self, name: &str, content: &Content<'_>) -> Result<Option<Body>, EngineError> {
        let (number, len, sums) = match content {
            Content::Inline(len, piece) => {
                return Ok(plain(*piece, *len as usize).map(|bytes| Body::Heap(bytes.into())));
            }
            Content::Chunks { number, len, sums } => (*number, *len, sums),
        };
        let Ok(extent) = self.shared.fills.arena().extent(Some(len)) else { return Ok(None) };
        for (at, expected) in sums.iter().enumerate() {
            let mut commands = redis::pipe();
            commands.cmd("GET").arg(chunk(name, number, at));
            let (value,): (Option<Vec<u8>>,) = self.side().ask(&self.cluster.engine, &commands).await?;
            let size = (len - at as u64 * CHUNK).min(CHUNK) as usize;
            let bytes = value.as_deref().and_then(Piece::decode).and_then(|piece| plain(piece, size));
            let Some(bytes) = bytes.filter(|bytes| sum(bytes) == *expected) else { return Ok(None) };
            if extent.append(&bytes).is_err() {
                return Ok(None);
            }
        }
        Ok(Some(Body::File(Arc::new(extent))))
    }

    fn entry(&self, lead: &Lead, response: &Response<'_>, freshness: Freshness, body: Body) -> Option<Entry> {
        let fields = HeadLines(response.fields).to_map();
        Entry::new(Parts {
            key: response.key,
            signature: response.signature,
            status: StatusCode::from_u16(response.status).ok()?,
            freshness,
            cost: response.cost,
            born: lead.born(),
            fields: &self.shared.store.memory.keep(&fields, freshness.date),
            body,
        })
    }
}

/// Age and lifetime, of which the engine keeps account: `left` is what it says of the milliseconds it was told. `None`
/// if they do not agree.
fn freshness(response: &Response<'_>, left: i64) -> Option<Freshness> {
    let passed = response.expires.checked_sub(u64::try_from(left).ok()?)?.div_ceil(1_000);
    Some(Freshness {
        received: clock::now(),
        initial_age: response.age.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX)),
        lifetime: response.lifetime,
        date: response.date,
        stale_while_revalidate: response.stale_while_revalidate,
        stale_if_error: response.stale_if_error,
        flags: Flags::from_bits(response.flags),
    })
}

/// The `len` bytes that a piece stands for; `None` if it does not.
fn plain(piece: Piece<'_>, len: usize) -> Option<Vec<u8>> {
    let bytes = match piece {
        Piece::Plain(bytes) => bytes.to_vec(),
        Piece::Zstd(bytes) => zstd::bulk::decompress(bytes, len).ok()?,
    };
    (bytes.len() == len).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_as_long_as_it_should_be() {
        let (text, packed) = (&b"aaaaaaaa"[..], zstd::bulk::compress(b"aaaaaaaa", 1).expect("it can"));
        for (piece, len, expected) in [
            (Piece::Plain(text), 8, true),
            (Piece::Plain(text), 7, false),
            (Piece::Zstd(&packed), 8, true),
            (Piece::Zstd(&packed), 7, false),
            (Piece::Zstd(&packed), 9, false),
            (Piece::Zstd(text), 8, false),
        ] {
            assert_eq!(plain(piece, len).is_some(), expected, "{piece:?} {len}");
        }
    }
}
