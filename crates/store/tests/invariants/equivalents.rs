//! Responses to requests for other queries (`No-Vary-Search`) are no older than the last change of any of
//! these queries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, header};
use larder_evict::{By, Capacity};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::key;
use larder_semantics::purge::{Effect, Scope};
use larder_store::fill::{FillWriter, Head, ReloadResult};
use larder_store::{Entry, Fills, JoinResult, LinePool, Store};

use crate::seed;

/// Returns the cache key of this query; the last byte of a key names the kind of its clients.
fn key(query: &str) -> Vec<u8> {
    let mut key = Vec::new();
    key::write(&mut key, "http", b"site.test", format!("/p?{query}").as_bytes());
    key.push(0);
    key
}

fn stores() -> (Arc<Store>, Arc<Fills>) {
    crate::store(Capacity { by: By::Bytes, amount: 1 << 20 }, 1 << 16)
}

/// Ends a fetch with a response of this version, received in this second.
fn answered(mut writer: FillWriter, signature: &[u8], version: u64, received: u32) -> Option<Entry> {
    let fields: HeaderMap = [
        (header::ETAG, HeaderValue::from(version)),
        ("no-vary-search".parse().expect("a name"), HeaderValue::from_static("params=(\"utm\")")),
    ]
    .into_iter()
    .collect();
    writer.stream(Head {
        fields: LinePool::default().keep(&fields, 0),
        signature: signature.to_vec(),
        freshness: Freshness { received, lifetime: 60, ..Freshness::default() },
        ..crate::head(version, 0, Some(0))
    });
    writer.finish(None).ok()
}

fn begin(fills: &Arc<Fills>, query: &str, signature: &[u8]) -> FillWriter {
    match fills.join_own(&key(query), signature) {
        JoinResult::Writer(mut writer) => {
            writer.asks_origin(true);
            writer
        }
        JoinResult::Follow(_) => panic!("{query} is being fetched"),
    }
}

fn fetch(fills: &Arc<Fills>, query: &str, signature: &[u8], version: u64, received: u32) {
    assert!(answered(begin(fills, query, signature), signature, version, received).is_some());
}

/// Applies a successful unsafe request to this query, or a purge.
fn change(fills: &Arc<Fills>, query: &str, is_purge: bool) {
    let urls = fills.with_equivalents(vec![Scope::Url(key(query))]);
    if is_purge {
        fills.order(&urls, Effect::Invalid, 0);
        return;
    }
    for url in urls {
        if let Scope::Url(key) = url {
            fills.spoil(&key, |_| false);
        }
    }
}

fn version(entry: &Entry) -> u64 {
    std::str::from_utf8(entry.fields().first("etag").expect("a tag"))
        .expect("text")
        .parse()
        .expect("a number")
}

/// Returns the version that answers a request for this query, if a valid one is stored under its own URL;
/// `other` does the same for other URLs.
fn own(store: &Store, query: &str, signature: &[u8]) -> Option<u64> {
    valid(store, &key(query), signature, Some)
}

fn other(store: &Store, query: &str, signature: &[u8]) -> Option<u64> {
    let others = store.equivalents.others(&key(query));
    let answers = |entry, other| store.for_other(entry, other, &key(query));
    others.iter().find_map(|other| valid(store, &other.key, signature, |entry| answers(entry, other)))
}

fn valid(
    store: &Store,
    key: &[u8],
    signature: &[u8],
    leaves: impl Fn(Entry) -> Option<Entry>,
) -> Option<u64> {
    let resident = store.memory.peek(key, store.memory.hash(key))?;
    let entry = resident.variants().iter().find(|entry| entry.signature() == signature)?.clone();
    let entry = leaves(store.current(entry)?)?;
    let fresh = Freshness { received: entry.freshness().received, lifetime: 60, ..Freshness::default() };
    (entry.freshness() == fresh).then(|| version(&entry))
}

#[test]
fn each_variant_is_as_old_as_its_own_fetch() {
    let (store, fills) = stores();
    // The fetch begins before a change, and before the field of the path is known.
    let old = begin(&fills, "id=1&utm=1", b"one");
    change(&fills, "id=1&utm=2", false);
    assert!(answered(old, b"one", 0, 10).is_some());
    fetch(&fills, "id=1&utm=1", b"two", 1, 10);
    assert_eq!(own(&store, "id=1&utm=1", b"one"), Some(0), "another URL was changed");
    for utm in ["id=1&utm=2", "utm=3&id=1"] {
        assert_eq!((other(&store, utm, b"one"), other(&store, utm, b"two")), (None, Some(1)), "{utm}");
    }
    change(&fills, "id=2", false);
    assert_eq!(other(&store, "id=1&utm=2", b"two"), Some(1), "another class was changed");
    change(&fills, "id=1", false);
    assert_eq!(own(&store, "id=1&utm=1", b"one"), None, "its class is known by now");
}

#[test]
fn an_equivalent_response_outdated_on_arrival_is_not_stored() {
    let (store, fills) = stores();
    let slow = begin(&fills, "id=1&utm=1", b"");
    fetch(&fills, "id=1&utm=2", b"", 2, 11);
    assert!(answered(slow, b"", 1, 10).is_none());
    assert_eq!(own(&store, "id=1&utm=1", b""), None);
    assert_eq!(other(&store, "id=1&utm=1", b""), Some(2));
    let urls = fills.with_equivalents(vec![Scope::Url(key("id=1"))]);
    assert_eq!(urls, [key("id=1"), key("id=1&utm=2")].map(Scope::Url));
}

#[test]
fn a_change_reaches_unshared_fetches() {
    for is_purge in [false, true] {
        let (store, fills) = stores();
        fetch(&fills, "id=0", b"", 0, 10);
        let reload = match fills.join_reload(&key("id=1&utm=1"), b"", Instant::now()) {
            ReloadResult::Writer(mut writer) => {
                writer.asks_origin(true);
                writer
            }
            _ => panic!("nothing else is fetched"),
        };
        let began = fills.epoch(&key("id=1&utm=2"));
        change(&fills, "id=1", is_purge);
        let mut alone = fills.alone(&key("id=1&utm=2"), began);
        alone.asks_origin(true);
        for (writer, query) in [(reload, "id=1&utm=1"), (alone, "id=1&utm=2")] {
            assert!(answered(writer, b"", 0, 10).is_none(), "{query}");
            assert_eq!((own(&store, query, b""), other(&store, "id=1&utm=3", b"")), (None, None));
        }
        fetch(&fills, "id=1&utm=1", b"", 1, 10);
        assert_eq!(other(&store, "id=1&utm=3", b""), Some(1));
    }
}

#[test]
fn an_answer_of_another_url_serves_its_own_until_that_changes() {
    let (store, fills) = stores();
    fetch(&fills, "id=0", b"", 0, 10);
    change(&fills, "id=1&utm=2", false);
    let JoinResult::Writer(writer) = fills.join_own(&key("id=1&utm=1"), b"") else {
        panic!("nothing is fetched")
    };
    assert!(answered(writer, b"", 0, 10).is_some());
    assert_eq!(own(&store, "id=1&utm=1", b""), Some(0));
    assert_eq!(other(&store, "id=1&utm=2", b""), None);
    change(&fills, "id=1&utm=2", false);
    assert_eq!(own(&store, "id=1&utm=1", b""), None);
}

/// Runs random fetches that begin and end between changes. Returns the number of answers for other queries,
/// and how many of them were older than a change. `is_told`: the store is notified of the changes.
fn run(rng: &mut fastrand::Rng, is_told: bool) -> (usize, usize) {
    let (store, fills) = stores();
    // The origin's versions, by class.
    let mut now = BTreeMap::new();
    let mut under_way: Vec<(FillWriter, Vec<u8>, u64)> = Vec::new();
    let (mut answers, mut old) = (0, 0);
    for step in 0..2_000_u32 {
        let (id, utm, signature) = (rng.u32(..3), rng.u32(..4), vec![rng.u8(..2)]);
        let query = format!("id={id}&utm={utm}");
        let current = now.get(&id).copied().unwrap_or(0);
        match rng.u32(..8) {
            0 => {
                now.insert(id, current + 1);
                if is_told {
                    change(&fills, &query, rng.bool());
                }
            }
            1 | 2 => {
                let mut writer = fills.alone(&key(&query), fills.epoch(&key(&query)));
                writer.asks_origin(true);
                under_way.push((writer, signature, current));
            }
            3 | 4 if !under_way.is_empty() => {
                let (writer, signature, version) = under_way.swap_remove(rng.usize(..under_way.len()));
                answered(writer, &signature, version, step / 50);
            }
            _ => {
                if let Some(version) = other(&store, &query, &signature) {
                    answers += 1;
                    old += usize::from(version < current);
                }
            }
        }
    }
    (answers, old)
}

#[test]
fn no_answer_for_another_query_is_older_than_a_change() {
    let mut rng = seed();
    let (answers, old) = run(&mut rng, true);
    assert_eq!(old, 0, "of {answers}");
    // Without notifications, some of several hundred lookups find an outdated response; a run without any is
    // practically impossible.
    let (answers, old) = run(&mut rng, false);
    assert!(old > 0, "of {answers}");
}
