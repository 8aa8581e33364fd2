//! What a write blanks: the tags of a whole service, as in the seed report, or only those of the endpoints whose data it
//! changes. Simulated: the services answer the requests of a live run in sequence.

use std::collections::{BTreeSet, HashMap, HashSet};

use larder_lab::replay::ratio;
use larder_lab::workload::{Latency, Method, Pages, Rate, Sizes};
use serde::{Deserialize, Serialize};

use super::conditions::ENTITIES;
use super::conditions::{WRITES, workload};
use super::seed;
use crate::findings::{Finding, Ruling};
use crate::services::Rehearsal;
use crate::{Bound, ClaimKind, Halt, Samples};

/// The shares of the GETs for which the services do no work, because the tag of the last answer is not blank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Unasked {
    repetition: u64,
    /// If a write blanks all endpoints of its service, and a write to users those of all services.
    by_service: f64,
    /// If a write blanks the endpoints that show the data that it changes.
    by_endpoint: f64,
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

impl Unasked {
    /// Sends the first `requests` requests of `seed` to new services.
    ///
    /// # Errors
    /// If the services cannot be created.
    pub(super) fn new(requests: u64, seed: u64, repetition: u64) -> Result<Self, Halt> {
        let services = Rehearsal::new(ENTITIES).map_err(|error| Halt::because("cannot simulate", error))?;
        let pages = Pages { sizes: Sizes::Fixed(0), latency: Latency::Constant(0) };
        let (mut tags, mut reads, mut unasked) = (Tags::default(), 0, [0, 0]);
        for step in workload(requests, WRITES).workload(&pages, Rate(1.0), seed).steps {
            let (status, data) = services.data_of(&step);
            if step.method != Method::Get {
                tags.blank(&step.path, &data);
                continue;
            }
            reads += 1;
            unasked[0] += u32::from(tags.by_service.contains(&step.path));
            unasked[1] += u32::from(tags.by_endpoint.contains_key(&step.path));
            if status == 200 {
                tags.by_service.insert(step.path.clone());
                tags.by_endpoint.insert(step.path, data);
            }
        }
        let [by_service, by_endpoint] = unasked.map(|count| ratio(f64::from(count), f64::from(reads)));
        Ok(Self { repetition, by_service, by_endpoint })
    }
}

/// Decides the seed report's expectation of finer blanking.
pub(super) fn claim(all: &[Unasked]) -> Finding {
    let mut samples = Samples::default();
    samples.add("all", all.iter().map(|one| (one.repetition, one.by_endpoint - one.by_service)));
    let mean = |value: fn(&Unasked) -> f64| ratio(all.iter().map(value).sum(), all.len() as f64) * 100.0;
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
            mean(|one| one.by_service),
            mean(|one| one.by_endpoint),
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
    fn finer_blanking_leaves_more_answers_current() {
        let unasked = Unasked::new(600, 1, 0).unwrap();
        assert!(unasked.by_endpoint > unasked.by_service + 0.1, "{unasked:?}");
    }
}
