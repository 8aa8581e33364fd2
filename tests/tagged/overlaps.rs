//! Reads that overlap writes, with a backend that is held at the point of the race.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};

use crate::{gateway, is_current};

/// A backend whose responses contain a version, and which can be held: a read after it has read the version, a write
/// before or after it has changed the version.
struct Held {
    origin: Origin,
    gate: Gate,
}

#[derive(Clone, Copy, PartialEq)]
enum Where {
    AfterRead,
    BeforeCommit,
    AfterCommit,
    InContent,
}

impl Held {
    fn at(place: Where) -> Self {
        let (gate, version) = (Gate::default(), Arc::new(AtomicU32::new(1)));
        let held = gate.clone();
        let origin = Origin::answering(move |seen| {
            if seen.method == "GET" {
                let body = format!("version {}", version.load(Ordering::SeqCst));
                if place == Where::AfterRead && seen.field("hold").is_some() {
                    held.pass();
                }
                return Answer::with_body("200 OK", body.as_bytes());
            }
            if place == Where::BeforeCommit {
                held.pass();
            }
            version.fetch_add(1, Ordering::SeqCst);
            if place == Where::AfterCommit {
                held.pass();
            }
            match place {
                Where::InContent => {
                    Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").then_wait(&held).then("cd")
                }
                _ => Answer::with_body("200 OK", b""),
            }
        });
        Self { origin, gate }
    }
}

fn tag(larder: &Larder) -> String {
    larder.get("/paths/1").field("etag").expect("a tag").to_owned()
}

#[test]
fn a_read_that_ends_after_a_write_leaves_no_tag() {
    let Held { origin, gate } = Held::at(Where::AfterRead);
    let larder = gateway(&origin, "");
    let mut slow = larder.client();
    slow.send("GET /paths/1\nHold: here");
    eventually("the read", || (origin.count() == 1).then_some(()));
    larder.ask("POST /users\n\nx");
    gate.open();
    let old = slow.receive("GET");
    assert_eq!(old.text(), "version 1");
    assert!(!is_current(&larder, "/paths/1", old.field("etag").expect("a tag")));
    let pools = larder.stats()["gateways"][0]["pools"].clone();
    assert!(pools.as_array().expect("pools").iter().any(|pool| pool["refused"] == 1), "{pools}");
}

#[test]
fn a_read_during_a_write_leaves_no_tag_that_outlives_it() {
    for place in [Where::BeforeCommit, Where::AfterCommit] {
        let Held { origin, gate } = Held::at(place);
        let larder = gateway(&origin, "");
        let before = tag(&larder);
        let mut writer = larder.client();
        writer.send("POST /users\n\nx");
        eventually("the write", || (origin.count() == 2).then_some(()));
        let meanwhile = tag(&larder);
        gate.open();
        writer.receive("POST");
        assert!(!is_current(&larder, "/paths/1", &before));
        let now = tag(&larder);
        assert_ne!(now, before);
        assert_eq!(is_current(&larder, "/paths/1", &meanwhile), meanwhile == now);
    }
}

#[test]
fn a_read_before_a_write_response_ends_leaves_no_lasting_tag() {
    let Held { origin, gate } = Held::at(Where::InContent);
    let larder = gateway(&origin, "");
    let mut writer = larder.client();
    writer.send("POST /users\n\nx");
    let head = writer.head();
    let meanwhile = tag(&larder);
    assert!(is_current(&larder, "/paths/1", &meanwhile));
    gate.open();
    assert_eq!(writer.content(&head).0, b"abcd");
    let asked = origin.count();
    larder.ask(&format!("GET /paths/1\nIf-None-Match: {meanwhile}"));
    assert_eq!(origin.count(), asked + 1, "the pool was blanked before the last of the answer went out");
}
