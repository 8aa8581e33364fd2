//! Memory and disk together: their contents, and the moves between them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use http::{HeaderMap, HeaderValue, header};
use larder_disk::ObjectInfo;
use larder_evict::{By, Capacity};
use larder_semantics::freshness::Freshness;
use larder_semantics::vary;
use larder_store::disks::{Event, EventHandler};
use larder_store::fill::Head;
use larder_store::{Body, DiskTier, Disks, Entry, Fills, JoinResult, Store};

use super::{assert_genuine, content, disks, fields, find, head, store_on};

const KEY: &[u8] = b"http://h/a";
const SMALL: u64 = 5_000;
const LARGE: u64 = 300_000;

fn begin(path: &Path) -> (Arc<Store>, Arc<Fills>) {
    store_on(disks(&[path]), Capacity { by: By::Bytes, amount: 8 << 20 }, 200_000)
}

/// Stores a response of `len` bytes under `head`, and waits until the disk has it.
async fn keep(store: &Store, fills: &Arc<Fills>, key: &[u8], head: Head, version: u64, len: u64) {
    let JoinResult::Writer(mut writer) = fills.join(key, &head.signature) else {
        panic!("another request leads the fill")
    };
    assert!(writer.stream(head), "it is to be stored");
    writer.keep().await;
    let reader = writer.reader();
    for at in (0..len).step_by(50_000) {
        writer.append(&content(key, version, at, len.min(at + 50_000))).await.expect("room");
        reader.sent();
    }
    drop(reader);
    drop(writer.finish(None));
    store.disks.sync().expect("the disk takes it");
}

async fn recall(fills: &Fills, request: &HeaderMap) -> Option<Entry> {
    super::recall(fills, KEY, request, 0).await
}

fn asks(language: &'static str) -> HeaderMap {
    [(header::ACCEPT_LANGUAGE, HeaderValue::from_static(language))].into_iter().collect()
}

fn variant(language: &'static str, version: u64, len: u64) -> Head {
    let varies =
        [(header::VARY, HeaderValue::from_static("accept-language"))].into_iter().collect::<HeaderMap>();
    let mut signature = Vec::new();
    vary::write(&varies, &asks(language), &mut signature).expect("it varies by a name");
    Head { signature, ..head(version, len, Some(len)) }
}

#[tokio::test]
async fn a_response_lost_from_memory_comes_back_from_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    for (version, len) in [(1, SMALL), (2, 0), (3, 150_000), (4, LARGE)] {
        keep(&store, &fills, KEY, head(version, len, Some(len)), version, len).await;
        store.memory.remove(KEY);
        // Often enough for a promotion to memory, unless the body is sent by `sendfile`.
        for _ in 0..100 {
            let found = recall(&fills, &HeaderMap::new()).await.expect("on the disk");
            assert_genuine(&found, KEY);
            assert_eq!(found.body().len(), len);
        }
        assert_eq!(find(&store.memory, KEY).is_some(), len < 64 << 10, "{len} bytes");
    }
}

#[tokio::test]
async fn another_process_finds_what_was_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    keep(&store, &fills, KEY, head(1, LARGE, None), 1, LARGE).await;
    store.disks.snapshot().unwrap();
    drop((store, fills));
    let (_store, fills) = begin(directory.path());
    let found = recall(&fills, &HeaderMap::new()).await.expect("on the disk");
    assert_genuine(&found, KEY);
    assert_eq!(found.freshness().lifetime, 60);
}

#[tokio::test]
async fn variants_are_found_by_their_requests_and_purged_together() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    for (language, version) in [("de", 1), ("en", 2)] {
        keep(&store, &fills, KEY, variant(language, version, SMALL), version, SMALL).await;
    }
    store.memory.remove(KEY);
    for (language, version) in [("de", 1), ("en", 2), ("de", 1)] {
        let found = recall(&fills, &asks(language)).await.expect("on the disk");
        assert_eq!(super::told(found.fields()).0, version);
        assert_genuine(&found, KEY);
    }
    assert!(recall(&fills, &asks("fr")).await.is_none());
    assert!(recall(&fills, &HeaderMap::new()).await.is_none());
    fills.purge(KEY);
    assert!(recall(&fills, &asks("de")).await.is_none());
    // A new variant must not bring the old ones back.
    keep(&store, &fills, KEY, variant("fr", 3, SMALL), 3, SMALL).await;
    store.memory.remove(KEY);
    assert!(recall(&fills, &asks("fr")).await.is_some());
    assert!(recall(&fills, &asks("de")).await.is_none() && recall(&fills, &asks("en")).await.is_none());
}

#[tokio::test]
async fn variants_that_come_at_the_same_time_belong_together() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    let mut leads = Vec::new();
    for (language, version) in [("de", 1), ("en", 2)] {
        let head = variant(language, version, SMALL);
        let JoinResult::Writer(mut writer) = fills.join(KEY, &head.signature) else {
            panic!("another request leads the fill")
        };
        writer.stream(head);
        writer.keep().await;
        writer.append(&content(KEY, version, 0, SMALL)).await.expect("room");
        leads.push(writer);
    }
    leads.into_iter().for_each(|writer| drop(writer.finish(None)));
    store.disks.sync().unwrap();
    store.memory.remove(KEY);
    for language in ["de", "en"] {
        assert_genuine(&recall(&fills, &asks(language)).await.expect("on the disk"), KEY);
    }
}

#[tokio::test]
async fn a_newer_head_replaces_the_old_one_and_keeps_the_body() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    for len in [SMALL, 150_000, LARGE] {
        keep(&store, &fills, KEY, head(1, len, Some(len)), 1, len).await;
        let (memory, disk) = (find(&store.memory, KEY), recall(&fills, &HeaderMap::new()).await);
        let entry = memory.map(|resident| resident.variants()[0].clone()).or(disk).expect("stored");
        let later = Freshness { lifetime: 1_000, ..entry.freshness() };
        let newer =
            entry.refreshed(entry.signature(), &fields(1, len), later, entry.checked()).expect("a short key");
        let written = store.disks.drives()[0].disk().unwrap().usage().written_bytes;
        fills.alone(KEY, fills.epoch(KEY)).put(&newer, Some(&entry));
        let found = super::eventually(async || {
            store.disks.sync().expect("the disk takes it");
            store.memory.remove(KEY);
            recall(&fills, &HeaderMap::new()).await.filter(|found| found.freshness().lifetime == 1_000)
        });
        assert_genuine(&found.await, KEY);
        let written = store.disks.drives()[0].disk().unwrap().usage().written_bytes - written;
        assert!(len == SMALL || written < 5_000, "{written} bytes for the head of a body of {len}");
    }
}

#[tokio::test]
async fn a_newer_head_with_other_selecting_fields_replaces_the_old_variant() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    for (version, len) in [(1, SMALL), (2, 150_000), (3, LARGE)] {
        keep(&store, &fills, KEY, head(version, len, Some(len)), version, len).await;
        let memory = find(&store.memory, KEY).map(|resident| resident.variants()[0].clone());
        let old = match memory {
            Some(entry) => entry,
            None => recall(&fills, &HeaderMap::new()).await.expect("stored"),
        };
        let Head { signature, fields, freshness, .. } = variant("de", version, len);
        let new = old.refreshed(&signature, &fields, freshness, old.checked()).expect("a short key");
        fills.alone(KEY, fills.epoch(KEY)).put(&new, Some(&old));
        let held = find(&store.memory, KEY).map_or(Vec::new(), |resident| resident.variants().to_vec());
        assert!(held.iter().all(|held| held.signature() == signature), "{len} bytes in memory");
        assert!(recall(&fills, &HeaderMap::new()).await.is_none(), "{len} bytes on the disk");
        let found = super::eventually(async || {
            store.memory.remove(KEY);
            recall(&fills, &asks("de")).await
        });
        assert_genuine(&found.await, KEY);
        assert!(recall(&fills, &asks("en")).await.is_none());
    }
}

#[tokio::test]
async fn a_body_that_broke_off_is_no_response() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    let JoinResult::Writer(mut writer) = fills.join(KEY, b"") else {
        panic!("another request leads the fill")
    };
    writer.stream(head(1, LARGE, Some(LARGE)));
    writer.keep().await;
    let reader = writer.reader();
    writer.append(&content(KEY, 1, 0, 100_000)).await.expect("room");
    drop((writer, reader));
    store.disks.sync().unwrap();
    assert!(recall(&fills, &HeaderMap::new()).await.is_none());
}

#[tokio::test]
async fn a_large_body_without_readers_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    let JoinResult::Writer(mut writer) = fills.join(KEY, b"") else {
        panic!("another request leads the fill")
    };
    writer.stream(head(1, LARGE, None));
    writer.keep().await;
    for at in (0..LARGE).step_by(50_000) {
        writer.append(&content(KEY, 1, at, at + 50_000)).await.expect("the disk takes it");
    }
    assert!(writer.finish(None).is_err(), "it is too large for memory");
    store.disks.sync().unwrap();
    assert_genuine(&recall(&fills, &HeaderMap::new()).await.expect("on the disk"), KEY);
}

#[tokio::test]
async fn damage_on_the_disk_is_a_miss() {
    let directory = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(7);
    for len in [SMALL, LARGE] {
        let (store, fills) = begin(directory.path());
        keep(&store, &fills, KEY, head(1, len, Some(len)), 1, len).await;
        store.memory.remove(KEY);
        for file in std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "segment") {
                let mut bytes = std::fs::read(&file).unwrap();
                let behind = bytes.len() - rng.usize(2_000..SMALL as usize - 500);
                bytes[behind] ^= 1;
                std::fs::write(&file, bytes).unwrap();
            }
        }
        assert!(recall(&fills, &HeaderMap::new()).await.is_none(), "{len} bytes");
        fills.purge(KEY);
    }
}

#[tokio::test]
async fn responses_of_another_version_are_not_found_and_reported_once() {
    let (directory, events) = (tempfile::tempdir().unwrap(), Arc::<Mutex<Vec<Event>>>::default());
    let told = Arc::clone(&events);
    let tell: EventHandler = Arc::new(move |_, event| told.lock().unwrap().push(event));
    let disks = Disks::new(&[DiskTier { size: 4 << 20, ..DiskTier::at(directory.path().to_path_buf()) }]);
    disks.drives()[0].open(&tell).unwrap();
    let former = [&[1, b'r'], &[0; 60][..]].concat();
    let disk = disks.drives()[0].disk().unwrap();
    let about = ObjectInfo { len: Some(5), stored: 0, cost: 0 };
    let mut writer = disk.put(&[b"p", KEY].concat(), &former, about).expect("room");
    assert!(writer.write(b"wrong") && writer.finish());
    let (store, fills) = store_on(disks, Capacity { by: By::Bytes, amount: 8 << 20 }, 200_000);
    store.disks.sync().unwrap();
    for _ in 0..2 {
        assert!(recall(&fills, &HeaderMap::new()).await.is_none());
    }
    assert_eq!(*events.lock().unwrap(), [Event::OtherVersion]);
    keep(&store, &fills, KEY, head(1, SMALL, Some(SMALL)), 1, SMALL).await;
    assert_genuine(&recall(&fills, &HeaderMap::new()).await.expect("on the disk"), KEY);
}

/// Whether the purge or the end of the fill comes first: no response is stored once both are done.
#[tokio::test]
async fn a_purge_during_a_fill_wins_on_the_disk_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let (store, fills) = begin(directory.path());
    // Responses that are stored in memory as well, ones that are too large for memory, and a variant of either size.
    let heads = [
        head(1, SMALL, Some(SMALL)),
        head(1, LARGE, Some(LARGE)),
        variant("de", 1, SMALL),
        variant("de", 1, LARGE),
    ];
    for (head, at) in heads.into_iter().flat_map(|head| (0..4).map(move |at| (head.clone(), at))) {
        let len = head.length.expect("a length");
        let JoinResult::Writer(mut writer) = fills.join(KEY, &head.signature) else {
            panic!("another request leads the fill")
        };
        let purge = |now| _ = (now == at).then(|| fills.purge(KEY));
        purge(0);
        writer.stream(head);
        purge(1);
        writer.keep().await;
        purge(2);
        // A large body that was purged and will not be stored has no readers.
        let appended = writer.append(&content(KEY, 1, 0, len)).await;
        assert!(appended.is_ok() || len == LARGE && at < 3);
        drop(writer.finish(None));
        purge(3);
        store.disks.sync().unwrap();
        for request in [HeaderMap::new(), asks("de")] {
            assert!(recall(&fills, &request).await.is_none(), "{len} bytes, purged at {at}");
        }
    }
}

#[tokio::test]
async fn each_key_belongs_to_one_disk_and_they_share_by_size() {
    let paths = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (store, fills) = store_on(
        disks(&paths.each_ref().map(|path| path.path())),
        Capacity { by: By::Bytes, amount: 8 << 20 },
        1 << 20,
    );
    for n in 0..200 {
        let key = format!("http://h/{n}").into_bytes();
        keep(&store, &fills, &key, head(1, 100, Some(100)), 1, 100).await;
    }
    let counts: Vec<_> =
        store.disks.drives().iter().map(|drive| drive.disk().unwrap().usage().objects).collect();
    assert_eq!(counts.iter().sum::<u64>(), 200);
    assert!(counts.iter().all(|count| (60..=140).contains(count)), "{counts:?}");
    assert!(matches!(recall_of(&fills, b"http://h/0").await.body(), Body::Heap(_)));
}

async fn recall_of(fills: &Fills, key: &[u8]) -> Entry {
    super::recall(fills, key, &HeaderMap::new(), 0).await.expect("on one of the disks")
}
