//! Tests of a single fill: the actions of its leader, and the bytes of its readers.

use std::sync::{Arc, Barrier};
use std::thread;

use larder_evict::{By, Capacity};
use larder_semantics::purge::Scope;
use larder_store::fill::{FillWriter, StoreRefusal, WINDOW};
use larder_store::{ContentEnd, Fills, JoinResult, Store};
use tokio::task::{JoinHandle, yield_now};

use super::{Read, assert_genuine, content, find, head, read, store};

const KEY: &[u8] = b"http://h/a";
const LEN: u64 = 200_000;
const PIECE: u64 = 10_000;

fn writer(fills: &Arc<Fills>) -> FillWriter {
    match fills.join(KEY, b"") {
        JoinResult::Writer(writer) => writer,
        JoinResult::Follow(_) => panic!("another request leads the fill"),
    }
}

/// Returns a leader, and readers of the same fill: its own client's and three followers'.
fn begin() -> (Arc<Store>, Arc<Fills>, FillWriter, Vec<JoinHandle<Read>>) {
    let (store, fills) = store(Capacity { by: By::Bytes, amount: 8 << 20 }, 1 << 20);
    let writer = writer(&fills);
    let mut readers = vec![writer.reader()];
    for _ in 0..3 {
        let JoinResult::Follow(reader) = fills.join(KEY, b"") else { panic!("no request leads a fill") };
        readers.push(reader);
    }
    let readers = readers.into_iter().map(|reader| tokio::spawn(read(reader, KEY, 1)));
    (store, fills, writer, readers.collect())
}

async fn append(writer: &mut FillWriter, from: u64, to: u64) {
    for at in (from..to).step_by(PIECE as usize) {
        writer.append(&content(KEY, 1, at, to.min(at + PIECE))).await.expect("room");
        yield_now().await;
    }
}

async fn all(readers: Vec<JoinHandle<Read>>) -> Vec<Read> {
    let mut all = Vec::new();
    for reader in readers {
        all.push(reader.await.expect("no wrong byte"));
    }
    all
}

/// Asserts that no fill has left memory in use.
fn assert_nothing_under_way(store: &Store, fills: &Fills) {
    assert_eq!(store.memory.validate(), Ok(()));
    assert_eq!((fills.under_way(), store.memory.usage().filling), (0, 0));
    store.remove(KEY);
    assert_eq!((store.memory.usage().bytes, fills.arena().held()), (0, 0));
}

#[tokio::test]
async fn a_finished_fill_is_read_by_all_and_stored() {
    let (store, fills, mut writer, readers) = begin();
    assert!(writer.stream(head(1, LEN, Some(LEN))));
    append(&mut writer, 0, LEN).await;
    assert_genuine(&writer.finish(None).expect("stored"), KEY);
    assert_eq!(all(readers).await, [Some((LEN, ContentEnd::Complete)); 4]);
    assert_genuine(&find(&store.memory, KEY).expect("stored").variants()[0], KEY);
    assert_nothing_under_way(&store, &fills);
}

#[tokio::test]
async fn a_purged_fill_is_not_stored_and_its_readers_get_everything() {
    let (store, fills, mut writer, readers) = begin();
    writer.stream(head(1, LEN, Some(LEN)));
    append(&mut writer, 0, LEN / 2).await;
    fills.cancel(KEY);
    assert!(matches!(fills.join(KEY, b""), JoinResult::Writer(_)), "no request joins a purged fill");
    append(&mut writer, LEN / 2, LEN).await;
    assert_eq!(writer.finish(None).err(), Some(StoreRefusal::Outdated));
    assert_eq!(all(readers).await, [Some((LEN, ContentEnd::Complete)); 4]);
    assert!(find(&store.memory, KEY).is_none());
    assert_nothing_under_way(&store, &fills);
}

#[tokio::test]
async fn a_leader_that_leaves_wakes_all_readers() {
    for appended in [None, Some(0), Some(LEN / 2)] {
        let (store, fills, mut writer, readers) = begin();
        if let Some(appended) = appended {
            writer.stream(head(1, LEN, None));
            append(&mut writer, 0, appended).await;
        }
        yield_now().await;
        drop(writer);
        let expected = appended.map(|appended| (appended, ContentEnd::Truncated));
        assert_eq!(all(readers).await, [expected; 4]);
        assert!(find(&store.memory, KEY).is_none());
        assert_nothing_under_way(&store, &fills);
    }
}

#[tokio::test]
async fn a_leader_that_panics_wakes_all_readers() {
    let (store, fills, mut writer, readers) = begin();
    let leading = tokio::spawn(async move {
        writer.stream(head(1, LEN, None));
        append(&mut writer, 0, LEN / 2).await;
        panic!("as intended by this test");
    });
    assert!(leading.await.unwrap_err().is_panic());
    assert_eq!(all(readers).await, [Some((LEN / 2, ContentEnd::Truncated)); 4]);
    assert_nothing_under_way(&store, &fills);
}

/// Sends a body too large to store to readers that pause 0, 1 and 5 times for each piece.
async fn through_a_window(length: Option<u64>) {
    const LARGE: u64 = 6 << 20;
    let (store, fills) = store(Capacity { by: By::Bytes, amount: 8 << 20 }, 1 << 20);
    let mut writer = writer(&fills);
    let readers = [0, 1, 5].map(|pauses| tokio::spawn(read(writer.reader(), KEY, pauses)));
    let waiting = writer.reader();
    assert_eq!(writer.stream(head(1, LARGE, length)), length.is_none());
    assert_eq!(waiting.is_shared(), length.is_none());
    drop(waiting);
    let mut most = 0;
    for at in (0..LARGE).step_by(1 << 16) {
        writer.append(&content(KEY, 1, at, at + (1 << 16))).await.expect("readers");
        most = most.max(fills.arena().held());
    }
    assert!(writer.finish(None).is_err());
    assert_eq!(all(readers.into()).await, [Some((LARGE, ContentEnd::Complete)); 3]);
    // The bytes stored until the body proved too large, the window, and the piece and page in progress.
    assert!(most <= (1 << 20) + WINDOW + (1 << 17), "{most} bytes held");
    assert_nothing_under_way(&store, &fills);
}

#[tokio::test]
async fn a_body_known_to_be_too_large_arrives_whole_through_a_window() {
    through_a_window(Some(6 << 20)).await;
}

#[tokio::test]
async fn a_body_that_turns_out_too_large_arrives_whole_through_a_window() {
    through_a_window(None).await;
}

#[tokio::test]
async fn a_window_without_readers_ends_the_fetch() {
    let (store, fills) = store(Capacity { by: By::Bytes, amount: 8 << 20 }, 1 << 10);
    let mut writer = writer(&fills);
    drop(writer.reader());
    writer.stream(head(1, LEN, Some(LEN)));
    assert!(writer.append(&content(KEY, 1, 0, PIECE)).await.is_err());
    drop(writer);
    assert_nothing_under_way(&store, &fills);
}

/// Whether the purge or the end of the fill comes first: no response is stored once both are done.
#[test]
fn a_purge_beside_the_end_of_a_fill_wins() {
    let (store, fills) = store(Capacity { by: By::Bytes, amount: 8 << 20 }, 1 << 20);
    let (begin, done) = (Barrier::new(2), Barrier::new(2));
    const ROUNDS: usize = 20_000;
    // Checked afterwards: a panic would leave the other thread waiting.
    let mut survived = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                begin.wait();
                fills.purge(KEY);
                done.wait();
            }
        });
        for _ in 0..ROUNDS {
            let mut writer = writer(&fills);
            writer.stream(head(1, 0, Some(0)));
            begin.wait();
            drop(writer.finish(None));
            done.wait();
            survived += usize::from(find(&store.memory, KEY).is_some());
        }
    });
    assert_eq!(survived, 0, "of {ROUNDS}");
}

/// A fetch that becomes a fill only once it has a response to store began before that.
#[test]
fn a_purge_since_a_fetch_began_wins_over_a_fill_made_later() {
    for purged in [false, true] {
        let (store, fills) = store(Capacity { by: By::Bytes, amount: 8 << 20 }, 1 << 20);
        let began = fills.epoch(KEY);
        if purged {
            fills.cancel(KEY);
        }
        let mut writer = fills.alone(KEY, began);
        writer.stream(head(1, 0, Some(0)));
        assert_eq!(writer.finish(None).is_err(), purged);
        assert_eq!(find(&store.memory, KEY).is_none(), purged);
        assert_nothing_under_way(&store, &fills);
    }
}

/// Returns a fill that was fetched while each of these keys was spoiled.
fn kept_while_spoiling(keys: impl Iterator<Item = Vec<u8>>) -> bool {
    let (_, fills) = store(Capacity { by: By::Bytes, amount: 1 << 20 }, 1 << 16);
    let began = fills.epoch(KEY);
    keys.for_each(|key| fills.spoil(&key, |_| false));
    let mut writer = fills.alone(KEY, began);
    writer.stream(head(1, 0, Some(0)));
    writer.finish(None).is_ok()
}

#[test]
fn changes_of_other_keys_do_not_keep_a_response_out() {
    let others = |count: u64| (0..count).map(|number| format!("http://site.test/{number}").into_bytes());
    assert!(kept_while_spoiling(others(1_000)));
    assert!(!kept_while_spoiling(others(1_000).chain([KEY.to_vec()])));
    // Too many to remember each of them.
    assert!(!kept_while_spoiling(others(100_000)));
}

#[test]
fn ones_own_change_is_distinguished_from_any_other() {
    let (kept, fills) = store(Capacity { by: By::Bytes, amount: 1 << 20 }, 1 << 16);
    let keys: Vec<_> = (0..100).map(|number| format!("http://site.test/{number}").into_bytes()).collect();
    let hash = kept.memory.hash(&keys[0]);
    let urls: Vec<_> = keys.iter().cloned().map(Scope::Url).collect();
    let began = fills.epoch_of(hash);
    keys.iter().for_each(|key| fills.spoil(key, |_| false));
    assert!(!fills.is_cancelled_by_others(hash, began, &urls));
    fills.spoil(&keys[1], |_| false);
    assert!(!fills.is_cancelled_by_others(hash, began, &urls));
    fills.spoil(&keys[0], |_| false);
    assert!(fills.is_cancelled_by_others(hash, began, &urls));
}
