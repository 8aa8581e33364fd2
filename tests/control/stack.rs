//! The backend with three services, a gateway before it, a cache before the gateway, and clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use larder_experiment::services::{Backend, Cost, Options};
use larder_experiment::{Outcome, Plan, drive};
use larder_lab::workload::Crud;
use larder_testkit::{Larder, eventually};
use serde_json::Value;

/// Number of users, paths and skills, each: few, so that writes and reads meet.
const ENTITIES: u32 = 8;

/// The number of repetitions of a change, so that a dependency can be distinguished from chance.
const ROUNDS: u32 = 30;

/// The way in which the cache learns of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// The cache validates at the gateway before each use.
    Always,
    /// The gateway pushes changes to the cache.
    Push,
}

/// The processes of a test.
pub(crate) struct Stack {
    // The fields are dropped in this order, so that the cache ends first.
    pub(crate) cache: Larder,
    _gateway: Larder,
}

impl Stack {
    /// Starts all processes, with the couplings `couple`; the cache validates each hit against the backend.
    pub(crate) fn start(mode: Mode, couple: &str) -> Self {
        let backend = backend();
        let push = mode == Mode::Push;
        let origin = format!("http://{backend}");
        let config =
            format!("[[site]]\norigin = '{origin}'\nrole = 'tags'\npush = {push}\ncouple = {couple}\n");
        let gateway = Larder::start_settled(&config, &[("site1", &origin)]);
        let validate = if push { "stale" } else { "always" };
        let cache = Larder::start(&format!(
            "[validate]\nsample = 1.0\nrate = 10000\n[[site]]\norigin = 'http://{}'\nvalidate = '{validate}'\n",
            gateway.address()
        ));
        Self { cache, _gateway: gateway }
    }

    /// Runs the clients; `writes` is the share of requests that change data.
    pub(crate) fn work(&self, clients: u32, requests: u64, writes: f64, seed: u64) -> Outcome {
        let workload = Crud { requests, entities: ENTITIES, writes, exponent: 0.99 };
        let to = self.cache.address().into();
        let plan = Plan { to, clients, workload, seed, limit: None, stop: Arc::default() };
        let outcome = drive(&plan).unwrap();
        assert_eq!(outcome.failed, 0, "{clients} clients, seed {seed}: {:?}", outcome.statuses);
        outcome
    }

    /// Writes all users repeatedly without other writes, and reads all skills as often after these writes as without
    /// one.
    pub(crate) fn change_users_alone(&self) {
        let words = "\n\n{\"name\":\"n\",\"description\":\"d\"}";
        let each = |method: &str, kind: &str, content: &str| {
            for id in 1..=ENTITIES {
                let response = self.cache.ask(&format!("{method} /{kind}/{id}{content}"));
                assert_eq!(response.status, 200, "{method} /{kind}/{id}");
            }
        };
        each("PUT", "users", words);
        each("PUT", "skills", words);
        for _ in 0..ROUNDS {
            each("GET", "users", "");
            each("GET", "skills", "");
            each("PUT", "users", words);
            each("GET", "skills", "");
        }
    }

    /// Waits until no validation is in progress, and returns the results of the cache's validator.
    pub(crate) fn validated(&self) -> Value {
        eventually("nothing under way", || {
            let told = self.tell("/validator");
            (told["under_way"] == 0).then_some(told)
        })
    }

    /// Returns the JSON at `path` of the cache's admin listener.
    pub(crate) fn tell(&self, path: &str) -> Value {
        let response = self.cache.ask_admin(&format!("GET {path}"));
        assert_eq!(response.status, 200, "{path}");
        response.json()
    }
}

/// Starts a backend that runs until the tests end. A response takes a moment, so that reads and writes overlap.
fn backend() -> SocketAddr {
    let cost = Cost { time: Duration::from_micros(200), is_busy: false };
    let options = Options { entities: ENTITIES, cost, etags: false, lifetime: None, filler: 0 };
    let backend = Backend::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options).unwrap();
    let address = backend.address().unwrap();
    thread::spawn(|| backend.run());
    address
}
