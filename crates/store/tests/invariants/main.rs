//! Invariants of the store under any operations, by any number of threads.
//!
//! Every content is derived from its key and version, so that a reader detects a wrong byte.

mod equivalents;
mod fills;
mod groups;
mod handover;
mod hot;
mod memory;
mod purges;
mod reclaim;
mod shards;
mod storm;
mod tiers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_evict::{Capacity, Spec};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::vary;
use larder_store::disks::EventHandler;
use larder_store::entry::Parts;
use larder_store::fill::{Head, Piece, Reader, Verdict};
use larder_store::{
    Arena, Body, ContentEnd, DiskTier, Disks, Entry, Fills, Generation, LinePool, Lines, LinesRef, Memory,
    Resident, Store,
};
use tokio::task::yield_now;

/// Returns random numbers that differ from run to run; `LARDER_SEED` repeats a run.
fn seed() -> fastrand::Rng {
    let given = std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("LARDER_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Returns a store of `capacity` for bodies of at most `max_object` bytes.
fn store(capacity: Capacity, max_object: u64) -> (Arc<Store>, Arc<Fills>) {
    store_on(Disks::default(), capacity, max_object)
}

/// Returns a store like [`store`], with disks.
fn store_on(disks: Disks, capacity: Capacity, max_object: u64) -> (Arc<Store>, Arc<Fills>) {
    let store = Arc::new(Store::new(Memory::new(capacity, &Spec::default(), 3), disks));
    let fills = Fills::new(Arc::clone(&store), Arena::new().expect("memory files"), max_object);
    (store, Arc::new(fills))
}

/// Returns small disks in these directories, open.
fn disks(paths: &[&Path]) -> Disks {
    let tier = |path: &&Path| DiskTier { size: 4 << 20, ..DiskTier::at(path.to_path_buf()) };
    let disks = Disks::new(&paths.iter().map(tier).collect::<Vec<_>>());
    let tell: EventHandler = Arc::new(|_, _| {});
    disks.drives().iter().for_each(|drive| drive.open(&tell).expect("a directory of our own"));
    disks
}

/// Returns bytes `from` up to `to` of a version of a content.
fn content(key: &[u8], version: u64, from: u64, to: u64) -> Vec<u8> {
    let seed =
        key.iter().fold(version + 1, |seed, &byte| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    (from..to).map(|at| (seed.wrapping_mul(at / 5 + 1) >> 32) as u8 ^ at as u8).collect()
}

fn fields(version: u64, len: u64) -> Lines {
    let told = HeaderValue::try_from(format!("{version} {len}")).expect("digits");
    LinePool::default().keep(&[(header::ETAG, told)].into_iter().collect(), 0)
}

/// Returns version and length, as [`fields`] wrote them.
fn told(fields: LinesRef<'_>) -> (u64, u64) {
    let text = std::str::from_utf8(fields.first("etag").expect("a tag")).expect("text");
    let (version, len) = text.split_once(' ').expect("two numbers");
    (version.parse().expect("a number"), len.parse().expect("a number"))
}

fn head(version: u64, len: u64, length: Option<u64>) -> Head {
    let freshness = Freshness { lifetime: 60, ..Freshness::default() };
    Head {
        status: StatusCode::OK,
        fields: fields(version, len),
        signature: Vec::new(),
        freshness,
        cost: 0,
        length,
    }
}

fn entry(key: &[u8], signature: &[u8], version: u64, body: Body) -> Entry {
    let fields = fields(version, body.len());
    let freshness = Freshness::default();
    let (status, born) = (StatusCode::OK, Generation::default());
    let cost = version as u32;
    Entry::new(Parts { key, signature, status, freshness, cost, born, fields: &fields, body })
        .expect("a short key")
}

/// Looks up the responses stored under `key` as a request does.
fn find(memory: &Memory, key: &[u8]) -> Option<Resident> {
    memory.find(key, memory.hash(key), 0)
}

/// Looks up the response behind memory, as a request with these fields does.
async fn recall(fills: &Fills, key: &[u8], request: &HeaderMap, now: u32) -> Option<Entry> {
    let found = fills.recall(key, |varies| vary::again(varies, request), now).await;
    found.map(|(entry, _)| entry)
}

/// Asserts that a stored response equals a response that was stored under `key`.
fn assert_genuine(entry: &Entry, key: &[u8]) {
    assert_eq!(entry.key(), key);
    let (version, len) = told(entry.fields());
    assert_eq!(entry.body().len(), len);
    let bytes = entry.body().copy(0, usize::MAX).expect("it can be read");
    assert!(bytes == content(key, version, 0, len), "wrong bytes under {key:?}, version {version}");
}

/// The end of a reader's content, and its length; `None` without content.
type Read = Option<(u64, ContentEnd)>;

/// Reads a fill of `key` to its end, and asserts every byte; yields `pauses` times for each piece.
async fn read(mut reader: Reader, key: &[u8], pauses: u8) -> Read {
    let (version, len) = match reader.verdict().await {
        Verdict::Stream(head) => told(head.fields.view()),
        Verdict::Stored(entry) | Verdict::StandIn(entry) => {
            assert_genuine(&entry, key);
            return None;
        }
        Verdict::Released | Verdict::Abandoned | Verdict::Failed(..) => return None,
    };
    let mut at = 0;
    loop {
        for _ in 0..pauses {
            yield_now().await;
        }
        let bytes = match reader.next().await {
            Piece::Bytes(bytes) => bytes,
            Piece::File(extent, from, len) => {
                assert_eq!(from, at);
                let mut bytes = vec![0; len as usize];
                extent.read(from, &mut bytes).expect("handed out, so there");
                Bytes::from(bytes)
            }
            Piece::Stored(entry, from, len) => {
                assert_eq!(from, at);
                entry.body().copy(from, len as usize).expect("it can be read")
            }
            Piece::End(ending) => {
                assert!(ending == ContentEnd::Truncated || at == len, "complete after {at} of {len}");
                return Some((at, ending));
            }
        };
        let end = at + bytes.len() as u64;
        assert!(
            bytes == content(key, version, at, end),
            "wrong bytes from {at} of {key:?}, version {version}"
        );
        at = end;
        reader.sent();
    }
}

/// Waits until `condition` returns a value.
async fn eventually<T>(mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it happens in the end")
}
