//! Sums by the hour, which stay after the rows of requests are deleted.

use std::collections::{BTreeMap, HashSet};

use crate::row::Row;

/// Milliseconds of an hour.
pub(crate) const HOUR: u64 = 3_600_000;
/// The route for requests whose routes exceed the limit of an hour.
pub(crate) const OTHER_ROUTES: &str = "*";

/// The properties that distinguish roll-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key<'r> {
    /// The start of the hour, in milliseconds since 1970.
    pub(crate) hour: u64,
    pub(crate) site: &'r str,
    pub(crate) route: &'r str,
    pub(crate) door: &'r str,
    pub(crate) outcome: &'r str,
    pub(crate) status: u16,
}

/// The sums of a roll-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) service_us: u64,
    /// Requests that asked an origin.
    pub(crate) origin_requests: u64,
    pub(crate) origin_us: u64,
}

impl Sums {
    fn add(&mut self, row: &Row) {
        self.requests += row.requests;
        self.bytes = self.bytes.saturating_add(row.of.bytes);
        self.service_us = self.service_us.saturating_add(row.of.service_us);
        if let Some(us) = row.of.origin_us {
            self.origin_requests += row.requests;
            self.origin_us = self.origin_us.saturating_add(us);
        }
    }
}

/// The routes that an hour distinguishes. Clients choose paths, but must not choose the size of the roll-ups.
#[derive(Debug)]
pub(crate) struct Routes {
    limit: usize,
    hour: u64,
    known: HashSet<(Box<str>, Box<str>)>,
}

impl Routes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, hour: 0, known: HashSet::new() }
    }

    fn name<'r>(&mut self, row: &'r Row) -> &'r str {
        if hour(row) > self.hour {
            self.hour = hour(row);
            self.known.clear();
        }
        let pair = (Box::from(&*row.of.site), Box::from(&*row.of.route));
        if self.known.contains(&pair) {
            return &row.of.route;
        }
        if self.known.len() >= self.limit {
            return OTHER_ROUTES;
        }
        self.known.insert(pair);
        &row.of.route
    }
}

/// Returns the sums of `rows`, in an order that is the same for all writers, so that they do not deadlock.
pub(crate) fn rollup<'r>(rows: &'r [Row], routes: &mut Routes) -> BTreeMap<Key<'r>, Sums> {
    let mut sums = BTreeMap::<_, Sums>::new();
    for row in rows {
        let key = Key {
            hour: hour(row),
            site: &row.of.site,
            route: routes.name(row),
            door: &row.of.door,
            outcome: &row.of.outcome,
            status: row.of.status,
        };
        sums.entry(key).or_default().add(row);
    }
    sums
}

fn hour(row: &Row) -> u64 {
    row.of.time - row.of.time % HOUR
}
