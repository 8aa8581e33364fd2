//! Purged responses are not found by any request, in any tier, before and after a restart.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_evict::{By, Capacity};
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::key;
use larder_semantics::purge::{Effect, Scope};
use larder_store::entry::Parts;
use larder_store::fill::{FillWriter, Head, Verdict};
use larder_store::{Body, Disks, Entry, Fills, Generation, JoinResult, LinePool, Lines, Store};

use super::{disks, eventually, recall, store_on};

const CAPACITY: Capacity = Capacity { by: By::Bytes, amount: 64 << 20 };
const THEN: u32 = 1_000; // The second in which all responses here were received.

pub(super) fn open(disks: Disks) -> (Arc<Store>, Arc<Fills>) {
    store_on(disks, CAPACITY, 1 << 20)
}

/// Returns the key of a URL for the clients of one kind of listener.
pub(super) fn key_of(scheme: &str, authority: &str, path: &str) -> Vec<u8> {
    let mut key = Vec::new();
    key::write(&mut key, scheme, authority.as_bytes(), path.as_bytes());
    key.push(b'R');
    key
}

fn lines(fields: &[(&'static str, &str)]) -> Lines {
    let field = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    LinePool::default().keep(&fields.iter().map(field).collect::<HeaderMap>(), THEN)
}

fn freshness() -> Freshness {
    Freshness {
        received: THEN,
        lifetime: 600,
        date: THEN,
        stale_while_revalidate: 60,
        ..Freshness::default()
    }
}

/// Stores a response to `key` that was fetched when `born` was in force.
pub(super) fn put(store: &Store, key: &[u8], fields: &[(&'static str, &str)], born: Generation) {
    store.purges.know(key, Some(&lines(fields).view()), born);
    put_unknown(store, key, fields, born);
}

/// Stores a response like [`put`], without making its groups known.
pub(super) fn put_unknown(store: &Store, key: &[u8], fields: &[(&'static str, &str)], born: Generation) {
    let parts = Parts {
        key,
        signature: b"",
        status: StatusCode::OK,
        freshness: freshness(),
        cost: 0,
        born,
        fields: &lines(fields),
        body: Body::Heap(Box::from(*b"content")),
    };
    assert!(store.memory.put(Entry::new(parts).expect("a short key"), None));
}

/// Returns the response in memory for a request.
pub(super) fn find(store: &Store, key: &[u8]) -> Option<Entry> {
    let first = |resident: &larder_store::Resident| resident.variants().first().cloned();
    let found = store.memory.find(key, store.memory.hash(key), 0).as_ref().and_then(first)?;
    let looked = store.left(&found).map(|entry| entry.freshness());
    let left = store.current(found);
    assert_eq!(left.as_ref().map(|entry| entry.freshness()), looked, "looking says the same");
    left
}

pub(super) fn group(authority: &str, name: &str) -> Scope {
    let key = key_of("http", authority, "/");
    Scope::Group { origin: key::origin(&key).expect("a key").to_vec(), name: name.to_owned() }
}

fn prefix(authority: &str, path: &str) -> Scope {
    let mut key = key_of("http", authority, path);
    key.pop();
    Scope::Prefix(key)
}

fn glob(path: &str, end: &str) -> Scope {
    let Scope::Prefix(start) = prefix("a", path) else { unreachable!("a prefix") };
    Scope::Glob { start, end: end.as_bytes().to_vec() }
}

pub(super) fn tag(name: &str) -> Scope {
    Scope::Tag(name.as_bytes().to_vec())
}

pub(super) fn host(name: &str) -> Scope {
    Scope::Host(name.as_bytes().to_vec())
}

#[test]
fn a_purge_reaches_its_scope_and_nothing_else() {
    const SHIRT: &[(&str, &str)] = &[("cache-groups", "\"g\", \"h\""), ("cache-tag", "shirt, red")];
    const SOCKS: &[(&str, &str)] = &[("cache-groups", "\"G\""), ("xkey", "socks red")];
    let all = [
        (key_of("http", "a", "/x/1"), SHIRT),
        (key_of("http", "a", "/x/2"), SOCKS),
        (key_of("http", "a:81", "/x/1"), SHIRT),
        (key_of("https", "a", "/x/1"), SHIRT),
        (key_of("http", "b", "/x/1"), &[("etag", "\"g\"")]),
    ];
    let url = |n: usize| Scope::Url(all[n].0.clone());
    let table: [(Scope, &[usize]); 24] = [
        (Scope::All, &[0, 1, 2, 3, 4]),
        (url(0), &[0]),
        (url(4), &[4]),
        (Scope::Url(key_of("http", "a", "/x/")), &[]),
        (prefix("a", "/x/"), &[0, 1]),
        (prefix("a", "/x/1"), &[0]),
        (prefix("a", "/x/12"), &[]),
        (prefix("a:81", ""), &[2]),
        (glob("/x/", "1R"), &[0]),
        (glob("/x", "R"), &[0, 1]),
        (glob("/", "/2R"), &[1]),
        (glob("/x/1", "1R"), &[]),
        (glob("/y", "1R"), &[]),
        (host("a"), &[0, 1, 2, 3]),
        (host("a:81"), &[2]),
        (host("b"), &[4]),
        (host(""), &[]),
        (tag("red"), &[0, 1, 2, 3]),
        (tag("socks"), &[1]),
        (tag("g"), &[]),
        (group("a", "g"), &[0]),
        (group("a", "h"), &[0]),
        (group("a", "G"), &[1]),
        (group("a:81", "g"), &[2]),
    ];
    for (scope, reached) in table {
        let (store, fills) = open(Disks::default());
        let put_all = || all.iter().for_each(|(key, fields)| put(&store, key, fields, store.purges.now()));
        put_all();
        fills.order(std::slice::from_ref(&scope), Effect::Remove, THEN);
        let gone = |n: &usize| find(&store, &all[*n].0).is_none();
        assert_eq!((0..all.len()).filter(gone).collect::<Vec<_>>(), reached, "{scope:?}");
        put_all();
        assert_eq!((0..all.len()).filter(gone).count(), 0, "what is newer than {scope:?} stays");
        assert_eq!(store.memory.validate(), Ok(()));
    }
}

#[test]
fn an_effect_is_the_strongest_of_all_and_lasts() {
    let (key, other) = (key_of("http", "a", "/1"), key_of("http", "a", "/2"));
    let soft = |then| freshness().purged(then);
    let table = [
        (vec![(host("a"), Effect::Stale)], Some(soft(1_010))),
        (vec![(host("a"), Effect::Stale), (tag("t"), Effect::Stale)], Some(soft(1_010))),
        (vec![(host("a"), Effect::Invalid), (tag("t"), Effect::Stale)], Some(freshness().invalid())),
        (vec![(host("a"), Effect::Stale), (host("a"), Effect::Remove)], None),
        (vec![(Scope::All, Effect::Remove), (host("a"), Effect::Stale)], None),
    ];
    for (orders, left) in table {
        let (store, fills) = open(Disks::default());
        put(&store, &key, &[("cache-tag", "t")], store.purges.now());
        for (n, (scope, effect)) in orders.iter().enumerate() {
            fills.order(std::slice::from_ref(scope), *effect, 1_010 + n as u32);
        }
        fills.order(&[Scope::Url(other.clone())], Effect::Remove, 1_020);
        for _ in 0..2 {
            assert_eq!(find(&store, &key).map(|entry| entry.freshness()), left, "{orders:?}");
        }
    }
}

#[test]
fn a_soft_purge_leaves_the_size_of_each_response_unchanged() {
    let (store, fills) = open(Disks::default());
    // Together they cover all sizes within a size class of the allocator.
    let keys: Vec<_> = (0..32).map(|n| key_of("http", "a", &format!("/{}", "x".repeat(n)))).collect();
    keys.iter().for_each(|key| put(&store, key, &[], store.purges.now()));
    let sizes = || keys.iter().map(|key| find(&store, key).map(|entry| entry.charge())).collect::<Vec<_>>();
    let before = sizes();
    fills.order(&[host("a")], Effect::Stale, 1_010);
    assert_eq!(sizes(), before);
}

/// Each pair of lengths costs a lookup for each response that is used.
#[test]
fn a_glob_of_one_length_too_many_reaches_all_that_begins_alike() {
    let (store, fills) = open(Disks::default());
    let order = |scope: Scope| fills.order(&[scope], Effect::Remove, THEN);
    for length in 0..64 {
        order(glob(&format!("/{}", "x".repeat(length)), "~R"));
    }
    let keys = ["/a/1.png", "/a/1.css", "/ab/1"].map(|path| key_of("http", "a", path));
    let left = || keys.each_ref().map(|key| find(&store, key).is_some());
    keys.iter().for_each(|key| put(&store, key, &[], store.purges.now()));
    order(glob("/a/", "~R"));
    assert_eq!(left(), [true; 3], "its lengths are known: it stays a glob");
    order(glob("/a/", ".pngR"));
    assert_eq!(left(), [false, false, true]);
}

#[test]
fn too_many_purges_become_one_that_asks_for_validation() {
    let (store, fills) = open(Disks::default());
    let (tagged, plain, late) =
        (key_of("http", "a", "/1"), key_of("http", "a", "/2"), key_of("http", "a", "/3"));
    put(&store, &tagged, &[("cache-tag", "t")], store.purges.now());
    put(&store, &plain, &[], store.purges.now());
    for n in 0..larder_store::purges::MOST {
        fills.order(&[tag(&n.to_string())], Effect::Remove, THEN);
    }
    put(&store, &late, &[("cache-tag", "t")], store.purges.now());
    fills.order(&[tag("one more")], Effect::Remove, THEN);
    assert!(store.purges.len() <= larder_store::purges::MOST / 2 + 2, "{}", store.purges.len());
    let flags = |key: &[u8]| find(&store, key).expect("it is there").freshness().flags;
    assert!(flags(&tagged).contains(Flags::INVALID));
    assert!(!flags(&plain).contains(Flags::INVALID), "no tag, no doubt");
    assert!(!flags(&late).contains(Flags::INVALID), "newer than what was folded");
}

pub(super) fn head(fields: &[(&'static str, &str)]) -> Head {
    let (signature, freshness) = (Vec::new(), freshness());
    Head { status: StatusCode::OK, fields: lines(fields), signature, freshness, cost: 0, length: Some(7) }
}

pub(super) fn writer(fills: &Arc<Fills>, key: &[u8]) -> FillWriter {
    match fills.join(key, b"") {
        JoinResult::Writer(writer) => writer,
        JoinResult::Follow(_) => panic!("another request leads the fill"),
    }
}

/// Completes a fetch in flight.
pub(super) async fn finish(mut writer: FillWriter, fields: &[(&'static str, &str)]) {
    writer.stream(head(fields));
    writer.keep().await;
    writer.append(b"content").await.expect("there is room");
    drop(writer.finish(None));
}

#[tokio::test]
async fn a_purge_takes_precedence_over_a_fill_that_began_before() {
    let (store, fills) = open(Disks::default());
    let (key, fields) = (key_of("http", "a", "/1"), &[("cache-groups", "\"g\"")]);
    let mut early = writer(&fills, &key);
    let before = store.purges.now();
    fills.order(&[group("a", "g"), group("a", "x")], Effect::Remove, THEN);
    // The groups are not known yet: a new request waits for the head.
    let JoinResult::Follow(reader) = fills.join(&key, b"") else { panic!("no request leads a fill") };
    let arrived = store.purges.now();
    early.stream(head(fields));
    assert!(matches!(reader.verdict().await, Verdict::Stream(_)));
    assert!(fills.may_have(&reader, before) && !fills.may_have(&reader, arrived));
    let later = writer(&fills, &key);
    early.append(b"content").await.expect("there is room");
    drop(early.finish(None));
    assert!(find(&store, &key).is_none(), "it is older than the purge");
    finish(later, fields).await;
    assert!(find(&store, &key).is_some());
    let unknown = writer(&fills, &key);
    fills.order(&[Scope::Url(key.clone())], Effect::Stale, THEN);
    assert!(matches!(fills.join(&key, b""), JoinResult::Writer(_)), "that it is purged is known at once");
    drop(unknown);
}

#[tokio::test]
async fn a_response_fetched_before_a_purge_does_not_replace_a_later_one() {
    let fields = &[("cache-groups", "\"g\"")];
    for effect in [Effect::Invalid, Effect::Stale, Effect::Remove] {
        let (store, fills) = open(Disks::default());
        let key = key_of("http", "a", "/1");
        let mut early = writer(&fills, &key);
        early.stream(head(fields));
        fills.order(&[group("a", "g")], effect, THEN);
        finish(writer(&fills, &key), fields).await;
        drop(early.finish(None));
        assert_eq!(find(&store, &key).map(|entry| entry.freshness()), Some(freshness()), "{effect:?}");
    }
}

/// Returns the freshness of the response that is found after a restart.
pub(super) async fn recalled(directory: &Path, key: &[u8]) -> Option<Freshness> {
    let (store, fills) = open(disks(&[directory]));
    eventually(async || store.disks.unknown().is_none().then_some(())).await;
    let found = recall(&fills, key, &HeaderMap::new(), THEN).await;
    found.map(|entry| entry.freshness())
}

/// Stores a response on a disk, and waits until a lookup finds it there.
pub(super) async fn store_there(fills: &Arc<Fills>, key: &[u8], fields: &[(&'static str, &str)]) {
    finish(writer(fills, key), fields).await;
    eventually(async || recall(fills, key, &HeaderMap::new(), THEN).await).await;
}

#[tokio::test]
async fn a_purge_reaches_disks_and_outlives_the_process() {
    let fields = [("cache-groups", "\"g\""), ("cache-tag", "t")];
    let key = key_of("http", "a", "/1");
    let table = [
        (Scope::Url(key.clone()), Effect::Remove, None),
        (Scope::All, Effect::Remove, None),
        (prefix("a", "/"), Effect::Remove, None),
        (host("a"), Effect::Stale, Some(freshness().purged(THEN))),
        (tag("t"), Effect::Stale, Some(freshness().purged(THEN))),
        (group("a", "g"), Effect::Invalid, Some(freshness().invalid())),
        (group("a", "x"), Effect::Invalid, Some(freshness())),
    ];
    for (scope, effect, left) in table {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, fills) = open(disks(&[directory.path()]));
        store_there(&fills, &key, &fields).await;
        fills.order(std::slice::from_ref(&scope), effect, THEN);
        let found = recall(&fills, &key, &HeaderMap::new(), THEN).await.map(|entry| entry.freshness());
        assert_eq!(found, left, "{scope:?}");
        drop((fills, store));
        assert_eq!(recalled(directory.path(), &key).await, left, "{scope:?}, after a start");
    }
}

#[tokio::test]
async fn a_response_stored_after_a_purge_is_found_after_a_restart() {
    let (directory, key) = (tempfile::tempdir().expect("a directory"), key_of("http", "a", "/1"));
    let (store, fills) = open(disks(&[directory.path()]));
    fills.order(&[host("a")], Effect::Remove, THEN - 1);
    store_there(&fills, &key, &[]).await;
    drop((fills, store));
    assert_eq!(recalled(directory.path(), &key).await, Some(freshness()));
}

#[tokio::test]
async fn a_fill_that_a_purge_has_reached_stays_off_the_disk() {
    let (directory, key) = (tempfile::tempdir().expect("a directory"), key_of("http", "a", "/1"));
    let (store, fills) = open(disks(&[directory.path()]));
    let early = writer(&fills, &key);
    // By the second alone, the response would be later than the purge.
    fills.order(&[tag("t")], Effect::Stale, THEN - 10);
    finish(early, &[("cache-tag", "t")]).await;
    store.disks.sync().expect("the disk takes it");
    drop((fills, store));
    assert_eq!(recalled(directory.path(), &key).await, None);
}

#[tokio::test]
async fn without_knowing_what_was_purged_everything_is_validated() {
    let (directory, key) = (tempfile::tempdir().expect("a directory"), key_of("http", "a", "/1"));
    let (store, fills) = open(disks(&[directory.path()]));
    fills.order(&[tag("t")], Effect::Remove, 1);
    store_there(&fills, &key, &[]).await;
    drop((fills, store));
    let journal = directory.path().join("purges");
    let mut bytes = std::fs::read(&journal).expect("it was written");
    bytes.pop();
    std::fs::write(&journal, &bytes).expect("it can be written");
    assert_eq!(recalled(directory.path(), &key).await, Some(freshness().invalid()));
}

/// Versions of a few responses that writers raise and purge, while other threads fetch and look.
struct Race {
    store: Arc<Store>,
    fills: Arc<Fills>,
    /// The current versions at the origin.
    versions: [AtomicU64; 6],
    /// The versions that were purged: older versions must not be found any more.
    purged: [AtomicU64; 6],
    /// Whether purges are ordered; without them, the check has to fail.
    purges: bool,
}

impl Race {
    fn key(n: usize) -> Vec<u8> {
        key_of("http", "a", &format!("/{n}"))
    }

    fn write(&self, n: usize, rng: &mut Rng) {
        let version = self.versions[n].fetch_add(1, Ordering::SeqCst) + 1;
        let scopes = [
            Scope::Url(Self::key(n)),
            tag(&n.to_string()),
            group("a", &n.to_string()),
            prefix("a", &format!("/{n}")),
            host("a"),
        ];
        let effect = [Effect::Stale, Effect::Invalid, Effect::Remove][rng.usize(..3)];
        if self.purges {
            self.fills.order(&scopes[rng.usize(..scopes.len())..][..1], effect, THEN);
        }
        self.purged[n].fetch_max(version, Ordering::SeqCst);
    }

    fn fetch(&self, n: usize, rng: &mut Rng) {
        let born = self.store.purges.now();
        let version = self.versions[n].load(Ordering::SeqCst).to_string();
        if rng.bool() {
            std::thread::yield_now();
        }
        let (tag, group) = (n.to_string(), format!("\"{n}\""));
        put(
            &self.store,
            &Self::key(n),
            &[("etag", &version), ("xkey", &tag), ("cache-groups", &group)],
            born,
        );
    }

    /// Whether the response that was found may be used without validation, and whether it is new enough.
    fn look(&self, n: usize) -> Option<bool> {
        let purged = self.purged[n].load(Ordering::SeqCst);
        let usable = |entry: &Entry| {
            entry.freshness().ttl(THEN) > 0 && !entry.freshness().flags.contains(Flags::INVALID)
        };
        let first = |resident: &larder_store::Resident| resident.variants().first().cloned();
        let (memory, key) = (&self.store.memory, Self::key(n));
        let found = memory
            .find(&key, memory.hash(&key), 0)
            .as_ref()
            .and_then(first)
            .and_then(|entry| self.store.current(entry));
        let entry = found.filter(usable)?;
        let fields = entry.fields().to_map();
        let version: u64 = fields["etag"].to_str().expect("digits").parse().expect("a number");
        Some(version >= purged)
    }
}

/// Returns how often a response was found, and how often it was too old, while memory is swept continuously.
fn race(purges: bool) -> (u64, u64) {
    let (store, fills) = open(Disks::default());
    let race = Race { store, fills, versions: Default::default(), purged: Default::default(), purges };
    let (found, old, readers) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(4));
    let mut seeds = super::seed();
    std::thread::scope(|scope| {
        for mut rng in (0..4).map(|_| seeds.fork()) {
            let (race, found, old, readers) = (&race, &found, &old, &readers);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let n = rng.usize(..race.versions.len());
                    match rng.u8(..16) {
                        0 => race.write(n, &mut rng),
                        1..4 => race.fetch(n, &mut rng),
                        _ => {
                            let looked = race.look(n);
                            found.fetch_add(u64::from(looked.is_some()), Ordering::Relaxed);
                            old.fetch_add(u64::from(looked == Some(false)), Ordering::Relaxed);
                        }
                    }
                }
                readers.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while readers.load(Ordering::Relaxed) > 0 {
                race.store.sweep_memory(&mut [], race.store.purges.now());
            }
        });
    });
    assert_eq!(race.store.memory.validate(), Ok(()));
    (found.into_inner(), old.into_inner())
}

#[test]
fn nothing_is_found_that_was_purged_before() {
    let (found, old) = race(true);
    assert_eq!(old, 0);
    assert!(found > 1_000, "too calm");
}

#[test]
fn without_purges_the_race_finds_what_is_old() {
    let (found, old) = race(false);
    assert!(old > 0, "{found} found");
}

#[test]
fn an_origin_with_too_many_invalid_groups_is_treated_as_a_whole() {
    const MOST: usize = larder_store::purges::MOST_OF_ORIGIN;
    let (store, fills) = open(Disks::default());
    let (mine, plain, other) =
        (key_of("http", "a", "/1"), key_of("http", "a", "/2"), key_of("http", "b", "/1"));
    let (checked, later) = (key_of("http", "a", "/checked"), key_of("http", "a", "/later"));
    put(&store, &mine, &[("cache-groups", "\"kept\"")], store.purges.now());
    put(&store, &checked, &[("cache-groups", "\"kept\"")], store.purges.now());
    put(&store, &plain, &[], store.purges.now());
    put(&store, &other, &[("cache-groups", "\"kept\"")], store.purges.now());
    fills.order(&[group("c", "kept"), tag("t")], Effect::Remove, THEN);
    let invalid =
        |key: &[u8]| find(&store, key).expect("it is there").freshness().flags.contains(Flags::INVALID);
    let invalidate = |authority: &str, name: &str| {
        let key = key_of("http", authority, "/known");
        store.purges.know(
            &key,
            Some(&lines(&[("cache-groups", &format!("\"{name}\""))]).view()),
            store.purges.now(),
        );
        fills.order(&[group(authority, name)], Effect::Invalid, THEN);
    };
    for n in 0..MOST {
        invalidate("a", &n.to_string());
        if n == MOST / 2 {
            put(&store, &later, &[("cache-groups", "\"kept\"")], store.purges.now());
        }
    }
    assert_eq!([&checked, &plain, &other].map(|key| invalid(key)), [false; 3]);
    assert_eq!(store.purges.len(), MOST + 2);
    invalidate("a", "one more");
    assert!(invalid(&mine), "it may be in one of the groups that are no longer known");
    assert_eq!([&checked, &later, &plain, &other].map(|key| invalid(key)), [false; 4]);
    assert_eq!(store.purges.len(), MOST / 2 + 1 + 2, "those of administrators are kept");
}

#[test]
fn answers_of_many_origins_do_not_crowd_out_administrators() {
    let (store, fills) = open(Disks::default());
    let tagged = key_of("http", "a", "/1");
    put(&store, &tagged, &[("cache-tag", "t")], store.purges.now());
    for n in 0..2 * larder_store::purges::MOST_OF_ALL {
        let key = key_of("http", &n.to_string(), "/known");
        store.purges.know(&key, Some(&lines(&[("cache-groups", "\"g\"")]).view()), store.purges.now());
        fills.order(&[group(&n.to_string(), "g")], Effect::Invalid, THEN);
    }
    assert!(store.purges.len() <= larder_store::purges::MOST_OF_ALL + 1);
    let flags = |key: &[u8]| find(&store, key).expect("it is there").freshness().flags;
    assert!(!flags(&tagged).contains(Flags::INVALID), "it has no group");
    let grouped = key_of("http", "0", "/1");
    put(&store, &grouped, &[("cache-groups", "\"g\"")], larder_store::Generation::default());
    assert!(flags(&grouped).contains(Flags::INVALID), "nothing that was invalidated is forgotten");
}
