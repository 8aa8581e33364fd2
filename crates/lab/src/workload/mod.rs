//! Generated workloads: requests in order, drawn from a documented model.
//!
//! The same model and seed give the same workload on every machine, and the first lines of a workload's file name both.
//! An [`Order`] determines the sequence of pages; [`Pages`] determine the size of each and the cost of fetching it.
//! [`Crud`] is a separate order, with methods and bodies.

mod browsing;
mod crud;
mod import;
mod order;
mod pages;
mod web;
mod write;

use larder_load::RequestCollector;
use larder_words::named;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

pub use browsing::Dataset;
pub use crud::{Crud, Endpoint, KINDS};
pub use import::import;
pub use larder_load::{More, Requests, SentRequest};
pub use order::Order;
pub use pages::{Latency, Pages, Sizes};
pub use web::Web;
pub use write::write;

/// The random generator: documented to give the same numbers on every machine, in every version.
pub type Random = ChaCha8Rng;

named! {
    /// A request method that a workload uses.
    #[derive(Hash)]
    pub enum Method, name {
        /// Requests a page.
        Get = "GET",
        /// Adds to a collection.
        Post = "POST",
        /// Replaces a member.
        Put = "PUT",
        /// Changes a member.
        Patch = "PATCH",
        /// Removes a member.
        Delete = "DELETE",
    }
}

/// One request of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadRequest {
    /// The time to send it, in microseconds from the start.
    pub time: u64,
    /// Its method.
    pub method: Method,
    /// Its URL, from the path on.
    pub path: String,
    /// The size of the page, in bytes.
    pub size: u64,
    /// The origin's time for it, in microseconds.
    pub cost: u32,
    /// The body, in JSON; empty for none.
    pub body: String,
}

/// A workload: the header of its file, and its requests.
pub struct Workload {
    /// Lines that state the model and every number in it.
    pub header: Vec<String>,
    /// The requests in order.
    pub steps: Box<dyn Iterator<Item = WorkloadRequest>>,
}

impl Workload {
    /// Returns all requests, for a load tool.
    pub fn requests(self) -> Requests {
        let mut gather = RequestCollector::default();
        for step in self.steps {
            let more = More { method: step.method.name().to_owned(), fields: Vec::new(), body: step.body };
            gather.push(&step.path, more);
        }
        gather.requests
    }
}

/// The rate of requests, which arrive at independent random times (a Poisson process).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(
    /// Requests a second, more than 0.
    pub f64,
);

/// Returns requests for the pages of `order`, in sequence.
pub fn pages(order: &Order, pages: &Pages, rate: Rate, seed: u64) -> Workload {
    let mut random = Random::seed_from_u64(seed);
    let sizes = order.sizes(&pages.sizes, &mut random);
    let table = pages.of_sizes(sizes, &mut random);
    let header = vec![order.describe(), pages.describe(), rate.describe(), format!("seed {seed}")];
    let sequence = order.sequence(&table, &mut random);
    let mut clock = Clock::new(rate, random);
    let steps = sequence.map(move |page| {
        let drawn = table.page(page);
        let path = format!("/page/{page}");
        WorkloadRequest {
            time: clock.tick(),
            method: Method::Get,
            path,
            size: drawn.size,
            cost: drawn.cost,
            body: String::new(),
        }
    });
    Workload { header, steps: Box::new(steps) }
}

impl Rate {
    fn describe(self) -> String {
        format!("arrivals: Poisson, {} a second", self.0)
    }
}

/// Draws the times at which requests are sent.
struct Clock {
    gaps: rand_distr::Exp<f64>,
    random: Random,
    now: f64,
}

impl Clock {
    fn new(rate: Rate, random: Random) -> Self {
        let per_microsecond = (rate.0 / 1e6).max(f64::MIN_POSITIVE);
        // Every positive rate is valid; an invalid rate becomes one request a second.
        let gaps =
            rand_distr::Exp::new(per_microsecond).unwrap_or(rand_distr::Exp::new(1e-6).expect("positive"));
        Self { gaps, random, now: 0.0 }
    }

    /// Returns the time of the next request, in microseconds from the start.
    fn tick(&mut self) -> u64 {
        let now = self.now as u64;
        self.now += rand_distr::Distribution::sample(&self.gaps, &mut self.random);
        now
    }
}
