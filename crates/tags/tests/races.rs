//! A read that overlaps a write: for any order of their steps, no tag is valid longer than its response.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use http::{HeaderMap, StatusCode};
use larder_tags::{Change, Pools, TagDecision, Ticket};
use proptest::prelude::*;
use std::sync::Arc;

use support::{coupled, fetched, fields, forwarded, get, matches, pass, post};

/// Returns every order of `reads` steps of one sequence and `writes` steps of another: true is a step of the first.
fn orders(reads: usize, writes: usize) -> Vec<Vec<bool>> {
    if reads + writes == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (is_read, left) in [(true, reads), (false, writes)] {
        if left > 0 {
            let (reads, writes) = if is_read { (reads - 1, writes) } else { (reads, writes - 1) };
            all.extend(orders(reads, writes).into_iter().map(|rest| [vec![is_read], rest].concat()));
        }
    }
    all
}

/// Runs a GET of `/paths` (asked, read by the backend, answered) against a write to `/users`, whose steps
/// change the backend's version and the pools. Afterwards the first version must not match.
fn play(order: &[bool], steps: &[fn(&mut Write)]) {
    let mut write = Write { pools: coupled(), change: None, version: 1 };
    let (mut ticket, mut read, mut at) = (None::<Ticket>, 0, (0, 0));
    for &is_read in order {
        match (is_read, at.0) {
            (true, 0) => ticket = Some(forwarded(&write.pools, "/paths", "")),
            (true, 1) => read = write.version,
            (true, _) => {
                let answer = fields(&format!("ETag: \"{read}\""));
                let ticket = ticket.as_ref().expect("it was asked");
                ticket.answer(&HeaderMap::new(), StatusCode::OK, &answer, None);
            }
            (false, _) => steps[at.1](&mut write),
        }
        if is_read { at.0 += 1 } else { at.1 += 1 }
    }
    for wait in [0, 59, 2] {
        pass(wait);
        assert!(!matches(&write.pools, "/paths", "If-None-Match: \"1\""), "{order:?}");
    }
}

struct Write {
    pools: Arc<Pools>,
    change: Option<Change>,
    version: u32,
}

impl Write {
    fn arrive(&mut self) {
        self.change = Some(post(&self.pools, "/users"));
    }

    fn commit(&mut self) {
        self.version += 1;
    }

    fn answered(&mut self) {
        self.answered_with(200);
    }

    fn given_up(&mut self) {
        self.answered_with(504);
    }

    fn answered_with(&mut self, status: u16) {
        let status = StatusCode::from_u16(status).expect("a status");
        self.change.as_mut().expect("it arrived").answered(status);
    }

    fn end(&mut self) {
        self.change = None;
    }
}

#[test]
fn a_read_may_overlap_a_write_in_any_order() {
    for order in orders(3, 4) {
        play(&order, &[Write::arrive, Write::commit, Write::answered, Write::end]);
    }
}

#[test]
fn a_write_committed_while_its_response_is_sent_leaves_no_outdated_tag() {
    for order in orders(3, 4) {
        play(&order, &[Write::arrive, Write::answered, Write::commit, Write::end]);
    }
}

#[test]
fn a_write_whose_client_has_left_may_still_be_committed() {
    for order in orders(3, 3) {
        play(&order, &[Write::arrive, Write::commit, Write::end]);
        play(&order, &[Write::arrive, Write::end, Write::commit]);
    }
}

#[test]
fn a_write_that_was_given_up_may_still_be_committed() {
    for order in orders(3, 4) {
        play(&order, &[Write::arrive, Write::given_up, Write::end, Write::commit]);
    }
}

#[test]
fn no_tags_are_made_as_long_as_there_is_doubt() {
    let with_elsewhere = || {
        let pools = coupled();
        fetched(&pools, "/elsewhere", "", "ETag: \"1\"");
        pools
    };
    let (never_sent, doubtful, certain) = (with_elsewhere(), with_elsewhere(), with_elsewhere());
    post(&never_sent, "/users").never_sent();
    drop(post(&doubtful, "/users"));
    post(&certain, "/users").answered(StatusCode::INTERNAL_SERVER_ERROR);
    for (pools, made) in [(never_sent, true), (doubtful, false), (certain, true)] {
        fetched(&pools, "/paths", "", "ETag: \"1\"");
        assert_eq!(matches(&pools, "/paths", "If-None-Match: \"1\""), made);
        assert!(matches(&pools, "/elsewhere", "If-None-Match: \"1\""));
    }
}

#[test]
fn pools_that_start_in_doubt_make_no_tags_until_it_is_over() {
    let pools = coupled();
    assert!(pools.is_settled());
    pools.start_in_doubt();
    for wait in [0, 30, 29] {
        pass(wait);
        fetched(&pools, "/paths", "", "ETag: \"1\"");
        assert!(!matches(&pools, "/paths", "If-None-Match: \"1\"") && !pools.is_settled());
    }
    pass(2);
    fetched(&pools, "/paths", "", "ETag: \"1\"");
    assert!(matches(&pools, "/paths", "If-None-Match: \"1\"") && pools.is_settled());
}

#[test]
fn pools_are_settled_when_each_change_has_a_known_end() {
    let pools = coupled();
    let mut change = post(&pools, "/users");
    assert!(!pools.is_settled());
    change.answered(StatusCode::OK);
    assert!(!pools.is_settled(), "its answer is still on its way");
    drop(change);
    assert!(pools.is_settled());
    drop(post(&pools, "/users"));
    assert!(!pools.is_settled());
    pass(62);
    assert!(pools.is_settled());
}

/// A request in flight: a read of one of two segments, or a write to one.
enum Flight {
    Read { path: bool, shown: (u32, u32), ticket: Option<Ticket>, seen: Option<(u32, u32)> },
    Write { path: bool, change: Option<Change>, committed: bool, is_lost: bool },
}

/// A backend with users and paths, where a path contains its user; the versions are those committed, and
/// those acknowledged.
#[derive(Default)]
struct World {
    now: (u32, u32),
    acknowledged: (u32, u32),
    known: Vec<(bool, (u32, u32))>,
}

impl World {
    fn content(&self, path: bool) -> (u32, u32) {
        if path { self.now } else { (self.now.0, 0) }
    }

    /// Takes the next step of a request in flight; `None` after the last.
    fn step(&mut self, pools: &Arc<Pools>, flight: Flight) -> Option<Flight> {
        match flight {
            Flight::Read { path, shown, ticket: None, .. } => {
                let text = format!("If-None-Match: \"{}.{}\"", shown.0, shown.1);
                match get(pools, target(path), &text) {
                    TagDecision::Forward(ticket) => {
                        Some(Flight::Read { path, shown, ticket: Some(ticket), seen: None })
                    }
                    _ => {
                        let is_stale =
                            shown.0 < self.acknowledged.0 || (path && shown.1 < self.acknowledged.1);
                        assert!(!is_stale, "{shown:?} is called current after {:?}", self.acknowledged);
                        None
                    }
                }
            }
            Flight::Read { path, shown, ticket, seen: None } => {
                Some(Flight::Read { path, shown, ticket, seen: Some(self.content(path)) })
            }
            Flight::Read { path, ticket: Some(ticket), seen: Some(seen), .. } => {
                let answer = fields(&format!("ETag: \"{}.{}\"", seen.0, seen.1));
                ticket.answer(&HeaderMap::new(), StatusCode::OK, &answer, None);
                self.known.push((path, seen));
                None
            }
            Flight::Write { path, change: None, committed: false, is_lost } => {
                let change = Some(post(pools, target(path)));
                Some(Flight::Write { path, change, committed: false, is_lost })
            }
            // The client of a lost write leaves first; the write is committed all the same.
            Flight::Write { path, change: Some(_), committed: false, is_lost: true } => {
                Some(Flight::Write { path, change: None, committed: true, is_lost: true })
            }
            Flight::Write { path, committed: true, is_lost: true, .. } => {
                self.commit(path);
                None
            }
            Flight::Write { path, change, committed: false, is_lost: false } => {
                self.commit(path);
                Some(Flight::Write { path, change, committed: true, is_lost: false })
            }
            Flight::Write { path, change, is_lost: false, .. } => {
                change.into_iter().for_each(|mut change| change.answered(StatusCode::OK));
                let (now, acknowledged) = (self.now, &mut self.acknowledged);
                if path {
                    acknowledged.1 = now.1
                } else {
                    acknowledged.0 = now.0
                }
                None
            }
        }
    }

    fn commit(&mut self, path: bool) {
        if path { self.now.1 += 1 } else { self.now.0 += 1 }
    }
}

fn target(path: bool) -> &'static str {
    if path { "/paths/1" } else { "/users/1" }
}

proptest! {
    #[test]
    fn superseded_versions_are_never_current(
        steps in prop::collection::vec((0_u8..10, any::<prop::sample::Index>(), any::<bool>()), 1..200),
    ) {
        let (pools, mut world, mut flights) = (coupled(), World::default(), Vec::new());
        let mut waited = 0;
        for (kind, index, path) in steps {
            match kind {
                0..=1 => {
                    let known: Vec<_> = world.known.iter().filter(|(of, _)| *of == path).collect();
                    let shown = if known.is_empty() { (9, 9) } else { index.get(&known).1 };
                    flights.push(Flight::Read { path, shown, ticket: None, seen: None });
                }
                2 => flights.push(Flight::Write { path, change: None, committed: false, is_lost: index.index(8) == 0 }),
                // A backend finishes a write without a client in less than a minute.
                3 if waited < 50 => {
                    pass(5);
                    waited += 5;
                }
                _ if kind == 3 || flights.is_empty() => {}
                _ => {
                    let flight = flights.swap_remove(index.index(flights.len()));
                    flights.extend(world.step(&pools, flight));
                }
            }
        }
        // At the end, only the final contents are current.
        while let Some(flight) = flights.pop() {
            flights.extend(world.step(&pools, flight));
        }
        for (path, seen) in &world.known {
            let shown = format!("If-None-Match: \"{}.{}\"", seen.0, seen.1);
            let is_current = *seen == world.content(*path);
            prop_assert!(is_current || !matches(&pools, target(*path), &shown), "{seen:?} of {:?}", world.now);
        }
    }
}
