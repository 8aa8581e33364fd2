//! Couplings that exist and are found; and the absence of false ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use larder_testkit::{Larder, Origin, Seen, eventually};

use super::{found, stats, validated, validating};

/// Returns an origin where /feeds depends on /users, and not on /paths.
fn services(lines: &'static str) -> Origin {
    let users = Arc::new(AtomicU32::new(0));
    Origin::by(move |Seen { method, target, fields, .. }| {
        if method == "POST" {
            users.fetch_add(u32::from(target == "/users"), Ordering::AcqRel);
            return "204 No Content".to_owned();
        }
        let tag = format!("\"{}\"", users.load(Ordering::Acquire));
        let is_known =
            fields.iter().any(|(name, value)| name.eq_ignore_ascii_case("if-none-match") && *value == tag);
        match is_known {
            true => format!("304 Not Modified\nETag: {tag}\n{lines}"),
            false => format!("200 OK\nETag: {tag}\n{lines}\n\nfeed {tag}"),
        }
    })
}

const FOUND: &str = "after POST /users, 100% of GETs under /feeds changed within 1 s (support ";
const ROUNDS: u64 = 120;
const LINE: &str = "couple = { users = [\"feeds\"] }";

/// Writes to /users and to /paths in turn, and calls `look` after each write to request a feed.
fn drive(larder: &Larder, look: impl Fn(u64)) {
    look(0);
    for round in 1..=ROUNDS {
        let path = if round % 2 == 0 { "/users" } else { "/paths" };
        larder.client().ask(&format!("POST {path}\n\nx"));
        look(round);
    }
}

#[test]
fn revalidations_tell_what_a_write_changes() {
    let origin = services("Cache-Control: no-cache");
    let larder = Larder::before(&origin);
    drive(&larder, |_| assert_eq!(larder.client().ask("GET /feeds/1").status, 200));
    let found = found(&larder, "/couplings");
    let [coupling] = &found["couplings"].as_array().expect("a list")[..] else { panic!("{found}") };
    assert!(coupling["text"].as_str().is_some_and(|text| text.starts_with(FOUND)), "{found}");
    assert_eq!(found["config"][0]["line"], LINE);
    // There was no earlier response to compare the first one with.
    assert_eq!((&found["looks"], &found["writes"]), (&(ROUNDS - 1).into(), &ROUNDS.into()));
    let said = stats(&larder, "--couplings");
    assert!(said.starts_with(&format!("site1: {FOUND}")), "{said}");
    assert!(said.ends_with(&format!("\n{LINE}\n")), "{said}");
}

#[test]
fn the_validator_finds_couplings_where_hits_send_no_request() {
    let origin = services("Cache-Control: max-age=900");
    let larder = validating(&origin, "rate = 100000");
    larder.get("/feeds/1");
    drive(&larder, |round| {
        assert!(larder.client().ask("GET /feeds/1").is_hit());
        eventually("a look", || (found(&larder, "/couplings")["looks"] == round).then_some(()));
    });
    let validated = validated(&larder, ROUNDS + 1);
    // The hits after the first write to users are stale.
    assert_eq!((&validated["ok"], &validated["stale"]), (&2.into(), &(ROUNDS - 1).into()), "{validated}");
    assert_eq!(found(&larder, "/couplings")["config"][0]["line"], LINE);
}

#[test]
fn writes_that_fail_or_change_nothing_couple_nothing() {
    let number = AtomicU32::new(0);
    let origin = Origin::by(move |seen| match (&*seen.method, &*seen.target) {
        ("POST", "/users") => "500 Oops".to_owned(),
        ("POST", _) => "204 No Content".to_owned(),
        // Every third response has a new tag, independent of the writes.
        _ => format!(
            "200 OK\nCache-Control: no-cache\nETag: \"{}\"\n\nx",
            number.fetch_add(1, Ordering::AcqRel) / 3
        ),
    });
    let larder = Larder::before(&origin);
    drive(&larder, |_| assert_eq!(larder.client().ask("GET /feeds/1").status, 200));
    let found = found(&larder, "/couplings");
    assert_eq!(
        (&found["writes"], found["couplings"].as_array().map(Vec::len)),
        (&(ROUNDS / 2).into(), Some(0)),
        "{found}"
    );
    assert_eq!(stats(&larder, "--couplings"), "no couplings in 119 comparisons and 60 writes\n");
}
