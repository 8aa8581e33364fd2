//! Reads the second tier's response for a request: its record, the decision whether it may answer, and its content.
//!
//! A response is read whole and checked before a client gets a byte of it; after any failure, the request continues
//! as if there were no response. The response counts as fetched when the request arrived: younger purges reach it.

use std::sync::Arc;

use larder_cluster::message::Order;
use larder_cluster::record::{CHUNK, Content, LONGEST, Piece, Record, Response, sum};
use larder_cluster::seal::MessageKind;
use larder_cluster::{Follower, GapReason, Position};
use larder_semantics::freshness::Freshness;
use larder_semantics::purge::Effect;
use larder_semantics::stored_head::StoredHead;
use larder_store::tier::Room;
use larder_store::{Body, Entry, LinesRef, Purges};
use redis::Pipeline;

use super::{EngineTier, Side, chunk};
use crate::base::clock;
use crate::cluster::Cluster;
use crate::cluster::engine::EngineError;
use crate::cluster::sealed::ForgeryCounts;

/// The most entries of the stream that are read to judge a response; a response older than these is not used.
const MOST: usize = 4_096;

/// The reason why the second tier has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum TierMiss {
    #[error("it has no variant that this request selects")]
    Absent,
    #[error("its entry is of another key with the same hash")]
    OtherKey,
    #[error("its entry is stale")]
    Stale,
    #[error("its entry is larger than this node's 'tier' allows")]
    TooLarge,
    #[error("too many responses are being read")]
    NoRoom,
    #[error("it was purged since its fetch began")]
    Purged,
    #[error("the purges since its fetch began are not known: {0}")]
    Missed(&'static str),
    #[error("all responses from the time of its fetch have to be validated")]
    Distrusted,
    #[error("purges of this node are not yet published to the others")]
    Unpublished,
    #[error("its entry is damaged or incomplete")]
    Damaged,
    #[error("{0}")]
    Failed(#[from] EngineError),
}

impl From<GapReason> for TierMiss {
    fn from(missed: GapReason) -> Self {
        Self::Missed(match missed {
            GapReason::New | GapReason::Trimmed => "the stream does not go back so far",
            GapReason::Restarted | GapReason::Unknown => missed.name(),
        })
    }
}

impl TierMiss {
    /// Returns the result under which it is counted.
    pub(super) fn result(&self) -> &'static str {
        match self {
            Self::Absent | Self::OtherKey | Self::Stale | Self::TooLarge | Self::NoRoom => "miss",
            Self::Purged | Self::Missed(_) | Self::Distrusted | Self::Unpublished => "outdated",
            Self::Damaged => "damaged",
            Self::Failed(_) => "failed",
        }
    }
}

/// A value, and the milliseconds for which the engine still keeps it.
type Value = (Option<Vec<u8>>, i64);

/// The engine's value under the name for a request.
pub(super) struct EngineValue {
    pub(super) name: String,
    value: Vec<u8>,
    /// Milliseconds for which the engine still keeps it.
    pub(super) left: i64,
    /// The signature that the response must have.
    signature: Vec<u8>,
}

/// The lookup of one request.
pub(super) struct TierLookup<'r> {
    pub(super) cluster: &'r Cluster,
    pub(super) tier: &'r EngineTier,
    /// The cache key.
    pub(super) key: &'r [u8],
    /// Derives the signature of the request from that of a variant.
    pub(super) signature: &'r (dyn Fn(&[u8]) -> Vec<u8> + Send + Sync),
}

impl TierLookup<'_> {
    /// Reads the response for a fill.
    pub(super) async fn response(&self, room: &mut dyn Room) -> Result<Entry, TierMiss> {
        let found = self.find().await?;
        let (response, freshness) = self.record(&found)?;
        let position = self.judge(&response, &freshness).await?;
        tracing::trace!("second tier: {}: not purged since {position}", found.name);
        if !room.takes(response.content.len()) {
            return Err(TierMiss::NoRoom);
        }
        let body = self.body(room, &found.name, &response.content).await?;
        room.entry(&response.head, freshness, body).ok_or(TierMiss::Damaged)
    }

    /// Finds the record of the response that the request selects.
    pub(super) async fn find(&self) -> Result<EngineValue, TierMiss> {
        let key = self.key;
        let mut name = self.cluster.record(key, &[]);
        let (mut value, mut left) = self.value(&name).await?;
        let mut signature = Vec::new();
        if let Some(Record::Varies(head)) = value
            .as_deref()
            .and_then(|value| self.opened(MessageKind::Record, &name, value))
            .and_then(Record::decode)
            && head.key == key
        {
            signature = (self.signature)(head.signature);
            name = self.cluster.record(key, &signature);
            (value, left) = self.value(&name).await?;
        }
        let value = value.ok_or(TierMiss::Absent)?;
        Ok(EngineValue { name, value, left, signature })
    }

    /// Decodes the response that was `found`, and computes its freshness.
    pub(super) fn record<'f>(&self, found: &'f EngineValue) -> Result<(Response<'f>, Freshness), TierMiss> {
        let value = self.opened(MessageKind::Record, &found.name, &found.value).ok_or(TierMiss::Damaged)?;
        let Some(Record::Response(response)) = Record::decode(value) else {
            return Err(TierMiss::Damaged);
        };
        // Another key with the same hash is not damage.
        if response.head.key != self.key || response.head.signature != found.signature {
            return Err(TierMiss::OtherKey);
        }
        let freshness = freshness(&response, found.left).ok_or(TierMiss::Damaged)?;
        Ok((*response, freshness))
    }

    /// Returns the position up to which no purge has reached the response, if it may be used.
    pub(super) async fn judge(
        &self,
        response: &Response<'_>,
        freshness: &Freshness,
    ) -> Result<Position, TierMiss> {
        if !freshness.is_fresh(clock::now()) {
            return Err(TierMiss::Stale);
        }
        if response.content.len() > self.tier.settings.object {
            return Err(TierMiss::TooLarge);
        }
        let commands = self.cluster.commands_for_stream(response.position, MOST + 1);
        let read = self.side().ask(&self.cluster.engine, &commands).await?;
        let (engine, entries) = self.cluster.stream_of(read).ok_or(GapReason::Unknown)?;
        let positions: Vec<_> = entries.iter().map(|entry| entry.position).collect();
        let follower = Follower::at(response.engine, response.position);
        let known = follower.check(&engine, &positions)?;
        if entries.len() > MOST {
            return Err(TierMiss::Missed("too much has been added to the stream"));
        }
        let mut orders = Vec::new();
        for entry in entries.into_iter().skip(known) {
            let Some(message) = entry.message else { continue };
            match message?.order {
                Order::Purge(effect, about) => {
                    orders.push((effect, about));
                }
                Order::Unsure(_, about) => {
                    orders.push((Effect::Invalid, about));
                }
                Order::Blank(_) | Order::Doubt(_) | Order::Begin => {}
                Order::Distrust => return Err(TierMiss::Distrusted),
            }
        }
        let is_purged = Purges::would_reach(&orders, response.head.key, &fields(&response.head));
        let last = positions.last().copied().filter(|_| !is_purged).ok_or(TierMiss::Purged)?;
        match self.cluster.invalidations.accepts(&engine, last) {
            true => Ok(last),
            false => Err(TierMiss::Missed("the engine that answered lacks entries that this node has read")),
        }
    }

    /// Whether all of the content is there; does not read content outside the record.
    pub(super) async fn is_whole(&self, name: &str, content: &Content<'_>) -> Result<bool, TierMiss> {
        match content {
            Content::Inline(len, piece) => Ok(plain(piece, *len as usize).is_some()),
            Content::Chunks { sums, .. } if sums.is_empty() => Ok(true),
            Content::Chunks { number, sums, .. } => {
                let mut commands = redis::pipe();
                commands.cmd("EXISTS");
                (0..sums.len()).for_each(|at| _ = commands.arg(chunk(name, *number, at)));
                let (there,): (usize,) = self.side().ask(&self.cluster.engine, &commands).await?;
                Ok(there == sums.len())
            }
        }
    }

    /// Returns a value that a node wrote under this name, without its seal; `None` if it is forged.
    fn opened<'v>(&self, kind: MessageKind, name: &str, value: &'v [u8]) -> Option<&'v [u8]> {
        let opened = self.cluster.seal.open(kind, &[name.as_bytes()], value);
        if opened.is_none() {
            ForgeryCounts::count(&self.cluster.forged.records, "a value of the second tier");
        }
        opened
    }

    fn side(&self) -> &Side {
        &self.tier.reads
    }

    async fn value(&self, name: &str) -> Result<Value, EngineError> {
        let mut commands = get(name);
        commands.cmd("PTTL").arg(name);
        let (value, left) = self.side().ask(&self.cluster.engine, &commands).await?;
        Ok((found(value), left))
    }

    /// Reads the content, if it is intact.
    async fn body(&self, room: &mut dyn Room, name: &str, content: &Content<'_>) -> Result<Body, TierMiss> {
        let (number, len, sums) = match content {
            Content::Inline(len, piece) => {
                let bytes = plain(piece, *len as usize).ok_or(TierMiss::Damaged)?;
                return Ok(Body::Heap(bytes.into()));
            }
            Content::Chunks { number, len, sums } => (*number, *len, sums),
        };
        let extent = room.extent(len).map_err(|_| TierMiss::NoRoom)?;
        for (at, expected) in sums.iter().enumerate() {
            let name = chunk(name, number, at);
            let (value,) = self.side().ask(&self.cluster.engine, &get(&name)).await?;
            let size = (len - at as u64 * CHUNK).min(CHUNK) as usize;
            let value = found(value);
            let value = value.as_deref().and_then(|value| self.opened(MessageKind::Chunk, &name, value));
            let bytes = value.and_then(|value| plain(value, size));
            let bytes = bytes.filter(|bytes| sum(bytes) == *expected).ok_or(TierMiss::Damaged)?;
            extent.append(&bytes).map_err(|_| TierMiss::NoRoom)?;
        }
        Ok(Body::file(Arc::new(extent)))
    }
}

/// Returns the command that reads the value called `name`. It reads no more of a value than nodes write: others who use
/// the engine must not fill the memory of nodes.
fn get(name: &str) -> Pipeline {
    let mut commands = redis::pipe();
    commands.cmd("GETRANGE").arg(name).arg(0).arg(LONGEST);
    commands
}

/// Returns what [`get`] has read; `None` if there is no value.
fn found(value: Vec<u8>) -> Option<Vec<u8>> {
    Some(value).filter(|value| !value.is_empty())
}

fn fields<'h>(head: &StoredHead<'h>) -> LinesRef<'h> {
    LinesRef::written(head.shared, head.own)
}

/// Computes age and lifetime. The engine measures the time: `left` is the rest of the milliseconds in the record.
/// `None` if they do not agree.
fn freshness(response: &Response<'_>, left: i64) -> Option<Freshness> {
    let passed = response.expires.checked_sub(u64::try_from(left).ok()?)?.div_ceil(1_000);
    let written = response.head.freshness;
    let initial_age = written.initial_age.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
    Some(Freshness { received: clock::now(), initial_age, ..written })
}

/// Returns the `len` bytes whose [`Piece`] has this value; `None` if it has others.
fn plain(value: &[u8], len: usize) -> Option<Vec<u8>> {
    let bytes = match Piece::decode(value)? {
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
            assert_eq!(plain(&piece.encode(), len).is_some(), expected, "{piece:?} {len}");
        }
    }
}
