//! Requests that a longer lifetime would have answered, by route.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// The staleness up to which a request counts, in seconds.
pub const LATE: u32 = 60;
/// The most routes with counts; further ones are not counted.
const MOST: usize = 256;
/// The number of routes in a report.
const SHOWN: usize = 3;

/// Counts requests for copies that had expired a short while ago.
#[derive(Default)]
pub struct LateRequests {
    routes: HashMap<String, f64>,
}

/// A route, and what longer lifetimes would bring.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct LateRoute {
    /// The host and the first segment of the path.
    pub route: String,
    /// The share of all cacheable requests that were for copies expired up to 60 seconds ago.
    pub share: f64,
    /// The share of the hits of its site and first segment that were found out of date already, if some were compared with the origin.
    #[serde(default)]
    pub stale: Option<f64>,
}

impl LateRequests {
    /// Counts requests of a route for a copy that was stale for so many seconds.
    pub fn count(&mut self, route: &str, stale: u32, requests: f64) {
        if stale > LATE {
            return;
        }
        if let Some(sum) = self.routes.get_mut(route) {
            *sum += requests;
        } else if self.routes.len() < MOST {
            self.routes.insert(route.to_owned(), requests);
        }
    }

    /// Returns the routes with the most such requests, of `asked` requests in all.
    pub fn most(&self, asked: f64) -> Vec<LateRoute> {
        let mut routes: Vec<_> =
            self.routes.iter().map(|(route, late)| (*late / asked.max(1.0), route)).collect();
        routes.sort_unstable_by(|one, next| next.0.total_cmp(&one.0).then(one.1.cmp(next.1)));
        routes.truncate(SHOWN);
        let late = |(share, route): (f64, &String)| LateRoute { route: route.clone(), share, stale: None };
        routes.into_iter().map(late).collect()
    }
}
