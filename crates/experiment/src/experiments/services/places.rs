//! Caches at four places beside each other: in each client's browser, in a client library that the clients of one
//! application share, in a proxy for all, and in the services themselves. Simulated, with the requests of live runs and
//! room for all answers.
//!
//! The services keep the tags of their answers (the tower layer), and confirm a current tag without work.

use std::collections::{HashMap, HashSet};

use larder_evict::spread;
use larder_lab::replay::ratio;
use larder_lab::workload::{Latency, Method, Pages, Rate, Sizes};
use serde::{Deserialize, Serialize};

use super::conditions::{WRITES, workload};
use super::seed;
use crate::findings::{Column, Finding, Grid, Ruling};
use crate::{Bound, ClaimKind, Interval, Samples};

/// The number of clients, who send the requests in a random order.
const CLIENTS: usize = 16;
/// The number of clients of one application.
const OF_APPLICATION: usize = 4;

/// A place of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Place {
    Browser,
    Library,
    Proxy,
    Services,
}

/// The places, and their names.
const PLACES: [(Place, &str); 4] = [
    (Place::Browser, "each client's browser"),
    (Place::Library, "a client library for 4 clients"),
    (Place::Proxy, "a proxy for all clients"),
    (Place::Services, "the services"),
];

/// What the caches of a place save for one list of requests, as shares of the GETs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Savings {
    repetition: u64,
    place: Place,
    /// The services do not make the answer.
    work: f64,
    /// The content is not sent from the services.
    transfer: f64,
}

impl Savings {
    /// Sends the first `requests` requests of `seed`, from clients in a random order, through caches at each place.
    pub(super) fn all(requests: u64, seed: u64, repetition: u64) -> Vec<Self> {
        let one = |(place, _): (Place, &str)| {
            let [work, transfer] = Tags::default().send(requests, seed, place);
            Self { repetition, place, work, transfer }
        };
        PLACES.map(one).to_vec()
    }
}

/// The tags of current answers, and the copies of answers that caches have.
#[derive(Default)]
struct Tags {
    made: u64,
    current: HashMap<String, u64>,
    /// By the number of the cache, and the path.
    copies: HashMap<(usize, String), u64>,
}

impl Tags {
    /// Returns the shares of the GETs without work of the services, and without content from them.
    fn send(mut self, requests: u64, seed: u64, place: Place) -> [f64; 2] {
        let pages = Pages { sizes: Sizes::Fixed(0), latency: Latency::Constant(0) };
        let (mut reads, mut saved) = (0_u32, [0_u32; 2]);
        for (at, step) in (0..).zip(workload(requests, WRITES).workload(&pages, Rate(1.0), seed).steps) {
            let client = spread(at) as usize % CLIENTS;
            if step.method != Method::Get {
                self.blank(&step.path);
                continue;
            }
            let [work, transfer] = self.read(step.path, client, place);
            reads += 1;
            saved[0] += u32::from(work);
            saved[1] += u32::from(transfer);
        }
        saved.map(|count| ratio(f64::from(count), f64::from(reads)))
    }

    /// Blanks the tags of the service of `path`; paths and skills show users.
    fn blank(&mut self, path: &str) {
        let written = service(path);
        self.current.retain(|known, _| written != "users" && service(known) != written);
    }

    /// Returns whether a GET by `client` saves the services' work, and the transfer of content.
    fn read(&mut self, path: String, client: usize, place: Place) -> [bool; 2] {
        let cache = match place {
            Place::Browser => client,
            Place::Library => client / OF_APPLICATION,
            Place::Proxy | Place::Services => 0,
        };
        let tag = self.current.get(&path).copied();
        let copy = self.copies.get(&(cache, path.clone())).copied();
        let is_kept = tag.is_some() && tag == copy;
        let tag = tag.unwrap_or_else(|| {
            self.made += 1;
            self.made
        });
        self.current.insert(path.clone(), tag);
        self.copies.insert((cache, path), tag);
        [is_kept, is_kept && place != Place::Services]
    }
}

fn service(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

/// Decides the seed report's expectation of caches in clients.
pub(super) fn claim(all: &[Savings]) -> Finding {
    let of = |place: Place| all.iter().filter(move |one| one.place == place);
    let mut samples = Samples::default();
    let pairs = of(Place::Browser).zip(of(Place::Proxy));
    samples.add("all", pairs.map(|(browser, proxy)| (browser.repetition, browser.work - proxy.work)));
    let claim = "Caches in the clients' browsers save more of the services' work than a proxy cache";
    let source = seed(
        "It can also study the effects of client side and server side caching. This might yield better results than a proxy cache \
         since requests do not have to pass through the proxy server.",
    );
    let mean = |place| ratio(of(place).map(|one| one.work).sum(), of(place).count() as f64) * 100.0;
    let shares: Vec<_> = PLACES.iter().map(|(place, name)| format!("{name}: {:.0}%", mean(*place))).collect();
    let decided = (samples, Bound::Above(0.0));
    Finding::sampled(claim, source, ClaimKind::OnAverage, decided, (100.0, "points of all GETs"))
        .saying(format!(
            "Simulated, with {CLIENTS} clients. The GETs for which the services do no work, with a cache in {}. A request does not \
             pass a proxy then, but for a cache in a proxy.",
            shares.join("; ")
        ))
        .because(
            &[Ruling::Fails],
            "A client has a copy only of what it has requested itself since the last change, and a proxy of what anyone has. \
             A cache in the services saves as much work as a proxy, and sends each content again.",
        )
}

/// Returns the savings at each place.
pub(super) fn table(all: &[Savings]) -> Grid {
    let mean = |place: Place, value: fn(&Savings) -> f64| {
        Interval::mean_cell(all.iter().filter(|one| one.place == place).map(value), 3)
    };
    let columns: [Column<'_, (Place, &str)>; 3] = [
        ("place of the cache", &|(_, name)| (*name).to_owned()),
        ("GETs without work of the services", &|(place, _)| mean(*place, |one| one.work)),
        ("GETs without content from the services", &|(place, _)| mean(*place, |one| one.transfer)),
    ];
    let measured: HashSet<_> = all.iter().map(|one| one.place).collect();
    let rows = PLACES.into_iter().filter(|(place, _)| measured.contains(place));
    Grid::of("Caches at four places, with room for all answers", &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_of_use_only_while_its_tag_is_current() {
        for (place, others, own) in [
            (Place::Browser, [false, false], [true, true]),
            (Place::Library, [true, true], [true, true]),
            (Place::Proxy, [true, true], [true, true]),
            (Place::Services, [true, false], [true, false]),
        ] {
            let mut tags = Tags::default();
            let read = |tags: &mut Tags, client| tags.read("/paths/1".to_owned(), client, place);
            assert_eq!(read(&mut tags, 0), [false, false], "{place:?}");
            assert_eq!((read(&mut tags, 1), read(&mut tags, 0)), (others, own), "{place:?}");
            tags.blank("/users/1");
            assert_eq!(read(&mut tags, 0), [false, false], "{place:?}");
        }
    }

    #[test]
    fn more_clients_of_a_cache_save_more_work() {
        let [browser, library, proxy, services] =
            <[Savings; 4]>::try_from(Savings::all(2_000, 1, 0)).unwrap();
        assert!(
            browser.work < library.work && library.work < proxy.work,
            "{browser:?} {library:?} {proxy:?}"
        );
        assert_eq!((services.work, services.transfer), (proxy.work, 0.0));
    }
}
