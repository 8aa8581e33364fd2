//! A gateway that starts does not know the changes in progress of its last process, unless that process ended in order.

use std::path::Path;

use fastrand::Rng;
use larder_testkit::{Larder, Origin, eventually, seed, site};
use tempfile::TempDir;

use crate::is_current;
use crate::late::Data;

/// Starts a gateway before `origin` that records in `state` whether it ended in order.
fn gateway(origin: &Origin, state: &Path, keys: &str) -> Larder {
    let config = format!("{keys}\n{}", site(&[origin], "role = 'tags'"));
    Larder::start_in(&config, &[("STATE_DIRECTORY", state)])
}

fn state() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn makes_tags(larder: &Larder) -> bool {
    larder.get("/users/1").field("etag").is_some()
}

fn end(mut larder: Larder) {
    larder.stop();
}

/// Writes the file that an orderly end leaves.
fn pretend_order(origin: &Origin, state: &Path) {
    let line = format!("\"site1\" {}\n", origin.url());
    std::fs::write(state.join("settled-127.0.0.1:0"), line).expect("written");
}

#[test]
fn the_next_start_is_without_doubt_only_after_an_orderly_end() {
    let (data, state) = (Data::default(), state());
    let origin = data.origin("200 OK");
    let first = gateway(&origin, state.path(), "");
    assert!(!makes_tags(&first), "earlier changes are unknown");
    // The first process ends during its doubt, so it does not leave the file itself.
    end(first);
    pretend_order(&origin, state.path());
    let second = gateway(&origin, state.path(), "");
    assert!(makes_tags(&second));
    end(second);
    let third = gateway(&origin, state.path(), "");
    assert!(makes_tags(&third), "the second ended in order");
    drop(third);
    assert!(!makes_tags(&gateway(&origin, state.path(), "")), "the third was killed");
}

#[test]
fn an_end_in_the_middle_of_a_change_is_not_in_order() {
    for keys in ["[timeouts]\nfirst_byte = '100ms'", "[timeouts]\ndrain = '100ms'"] {
        let (data, state) = (Data::default(), state());
        let origin = data.origin("200 OK");
        pretend_order(&origin, state.path());
        let first = gateway(&origin, state.path(), keys);
        let mut writer = first.client();
        writer.send("PUT /users/1\nHold: it\n\nx");
        origin.wait_for(1);
        if keys.contains("first_byte") {
            assert_eq!(writer.receive("PUT").status, 504);
        }
        end(first);
        assert!(!makes_tags(&gateway(&origin, state.path(), "")), "{keys}");
        data.commit("it");
    }
}

#[test]
fn another_backend_starts_in_doubt() {
    let (data, state) = (Data::default(), state());
    let (origin, other) = (data.origin("200 OK"), data.origin("200 OK"));
    pretend_order(&other, state.path());
    assert!(!makes_tags(&gateway(&origin, state.path(), "")));
}

#[test]
fn a_gateway_without_a_state_directory_starts_in_doubt() {
    let data = Data::default();
    let origin = data.origin("200 OK");
    let config = site(&[&origin], "role = 'tags'\ntag_doubt = '0s'");
    let nowhere = [("STATE_DIRECTORY", Path::new("")), ("XDG_STATE_HOME", Path::new("/dev/null"))];
    assert!(makes_tags(&Larder::start_in(&config, &nowhere)), "no doubt is what was configured");
    let config = site(&[&origin], "role = 'tags'");
    assert!(!makes_tags(&Larder::start_in(&config, &nowhere)));
}

#[test]
fn a_gateway_that_returns_to_the_config_has_no_old_tags() {
    let (data, state) = (Data::default(), state());
    let origin = data.origin("200 OK");
    pretend_order(&origin, state.path());
    let larder = gateway(&origin, state.path(), "");
    let tag = larder.get("/users/1").field("etag").map(str::to_owned).expect("it makes tags");
    assert!(is_current(&larder, "/users/1", &tag));
    let ask = || larder.ask(&format!("GET /users/1\nIf-None-Match: {tag}"));
    larder.reload(&site(&[&origin], ""));
    eventually("a cache", || (!ask().cache().contains("tag-")).then_some(()));
    assert_eq!(larder.ask("PUT /users/1\n\nx").status, 200);
    larder.reload(&site(&[&origin], "role = 'tags'"));
    let response =
        eventually("a gateway", || Some(ask()).filter(|response| response.cache().contains("tag-")));
    assert_eq!((response.status, response.field("etag")), (200, None));
}

/// Changes, kills and orderly ends at random; returns how often a tag of old content is confirmed as current. If
/// `pretends`, each process finds the file of an orderly end.
fn old_tags(seed: u64, pretends: bool) -> usize {
    let (mut rng, data, state) = (Rng::with_seed(seed), Data::default(), state());
    let origin = data.origin("200 OK");
    pretend_order(&origin, state.path());
    let mut larder = gateway(&origin, state.path(), "");
    let mut old = 0;
    for round in 0..3 {
        let name = format!("change{round}");
        let mut writer = larder.client();
        let before = origin.count();
        writer.send(&format!("PUT /users/1\nHold: {name}\n\nx"));
        origin.wait_for(before + 1);
        if rng.bool() {
            larder.get("/users/1");
        }
        let commits_first = round > 0 && rng.bool();
        if commits_first {
            data.commit(&name);
        }
        drop(larder);
        if pretends {
            pretend_order(&origin, state.path());
        }
        larder = gateway(&origin, state.path(), "");
        let tag = larder.get("/users/1").field("etag").map(str::to_owned);
        if !commits_first {
            data.commit(&name);
            old += usize::from(tag.is_some_and(|tag| is_current(&larder, "/users/1", &tag)));
        }
        if rng.bool() {
            end(larder);
            larder = gateway(&origin, state.path(), "");
        }
    }
    old
}

#[test]
fn tags_of_a_restarted_gateway_never_match_replaced_content() {
    let seed = seed();
    assert_eq!(old_tags(seed, false), 0, "seed {seed}");
    assert!(old_tags(seed, true) > 0, "seed {seed}: without doubt, the checker finds what is old");
}
