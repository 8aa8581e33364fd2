//! Responses that invalidate cache groups create rules only for groups that a stored response may have. A
//! response that turns out later to belong to such a group is reached all the same if its fetch had begun.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use http::HeaderMap;
use larder_semantics::freshness::Flags;
use larder_semantics::purge::{Effect, Scope};
use larder_store::fill::Head;
use larder_store::purges::MOST_KNOWN;
use larder_store::{Disks, Entry, JoinResult, Store};

use super::purges::{find, finish, group, head, key_of, open, put_unknown, recalled, store_there, writer};
use super::{disks, seed};

/// The second in which all responses were received.
const THEN: u32 = 1_000;

fn named(name: &str) -> String {
    format!("\"{name}\"")
}

fn is_invalid(entry: &Entry) -> bool {
    entry.freshness().flags.contains(Flags::INVALID)
}

#[tokio::test]
async fn groups_that_nothing_stored_has_make_no_rules() {
    let (store, fills) = open(Disks::default());
    let (kept, later) = (key_of("http", "a", "/1"), key_of("http", "a", "/2"));
    finish(writer(&fills, &kept), &[("cache-groups", "\"kept\"")]).await;
    for n in 0..2_000 {
        fills.order(&[group("a", &n.to_string())], Effect::Invalid, THEN);
    }
    fills.order(&[group("a", "Kept"), group("b", "kept")], Effect::Invalid, THEN);
    let origin = larder_semantics::key::origin(&key_of("http", "b", "/")).expect("a key").to_vec();
    fills.order(&[Scope::Origin(origin)], Effect::Invalid, THEN);
    assert_eq!(store.purges.len(), 0);
    assert!(!is_invalid(&find(&store, &kept).expect("it is there")));
    finish(writer(&fills, &later), &[("cache-groups", "\"7\"")]).await;
    assert!(!is_invalid(&find(&store, &later).expect("it is there")), "its fetch began later");
    fills.order(&[group("a", "kept")], Effect::Invalid, THEN);
    assert!(is_invalid(&find(&store, &kept).expect("it is there")));
    fills.order(&[group("a", "7")], Effect::Remove, THEN);
    assert!(find(&store, &later).is_none(), "purges by administrators always make rules");
}

#[tokio::test]
async fn a_fill_of_unknown_groups_is_reached_by_a_group_invalidation() {
    let (store, fills) = open(Disks::default());
    let key = key_of("http", "a", "/1");
    let mut early = writer(&fills, &key);
    let before = store.purges.now();
    fills.order(&[group("a", "g")], Effect::Invalid, THEN);
    let JoinResult::Follow(reader) = fills.join(&key, b"") else { panic!("no request leads a fill") };
    early.stream(head(&[("cache-groups", "\"g\"")]));
    assert!(fills.may_have(&reader, before) && !fills.may_have(&reader, store.purges.now()));
    early.append(b"content").await.expect("there is room");
    drop(early.finish(None));
    assert!(is_invalid(&find(&store, &key).expect("it is there")));
}

#[tokio::test]
async fn a_newer_head_that_leaves_a_purged_group_is_not_stored() {
    for (old, new, purged, is_kept) in [("a", "b", "a", false), ("a", "b", "b", true), ("a", "a", "a", true)]
    {
        let (store, fills) = open(Disks::default());
        let key = key_of("http", "h", "/1");
        finish(writer(&fills, &key), &[("cache-groups", &named(old))]).await;
        let stored = find(&store, &key).expect("it is there");
        let validation = writer(&fills, &key);
        fills.order(&[group("h", purged)], Effect::Invalid, THEN);
        let Head { fields, freshness, .. } = head(&[("cache-groups", &named(new))]);
        let newer = stored.refreshed(b"", &fields, freshness, validation.born()).expect("a short key");
        assert_eq!(validation.put(&newer, Some(&stored)), is_kept, "{old}, then {new}; {purged} is purged");
        let left = find(&store, &key).expect("it is there");
        assert_eq!(is_invalid(&left), !is_kept || purged == new, "{old}, then {new}; {purged} is purged");
    }
}

#[tokio::test]
async fn with_a_disk_any_group_makes_a_rule() {
    let (directory, key) = (tempfile::tempdir().expect("a directory"), key_of("http", "a", "/1"));
    let (store, fills) = open(disks(&[directory.path()]));
    store_there(&fills, &key, &[("cache-groups", "\"g\"")]).await;
    drop((fills, store));
    let (store, fills) = open(disks(&[directory.path()]));
    fills.order(&[group("a", "g")], Effect::Invalid, THEN);
    assert_eq!(store.purges.len(), 1);
    drop((fills, store));
    assert!(recalled(directory.path(), &key).await.expect("it is there").flags.contains(Flags::INVALID));
}

#[tokio::test]
async fn an_invalidation_of_an_unknown_group_reaches_no_other_group() {
    let (store, fills) = open(Disks::default());
    let [stored, later] = [key_of("http", "a", "/1"), key_of("http", "a", "/2")];
    finish(writer(&fills, &stored), &[("cache-groups", "\"shared\"")]).await;
    let early = writer(&fills, &later);
    fills.order(&[group("a", "other")], Effect::Invalid, THEN);
    finish(early, &[("cache-groups", "\"shared\"")]).await;
    assert!(!is_invalid(&find(&store, &stored).expect("it is there")));
    assert!(!is_invalid(&find(&store, &later).expect("it is there")));
}

#[test]
fn beyond_its_limit_any_group_may_be_that_of_something_stored() {
    let (store, fills) = open(Disks::default());
    for n in 0..MOST_KNOWN / 128 {
        let names: Vec<_> = (0..128).map(|m| named(&format!("{n} {m}"))).collect();
        let names = http::HeaderValue::try_from(names.join(", ")).expect("a value");
        let fields = HeaderMap::from_iter([(http::HeaderName::from_static("cache-groups"), names)]);
        store.purges.know(&key_of("http", "a", "/"), Some(&fields), store.purges.now());
    }
    fills.order(&[group("b", "g")], Effect::Invalid, THEN);
    assert_eq!(store.purges.len(), 1);
}

/// A fetch in flight.
struct Fetch {
    page: usize,
    group: usize,
    born: larder_store::Generation,
}

/// Begins and ends fetches, and invalidates groups, in random order. Returns the number of responses that were usable
/// although they had been invalidated since their fetch began, and the total number of usable responses.
fn run(rng: &mut Rng, knows: bool) -> (usize, usize) {
    const PAGES: usize = 8;
    let (store, fills) = open(Disks::default());
    let (mut under_way, mut stored, mut invalidated) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let (mut faults, mut usable, mut named) = (0, 0, BTreeSet::new());
    for step in 0..400_usize {
        // Groups come and go: the earlier ones are known, new ones are not.
        let any = step / 40 * 4 + rng.usize(..12);
        match rng.u8(..8) {
            0..2 => under_way.push(Fetch { page: rng.usize(..PAGES), group: any, born: store.purges.now() }),
            2..5 if !under_way.is_empty() => {
                let fetch: Fetch = under_way.swap_remove(rng.usize(..under_way.len()));
                end(&store, &fetch, knows);
                named.insert(fetch.group);
                stored.insert(fetch.page, fetch);
            }
            2..5 => {}
            5 => {
                fills.order(&[group("a", &any.to_string())], Effect::Invalid, THEN);
                invalidated.insert(any, store.purges.now());
            }
            _ => {
                let page = rng.usize(..PAGES);
                let Some(fetch) = stored.get(&page) else { continue };
                let found = find(&store, &key_of("http", "a", &format!("/{page}")));
                let is_usable = found.as_ref().is_some_and(|entry| !is_invalid(entry));
                let is_old = invalidated.get(&fetch.group).is_some_and(|last| *last > fetch.born);
                usable += usize::from(is_usable);
                faults += usize::from(is_usable && is_old);
            }
        }
    }
    assert!(store.purges.len() <= named.len(), "rules are for groups that something stored has had");
    (faults, usable)
}

fn end(store: &Store, fetch: &Fetch, knows: bool) {
    let (key, name) = (key_of("http", "a", &format!("/{}", fetch.page)), named(&fetch.group.to_string()));
    if knows {
        let fields = HeaderMap::from_iter([(
            http::HeaderName::from_static("cache-groups"),
            http::HeaderValue::try_from(name.as_str()).expect("a value"),
        )]);
        store.purges.know(&key, Some(&fields), fetch.born);
    }
    put_unknown(store, &key, &[("cache-groups", &name)], fetch.born);
}

#[test]
fn no_invalidation_is_missed_however_late_a_group_becomes_known() {
    let mut rng = seed();
    let (mut faults, mut usable) = (0, 0);
    for _ in 0..50 {
        let found = run(&mut rng, true);
        (faults, usable) = (faults + found.0, usable + found.1);
    }
    assert_eq!(faults, 0);
    assert!(usable > 500, "{usable}");
}

#[test]
fn where_groups_do_not_become_known_the_checker_finds_what_was_missed() {
    let mut rng = seed();
    let faults: usize = (0..50).map(|_| run(&mut rng, false).0).sum();
    assert!(faults > 0);
}
