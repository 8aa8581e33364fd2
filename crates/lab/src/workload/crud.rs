//! Requests of a small service's users: people, learning paths and skills, with four reads out of five requests (the
//! microservice report's workload: endpoints by entity, Zipf popularity, a share of unsafe requests with valid bodies).

use std::collections::BTreeSet;

use rand::RngExt;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Zipf};

use super::{Clock, Method, Pages, Random, Rate, Workload, WorkloadRequest};

/// The kinds of the service's data, and the readable parts of a member.
pub const KINDS: &[(&str, &[&str])] = &[
    ("users", &["", "/info", "/skills"]),
    ("paths", &["", "/info", "/skills", "/steps"]),
    ("skills", &["", "/paths"]),
];

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crud {
    /// Number of requests.
    pub requests: u64,
    /// The number of users, of paths and of skills.
    pub entities: u32,
    /// The share of writes, 0 to 1; the report has 0.2.
    pub writes: f64,
    /// The exponent of the endpoints' popularity.
    pub exponent: f64,
}

/// An endpoint of the service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The path.
    pub path: String,
    kind: usize,
    is_collection: bool,
}

impl Crud {
    /// Returns every path that accepts `method`: the report's trace files.
    pub fn endpoints(&self, method: Method) -> Vec<Endpoint> {
        let mut endpoints = BTreeSet::new();
        for (kind, (name, parts)) in KINDS.iter().enumerate() {
            let collection = Endpoint { path: format!("/{name}"), kind, is_collection: true };
            if matches!(method, Method::Get | Method::Post) {
                endpoints.insert(collection);
            }
            for id in 1..=self.entities {
                let parts = match method {
                    Method::Get => parts,
                    Method::Post => continue,
                    Method::Put | Method::Patch | Method::Delete => &parts[..1],
                };
                endpoints.extend(parts.iter().map(|part| Endpoint {
                    path: format!("/{name}/{id}{part}"),
                    kind,
                    is_collection: false,
                }));
            }
        }
        endpoints.into_iter().collect()
    }

    /// Returns the requests; `pages` defines the size of answers and their time.
    pub fn workload(self, pages: &Pages, rate: Rate, seed: u64) -> Workload {
        let header = vec![
            format!(
                "crud: {} requests, {} of them writes (POST, PUT, PATCH and DELETE alike) with JSON bodies; {} each of \
                 users, paths and skills; endpoints by Zipf, exponent {}, in an order shuffled by the seed",
                self.requests, self.writes, self.entities, self.exponent
            ),
            pages.describe(),
            rate.describe(),
            format!("seed {seed}"),
        ];
        let mut random = Random::seed_from_u64(seed);
        let methods =
            Method::ALL.map(|method| Chooser::new(self.endpoints(method), self.exponent, &mut random));
        let sizes = methods.each_ref().map(|chooser| {
            let sizes = pages.sizes.draw_all(chooser.endpoints.len() as u32, &mut random);
            pages.of_sizes(sizes, &mut random)
        });
        let mut clock = Clock::new(rate, Random::seed_from_u64(random.random()));
        let writes = self.writes.clamp(0.0, 1.0);
        let steps = (0..self.requests).filter_map(move |serial| {
            let which =
                if random.random_bool(writes) { random.random_range(1..Method::ALL.len()) } else { 0 };
            let (place, endpoint) = methods[which].choose(&mut random)?;
            let page = sizes[which].page(place);
            let method = Method::ALL[which];
            let body = body(method, endpoint, serial);
            Some(WorkloadRequest {
                time: clock.tick(),
                method,
                path: endpoint.path.clone(),
                size: page.size,
                cost: page.cost,
                body,
            })
        });
        Workload { header, steps: Box::new(steps) }
    }
}

/// Endpoints in a random order, the most popular first.
struct Chooser {
    endpoints: Vec<Endpoint>,
    ranks: Option<Zipf<f64>>,
}

impl Chooser {
    fn new(mut endpoints: Vec<Endpoint>, exponent: f64, random: &mut Random) -> Self {
        rand::seq::SliceRandom::shuffle(endpoints.as_mut_slice(), random);
        let ranks = Zipf::new(endpoints.len() as f64, exponent).ok();
        Self { endpoints, ranks }
    }

    fn choose(&self, random: &mut Random) -> Option<(u32, &Endpoint)> {
        let place = self.ranks.as_ref()?.sample(random) as usize - 1;
        Some((place as u32, self.endpoints.get(place)?))
    }
}

/// Returns a valid body for the endpoint.
fn body(method: Method, endpoint: &Endpoint, serial: u64) -> String {
    match method {
        Method::Get | Method::Delete => String::new(),
        Method::Post | Method::Put => {
            let (kind, _) = KINDS[endpoint.kind];
            format!(r#"{{"name":"{kind} {serial}","description":"made by request {serial}"}}"#)
        }
        Method::Patch => format!(r#"{{"description":"changed by request {serial}"}}"#),
    }
}
