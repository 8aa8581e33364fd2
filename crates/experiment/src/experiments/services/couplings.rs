//! What a write blanks: the tags of a whole service, as in the seed report, or only those of the endpoints whose data it
//! changes, which the services know, or which a cache discovers from answers that changed. Simulated: the services answer
//! the requests of a live run in sequence.

use std::collections::{BTreeSet, HashMap, HashSet};

use larder_lab::replay::ratio;
use larder_lab::workload::{Latency, Method, Pages, Rate, Sizes};
use serde::{Deserialize, Serialize};

use super::conditions::ENTITIES;
use super::conditions::{WRITES, workload};
use super::seed;
use crate::experiments::LARDER;
use crate::findings::{Finding, Ruling};
use crate::services::Rehearsal;
use crate::{Bound, ClaimKind, Halt, Samples};

/// The shares of the GETs for which the services do no work, because the tag of the last answer is not blank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AvoidedWork {
    repetition: u64,
    /// If a write blanks all endpoints of its service, and a write to users those of all services.
    by_service: f64,
    /// If a write blanks the endpoints that show the data that it changes.
    by_endpoint: f64,
    /// If a write blanks the endpoints that were seen to change after a write to the same path.
    discovered: f64,
    /// The share of the GETs that are out of date then.
    stale: f64,
}

/// One in this number of answers with a current tag is compared with the services' answer all the same.
const SAMPLE: usize = 10;

/// The couplings of single endpoints, discovered from answers that changed, and the tags under them.
#[derive(Default)]
struct Discovery {
    /// The paths of all writes, in their order.
    writes: Vec<String>,
    /// For each path that was written, the endpoints whose answers changed afterwards.
    coupled: HashMap<String, HashSet<String>>,
    /// For each endpoint, the content of its last answer, and the number of writes before that.
    looks: HashMap<String, (u64, usize)>,
    current: HashSet<String>,
}

/// The source of an answer under discovered couplings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Services,
    Current,
    Stale,
}

impl Discovery {
    /// Blanks the path that is written (RFC 9111 section 4.4), and the endpoints that are coupled to it.
    fn write(&mut self, path: String) {
        self.current.remove(&path);
        for endpoint in self.coupled.get(&path).into_iter().flatten() {
            self.current.remove(endpoint);
        }
        self.writes.push(path);
    }

    /// Answers a GET for which the services would send `content` now. `is_sampled`: whether that is looked at even if
    /// the tag is current.
    fn read(&mut self, path: &str, content: u64, is_sampled: bool) -> Answer {
        let known = self.looks.get(path).copied();
        let answer = match known.filter(|_| self.current.contains(path)) {
            None => Answer::Services,
            Some((stored, _)) if stored == content => Answer::Current,
            Some(_) => Answer::Stale,
        };
        if answer == Answer::Services || is_sampled {
            if let Some((stored, before)) = known
                && stored != content
            {
                // Any of the writes in between may be the cause.
                for written in &self.writes[before..] {
                    self.coupled.entry(written.clone()).or_default().insert(path.to_owned());
                }
            }
            self.looks.insert(path.to_owned(), (content, self.writes.len()));
            self.current.insert(path.to_owned());
        }
        answer
    }
}

/// The stored answers with tags that are not blank.
#[derive(Default)]
struct Tags {
    by_service: HashSet<String>,
    /// With the data of the answer.
    by_endpoint: HashMap<String, BTreeSet<String>>,
}

impl Tags {
    /// Blanks the tags of the endpoints that a write to `path` may change, given the data that it changes.
    fn blank(&mut self, path: &str, changed: &BTreeSet<String>) {
        let service = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
        let written = service(path);
        // Paths and skills show users.
        self.by_service.retain(|known| written != "users" && service(known) != written);
        self.by_endpoint.retain(|_, data| data.is_disjoint(changed));
    }
}

impl AvoidedWork {
    /// Sends the first `requests` requests of `seed` to new services. Fails if the services cannot be created.
    pub(super) fn new(requests: u64, seed: u64, repetition: u64) -> Result<Self, Halt> {
        let services = Rehearsal::new(ENTITIES).map_err(|error| Halt::because("cannot simulate", error))?;
        let pages = Pages { sizes: Sizes::Fixed(0), latency: Latency::Constant(0) };
        let (mut tags, mut discovery) = (Tags::default(), Discovery::default());
        let (mut reads, mut unasked, mut stale) = (0_usize, [0; 3], 0);
        for step in workload(requests, WRITES).workload(&pages, Rate(1.0), seed).steps {
            let (status, data) = services.data_of(&step);
            if step.method != Method::Get {
                tags.blank(&step.path, &data);
                discovery.write(step.path);
                continue;
            }
            reads += 1;
            unasked[0] += u32::from(tags.by_service.contains(&step.path));
            unasked[1] += u32::from(tags.by_endpoint.contains_key(&step.path));
            let content = services.answer(&step).content;
            let answer = discovery.read(&step.path, content, reads.is_multiple_of(SAMPLE));
            unasked[2] += u32::from(answer != Answer::Services);
            stale += u32::from(answer == Answer::Stale);
            if status == 200 {
                tags.by_service.insert(step.path.clone());
                tags.by_endpoint.insert(step.path, data);
            }
        }
        let share = |count: u32| ratio(f64::from(count), reads as f64);
        let [by_service, by_endpoint, discovered] = unasked.map(share);
        Ok(Self { repetition, by_service, by_endpoint, discovered, stale: share(stale) })
    }
}

/// Returns the mean of `value` over all lists, in percent.
fn mean(all: &[AvoidedWork], value: fn(&AvoidedWork) -> f64) -> f64 {
    ratio(all.iter().map(value).sum(), all.len() as f64) * 100.0
}

/// Decides whether discovered couplings are enough to blank single endpoints.
pub(super) fn discovery(all: &[AvoidedWork]) -> Finding {
    let mut samples = Samples::default();
    samples.add("all", all.iter().map(|one| (one.repetition, one.stale)));
    let claim = "Couplings of single endpoints that a cache discovers from changed answers leave at most one GET in a hundred \
     out of date";
    let decided = (samples, Bound::Below(0.01));
    Finding::sampled(claim, LARDER, ClaimKind::OnAverage, decided, (100.0, "points of all GETs"))
        .saying(format!(
            "Simulated, with the same requests. A write blanks its own path and all endpoints whose answers were seen to change \
             after an earlier write to that path; one in {SAMPLE} current answers is compared with the services' answer. The \
             services do no work for {:.0}% of the GETs, and {:.1}% of the GETs are out of date.",
            mean(all, |one| one.discovered),
            mean(all, |one| one.stale),
        ))
        .because(
            &[Ruling::Fails],
            "Most of the paths that are written are written too rarely to learn from: what the services know has to be declared. \
             That is why larder proposes couplings of whole services alone, and obeys none by itself.",
        )
}

/// Decides the seed report's expectation of finer blanking.
pub(super) fn claim(all: &[AvoidedWork]) -> Finding {
    let mut samples = Samples::default();
    samples.add("all", all.iter().map(|one| (one.repetition, one.by_endpoint - one.by_service)));
    let claim = "Blanking only the endpoints that a write changes leaves more GETs without work of the services than blanking whole \
     services";
    let source = seed(
        "Targeting very specific endpoints to blacklist is the most effective but can be computationally intensive or difficult to \
         implement.",
    );
    let decided = (samples, Bound::Above(0.0));
    Finding::sampled(claim, source, ClaimKind::OnAverage, decided, (100.0, "points of all GETs"))
        .saying(format!(
            "Simulated, with the requests of live runs and room for all answers. The services do no work for {:.0}% of the GETs if a \
             write blanks its whole service, and for {:.0}% if it blanks the endpoints that show the changed data.",
            mean(all, |one| one.by_service),
            mean(all, |one| one.by_endpoint),
        ))
        .because(
            &[Ruling::Holds],
            "A write changes one member and the list of its service, and few endpoints show them.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_blanks_its_service_or_the_endpoints_with_its_data() {
        let data =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let mut tags = Tags::default();
        for (path, shown) in [
            ("/users/1", &["users/1"][..]),
            ("/paths/1", &["paths/1", "users/2"]),
            ("/paths/2", &["paths/2", "users/1"]),
        ] {
            tags.by_service.insert(path.to_owned());
            tags.by_endpoint.insert(path.to_owned(), data(shown));
        }
        tags.blank("/paths/1", &data(&["paths/1", "paths"]));
        assert_eq!((tags.by_service.len(), tags.by_endpoint.len()), (1, 2));
        tags.blank("/users/2", &data(&["users/2", "users"]));
        assert_eq!((tags.by_service.len(), tags.by_endpoint.len()), (0, 2));
        tags.blank("/users/1", &data(&["users/1", "users"]));
        assert_eq!(tags.by_endpoint.len(), 0);
    }

    #[test]
    fn a_coupling_is_discovered_once_an_answer_changed_after_a_write() {
        let mut discovery = Discovery::default();
        let read =
            |discovery: &mut Discovery, content, is_sampled| discovery.read("/paths/1", content, is_sampled);
        assert_eq!(read(&mut discovery, 1, false), Answer::Services);
        assert_eq!(read(&mut discovery, 1, false), Answer::Current);
        discovery.write("/users/1".to_owned());
        assert_eq!(read(&mut discovery, 2, false), Answer::Stale);
        assert_eq!(read(&mut discovery, 2, true), Answer::Stale);
        assert_eq!(read(&mut discovery, 2, false), Answer::Current);
        discovery.write("/users/1".to_owned());
        assert_eq!(read(&mut discovery, 3, false), Answer::Services);
    }

    #[test]
    fn finer_blanking_leaves_more_answers_current() {
        let unasked = AvoidedWork::new(600, 1, 0).unwrap();
        assert!(unasked.by_endpoint > unasked.by_service + 0.1, "{unasked:?}");
        assert!(unasked.discovered > unasked.by_endpoint && unasked.stale > 0.0, "{unasked:?}");
    }
}
