//! The measurements, by the size of the run.

use super::conditions::Way;
use super::conditions::{Cell, Endpoint, WRITES};
use crate::size::Size;

/// The report's policies.
pub(super) const POLICIES: [&str; 5] = ["lru", "lfu", "gds", "gdsf", "tinylfu"];
/// The policies whose times differ by about a fiftieth.
const CLOSE: [&str; 2] = ["lru", "tinylfu"];
/// The time of the services' answers for most of the questions, in microseconds.
pub(super) const COST_US: u32 = 2_000;
/// The capacity of evicting caches, in percent of all storable bytes.
pub(super) const EVICTING: u32 = 10;

/// The questions, each with separate cells.
pub(super) const LATENCY: &str = "latency";
pub(super) const CLIENTS: &str = "clients";
pub(super) const SHARES: &str = "writes";
pub(super) const POLICY: &str = "policies";
pub(super) const SIZE: &str = "sizes";
pub(super) const INSTANCES: &str = "instances";
/// The situations in which the report expected a gain: name, and description.
pub(super) const SITUATIONS: [(&str, &str); 3] = [
    ("far", "far away: a round trip of 100 ms"),
    ("dear", "expensive to compute: 20 ms of CPU time"),
    ("large", "large: 1 MiB over a line of 50 MB/s and 10 ms"),
];

/// The percentage of writes among the requests if data are mostly read.
pub(super) const READ_MOSTLY: u32 = 1;

/// The extent of the measurements.
pub(super) struct Plan {
    pub(super) repetitions: u64,
    /// The number of repetitions for the cost of answers, for writes, and where answers wait for a distance.
    often: u64,
    /// The number of repetitions for differences that few of them cannot decide.
    seldom: u64,
    /// The number of repetitions for small differences: numbers of caches.
    pub(super) close: u64,
    /// The number of repetitions for smaller differences: two policies.
    pub(super) closest: u64,
    /// Costs of answers in microseconds, and requests for each, sent by one client.
    costs: &'static [(u32, u64)],
    /// Requests in the runs that measure hit ratios.
    pub(super) requests: u64,
    /// Cache sizes, in percent of all storable bytes.
    percents: &'static [u32],
    /// Numbers of clients, and the total number of their requests.
    clients: (&'static [u32], u64),
    /// Percentages of writes in addition to the report's, and requests by one client.
    shares: (&'static [u32], u64),
    /// Requests by one client under each policy.
    policy: u64,
    /// Numbers of clients for one, two and three caches, and requests.
    instances: (&'static [u32], u64),
    /// Requests in each situation.
    situations: [u64; 3],
    /// The number of simulated sizes.
    pub(super) simulated: u32,
    /// The number of lists for what is simulated: sizes, what a write blanks, and places. Not below `repetitions`.
    pub(super) lists: u64,
}

impl Plan {
    pub(super) fn new(size: Size) -> Self {
        match size {
            Size::Smoke => Self {
                repetitions: 1,
                often: 1,
                seldom: 1,
                close: 2,
                closest: 2,
                costs: &[(2_000, 50)],
                requests: 200,
                percents: &[40],
                clients: (&[4], 100),
                shares: (&[1], 50),
                policy: 50,
                instances: (&[4], 60),
                situations: [16, 12, 8],
                simulated: 8,
                lists: 2,
            },
            Size::Quick => Self {
                repetitions: 3,
                often: 5,
                seldom: 2,
                close: 2,
                closest: 2,
                costs: &[(200, 400), (COST_US, 120), (10_000, 40)],
                requests: 600,
                percents: &[EVICTING],
                clients: (&[8, 64], 400),
                shares: (&[1, 5], 120),
                policy: 120,
                instances: (&[4, 16], 300),
                situations: [40, 16, 20],
                simulated: 40,
                lists: 24,
            },
            Size::Full => Self {
                repetitions: 8,
                often: 8,
                seldom: 8,
                close: 12,
                closest: 24,
                costs: &[(200, 1_500), (1_000, 600), (COST_US, 500), (5_000, 250), (20_000, 60)],
                requests: 3_000,
                percents: &[5, 10, 30],
                clients: (&[2, 8, 32, 64], 800),
                shares: (&[1, 5, 10], 300),
                policy: 500,
                instances: (&[1, 4, 16, 64], 600),
                situations: [128, 64, 48],
                simulated: 60,
                lists: 20,
            },
        }
    }

    pub(super) fn all(&self) -> Vec<Cell> {
        let most = self.repetitions.max(self.often).max(self.close).max(self.closest);
        (0..most).flat_map(|at| self.cells(at)).collect()
    }

    /// Returns the cells of a repetition. Compared cells are consecutive, and their order is reversed for the next one.
    fn cells(&self, repetition: u64) -> Vec<Cell> {
        let mut cells = self.latencies();
        cells.extend(self.many_clients());
        cells.extend(self.shares());
        cells.extend(self.policies());
        cells.extend(self.sizes());
        cells.extend(self.instances());
        cells.extend(self.situations());
        cells.retain(|cell| repetition < self.times(cell));
        cells.iter_mut().for_each(|cell| cell.repetition = repetition);
        if repetition % 2 == 1 {
            cells.reverse();
        }
        cells
    }

    /// Returns how often a cell is measured: the more, the more a repetition decides for its time.
    fn times(&self, cell: &Cell) -> u64 {
        let is_close = CLOSE.contains(&cell.policy.as_str()) && cell.instances != 2;
        match cell.part.as_str() {
            POLICY if is_close => self.closest,
            INSTANCES if is_close => self.close,
            LATENCY | SHARES => self.often,
            _ if cell.waits() => self.often,
            POLICY | INSTANCES => self.seldom,
            _ if cell.endpoint.is_busy => self.seldom,
            _ => self.repetitions,
        }
    }

    /// Returns the run with unlimited room that [`Room`](super::cell::Room) describes.
    pub(super) fn room(&self, repetition: u64) -> Cell {
        Cell { repetition, requests: self.requests, ..cell(SIZE, Way::Always, 0) }
    }

    fn latencies(&self) -> Vec<Cell> {
        let of = |&(cost, requests): &(u32, u64)| {
            Way::ALL.map(|way| Cell { requests, ..cell(LATENCY, way, cost) })
        };
        self.costs.iter().flat_map(of).collect()
    }

    fn many_clients(&self) -> Vec<Cell> {
        let (numbers, requests) = self.clients;
        let of =
            |&clients: &u32| Way::ALL.map(|way| Cell { clients, requests, ..cell(CLIENTS, way, COST_US) });
        numbers.iter().flat_map(of).collect()
    }

    fn shares(&self) -> Vec<Cell> {
        let (shares, requests) = self.shares;
        let of = |&written: &u32| {
            [Way::Straight, Way::Always, Way::Push].map(|way| Cell {
                written,
                requests,
                ..cell(SHARES, way, COST_US)
            })
        };
        shares.iter().flat_map(of).collect()
    }

    fn policies(&self) -> Vec<Cell> {
        let of = |policy: &str| Cell {
            policy: policy.to_owned(),
            percent: EVICTING,
            requests: self.policy,
            ..cell(POLICY, Way::Always, COST_US)
        };
        POLICIES.into_iter().map(of).collect()
    }

    fn sizes(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        // The last size evicts no objects.
        for percent in self.percents.iter().copied().chain([0]) {
            cells.extend(POLICIES.map(|policy| Cell {
                policy: policy.to_owned(),
                percent,
                requests: self.requests,
                ..cell(SIZE, Way::Always, 0)
            }));
        }
        cells
    }

    fn instances(&self) -> Vec<Cell> {
        let (numbers, requests) = self.instances;
        let of = |&clients: &u32| {
            [1, 2, 3].map(|instances| Cell {
                clients,
                instances,
                requests,
                ..cell(INSTANCES, Way::Always, COST_US)
            })
        };
        numbers.iter().flat_map(of).collect()
    }

    fn situations(&self) -> Vec<Cell> {
        // The number of clients can be large if answers only wait.
        let endpoints = [
            (Endpoint { away_ms: 100, ..Endpoint::default() }, 16),
            (Endpoint { cost_us: 20_000, is_busy: true, ..Endpoint::default() }, 4),
            (Endpoint { filler: 1 << 20, away_ms: 10, rate: Some(50_000_000), ..Endpoint::default() }, 4),
        ];
        let mut cells = Vec::new();
        for (((name, _), (endpoint, clients)), requests) in
            SITUATIONS.into_iter().zip(endpoints).zip(self.situations)
        {
            for written in [WRITES, READ_MOSTLY] {
                cells.extend([Way::Straight, Way::Always, Way::Push].map(|way| Cell {
                    endpoint,
                    written,
                    clients,
                    requests,
                    ..cell(name, way, 0)
                }));
            }
        }
        cells
    }
}

/// Returns a cell with one client, and a cache with unlimited room under LRU.
fn cell(part: &str, way: Way, cost_us: u32) -> Cell {
    Cell {
        part: part.to_owned(),
        way,
        endpoint: Endpoint { cost_us, ..Endpoint::default() },
        clients: 1,
        written: WRITES,
        instances: 1,
        policy: "lru".to_owned(),
        percent: 0,
        requests: 0,
        repetition: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_cell_has_a_key_of_its_own() {
        for size in [Size::Smoke, Size::Quick, Size::Full] {
            let plan = Plan::new(size);
            let cells = plan.all();
            let keys: HashSet<_> = cells.iter().map(Cell::key).collect();
            assert_eq!(keys.len(), cells.len(), "{size:?}");
        }
    }

    #[test]
    fn close_comparisons_are_repeated_more_often_than_the_rest() {
        for size in [Size::Smoke, Size::Full] {
            let plan = Plan::new(size);
            let cells = plan.all();
            let count = |is_it: &dyn Fn(&Cell) -> bool| {
                let of: HashSet<_> =
                    cells.iter().filter(|cell| is_it(cell)).map(|cell| cell.repetition).collect();
                of.len() as u64
            };
            for policy in CLOSE {
                assert_eq!(count(&|cell| cell.part == POLICY && cell.policy == policy), plan.closest);
            }
            for instances in [1, 3] {
                assert_eq!(count(&|cell| cell.part == INSTANCES && cell.instances == instances), plan.close);
            }
            assert_eq!(count(&|cell| cell.part == POLICY && cell.policy == "gdsf"), plan.seldom);
            assert_eq!(count(&|cell| cell.part == LATENCY), plan.often);
            assert!(plan.closest >= plan.close && plan.close > plan.repetitions);
        }
    }

    #[test]
    fn a_size_that_evicts_is_measured_in_every_run_that_counts() {
        for size in [Size::Quick, Size::Full] {
            assert!(Plan::new(size).percents.contains(&EVICTING));
        }
    }
}
