//! All operations at once: leaders that finish, fail, panic and are purged, readers that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::HeaderMap;
use larder_evict::{By, Capacity};
use larder_store::fill::{FillWriter, Verdict};
use larder_store::{ContentEnd, Disks, Fills, JoinResult, Store};
use tokio::task::yield_now;

use super::{assert_genuine, content, disks, find, head, read, recall, store_on};

const KEYS: u64 = 12;
const CLIENTS: u64 = 16;
const REQUESTS: u64 = 500;
const MAX_OBJECT: u64 = 150_000;

/// Counts of the outcomes, so that a storm with too few of them is detected.
#[derive(Debug, Default)]
struct Met {
    hits: AtomicU64,
    recalled: AtomicU64,
    whole: AtomicU64,
    truncated: AtomicU64,
    without_content: AtomicU64,
}

fn key(n: u64) -> Vec<u8> {
    format!("http://h/{n}").into_bytes()
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Fetches some version for `writer`; one fetch in eight ends in each way of failure.
async fn fetch(mut writer: FillWriter, version: u64, mut rng: Rng) {
    let key = writer.key().to_vec();
    // Small, large, and occasionally too large to be stored.
    let most = [4_000, 120_000, 120_000, 400_000][rng.usize(..4)];
    let len = rng.u64(..most);
    match rng.u8(..8) {
        0 => return writer.settle(Verdict::Released),
        1 => return,
        _ => writer.stream(head(version, len, rng.bool().then_some(len))),
    };
    writer.keep().await;
    let (fails, panics) = (rng.u8(..8) == 0, rng.u8(..8) == 0);
    let mut at = 0;
    while at < len {
        let end = len.min(at + rng.u64(1..40_000));
        // The fetch stops when all readers have left.
        if writer.append(&content(&key, version, at, end)).await.is_err() {
            return;
        }
        at = end;
        yield_now().await;
        if at > len / 2 && fails {
            return;
        }
        assert!(at <= len / 2 || !panics, "as intended by this test");
    }
    drop(writer.finish(None));
}

async fn client(store: Arc<Store>, fills: Arc<Fills>, number: u64, met: Arc<Met>) {
    let mut rng = Rng::with_seed(number);
    for request in 0..REQUESTS {
        let key = key(rng.u64(..KEYS));
        if rng.u8(..8) == 0 {
            fills.purge(&key);
        }
        if let Some(found) = find(&store.memory, &key) {
            found.variants().iter().for_each(|entry| assert_genuine(entry, &key));
            count(&met.hits);
            continue;
        }
        if let Some(found) = recall(&fills, &key, &HeaderMap::new(), 0).await {
            assert_genuine(&found, &key);
            count(&met.recalled);
            continue;
        }
        let reader = match fills.join(&key, b"") {
            JoinResult::Follow(reader) => reader,
            JoinResult::Writer(writer) => {
                let reader = writer.reader();
                tokio::spawn(fetch(writer, number * REQUESTS + request, rng.fork()));
                reader
            }
        };
        let (pauses, leaves) = (rng.u8(..4), rng.u8(..10) == 0);
        let reading = read(reader, &key, pauses);
        if leaves {
            // A client that disconnects in the middle.
            let _ = tokio::time::timeout(Duration::from_micros(rng.u64(..500)), reading).await;
            continue;
        }
        count(match reading.await {
            None => &met.without_content,
            Some((_, ContentEnd::Complete)) => &met.whole,
            Some((_, ContentEnd::Truncated)) => &met.truncated,
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_leaves_nothing_behind() {
    storm(Disks::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_over_two_disks_leaves_nothing_behind() {
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    storm(disks(&directories.each_ref().map(|directory| directory.path()))).await;
}

async fn storm(disks: Disks) {
    let capacity = Capacity { by: By::Bytes, amount: 600_000 };
    let (store, fills) = store_on(disks, capacity, MAX_OBJECT);
    let met = Arc::new(Met::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(Arc::clone(&store), Arc::clone(&fills), number, Arc::clone(&met))))
        .collect();
    for client in clients {
        let ended = tokio::time::timeout(Duration::from_secs(60), client).await.expect("each client ends");
        ended.expect("no wrong byte");
        assert_eq!(store.memory.validate(), Ok(()));
        assert!(store.memory.usage().bytes <= capacity.amount, "{:?}", store.memory.usage());
    }
    // Fetches whose readers have left end without intervention.
    let all_done = async {
        while fills.under_way() > 0 || store.memory.usage().filling > 0 {
            yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_done).await.expect("every fetch ends");
    for met in [&met.hits, &met.whole, &met.truncated, &met.without_content] {
        assert!(met.load(Ordering::Relaxed) > 20, "too calm");
    }
    assert!(store.disks.is_empty() || met.recalled.load(Ordering::Relaxed) > 20, "too calm");
    store.disks.sync().expect("the disks take it");
    for n in 0..KEYS {
        fills.purge(&key(n));
        assert!(recall(&fills, &key(n), &HeaderMap::new(), 0).await.is_none());
    }
    assert_eq!((store.memory.usage().bytes, store.memory.usage().objects, fills.arena().held()), (0, 0, 0));
}
