//! Random reads and changes through a cache, a gateway and a backend that commits some changes long after the cache or
//! the gateway has timed out. No read may be older than the acknowledged changes; and while the result of a change is
//! unknown, each read must return the backend's current data.
//!
//! `LARDER_SEED` repeats a run.

use fastrand::Rng;
use larder_testkit::{Larder, eventually};

use crate::cache;
use crate::doubt::IMPATIENT;
use crate::late::{Data, Versions, shown};
use crate::started;

/// The number of users, and of paths.
const ENTITIES: u32 = 3;
const STEPS: u32 = 60;
/// The changes of a round that time out.
const LATE: usize = 4;

/// A run with one cache, and the faults that it found.
struct Round {
    rng: Rng,
    data: Data,
    gateway: Larder,
    front: Larder,
    acknowledged: std::collections::HashMap<String, u32>,
    /// The changes that timed out and were not yet committed.
    pending: Vec<String>,
    /// Whether there was such a change in the pool of users, and of paths.
    doubted: [bool; 2],
    given_up: usize,
    wrong: Vec<String>,
}

impl Round {
    fn read(&mut self, target: &str) {
        let seen = shown(self.front.get(target).text());
        let of = |target: &str| self.acknowledged.get(target).copied().unwrap_or_default();
        let least: Versions = match target.strip_prefix("/paths/") {
            Some(id) => (of(&format!("/users/{id}")), of(target)),
            None => (of(target), 0),
        };
        let is_doubted = self.doubted[usize::from(target.starts_with("/paths/"))];
        let now = self.data.versions(target);
        if seen.0 < least.0 || seen.1 < least.1 || (is_doubted && seen != now) {
            self.wrong.push(format!("{target} shows {seen:?}, not {least:?} to {now:?}"));
        }
    }

    fn change(&mut self, target: &str) {
        assert_eq!(self.front.ask(&format!("PUT {target}\n\nx")).status, 200);
        let (user, path) = self.data.versions(target);
        self.acknowledged.insert(target.to_owned(), if target.starts_with("/paths/") { path } else { user });
    }

    fn give_up(&mut self, target: &str) {
        let name = format!("change{}", self.given_up);
        self.given_up += 1;
        assert_eq!(self.front.ask(&format!("PUT {target}\nHold: {name}\n\nx")).status, 504);
        self.pending.push(name);
        self.doubted[1] = true;
        self.doubted[0] |= target.starts_with("/users/");
    }

    fn commit(&mut self) {
        let name = self.pending.swap_remove(self.rng.usize(..self.pending.len()));
        self.data.commit(&name);
        // A gateway that still waits for the backend learns of the commit from the response.
        let left = self.pending.len() as u64;
        eventually("the answer at the gateway", || (self.gateway.stat("in_flight") <= left).then_some(()));
    }

    fn step(&mut self) {
        let kind = ["users", "paths"][self.rng.usize(..2)];
        let target = format!("/{kind}/{}", self.rng.u32(..ENTITIES));
        match self.rng.u32(..20) {
            0..=2 => self.change(&target),
            3 if self.given_up < LATE => self.give_up(&target),
            4..=5 if !self.pending.is_empty() => self.commit(),
            _ => self.read(&target),
        }
    }
}

/// Returns the faults in a round with these keys for the cache and the gateway.
fn wrong(seed: u64, keys: &str) -> Vec<String> {
    let mut rng = Rng::with_seed(seed);
    let (behind, before) = if rng.bool() { (IMPATIENT, "") } else { ("", IMPATIENT) };
    let data = Data::default();
    let origin = data.origin("200 OK");
    let gateway = started(&origin, behind, &format!("push = true\n{keys}"));
    let front = cache(&format!("http://{}", gateway.address()), &format!("{keys}\n{before}"));
    let (acknowledged, pending, wrong) = Default::default();
    let mut round =
        Round { rng, data, gateway, front, acknowledged, pending, doubted: [false; 2], given_up: 0, wrong };
    (0..STEPS).for_each(|_| round.step());
    // At least one read takes place between the timeout of a change and its commit.
    round.give_up("/users/1");
    round.read("/paths/1");
    while !round.pending.is_empty() {
        round.commit();
    }
    for id in 0..ENTITIES {
        ["users", "paths"].iter().for_each(|kind| round.read(&format!("/{kind}/{id}")));
    }
    round.wrong
}

fn seeds() -> Vec<u64> {
    let given = std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok());
    given.map_or_else(|| (0..3).map(|_| fastrand::u64(..1 << 32)).collect(), |seed| vec![seed])
}

#[test]
fn nothing_is_older_than_what_was_acknowledged_however_late_changes_are_committed() {
    for seed in seeds() {
        println!("LARDER_SEED={seed}");
        let wrong = wrong(seed, "");
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

#[test]
fn without_doubt_the_checker_finds_what_is_old() {
    let seed = seeds()[0];
    println!("LARDER_SEED={seed}");
    assert!(!wrong(seed, "tag_doubt = '0s'").is_empty(), "seed {seed}");
}
