//! The conditions of a measurement of the services.

use larder_lab::workload::Crud;
use larder_words::named;
use serde::{Deserialize, Serialize};

/// The percentage of writes among the requests, as in the report.
pub(super) const WRITES: u32 = 20;
/// The exponent of the endpoints' popularity, as in YCSB.
const EXPONENT: f64 = 0.99;
/// The number of users, of paths and of skills: about 900 readable URLs. The report had 100 users.
pub(super) const ENTITIES: u32 = 100;

named! {
    /// The paths of requests to the services.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub(super) enum Way, name {
        /// Directly.
        Straight = "without a cache",
        /// Through a gateway beside the services, without a cache.
        Beside = "gateway alone",
        /// Through a cache that validates each answer with a gateway.
        Always = "validating cache",
        /// Through a cache that receives invalidations from a gateway.
        Push = "cache with push",
    }
}

impl Way {
    pub(super) fn has_cache(self) -> bool {
        matches!(self, Self::Always | Self::Push)
    }
}

/// The backend of the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Endpoint {
    /// The minimum time of an answer, in microseconds.
    pub(super) cost_us: u32,
    /// Whether this time is spent computing.
    pub(super) is_busy: bool,
    /// Additional bytes in an answer.
    pub(super) filler: u32,
    /// The round-trip time, in milliseconds.
    pub(super) away_ms: u64,
    /// The rate of the connection, in bytes a second.
    pub(super) rate: Option<u64>,
}

/// The conditions of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// The question that it answers.
    pub(super) part: String,
    pub(super) way: Way,
    #[serde(flatten)]
    pub(super) endpoint: Endpoint,
    pub(super) clients: u32,
    /// The percentage of writes among the requests.
    pub(super) written: u32,
    /// The number of caches that share the keys.
    pub(super) instances: usize,
    pub(super) policy: String,
    /// The caches' size in percent of all storable bytes; 0 for unlimited room.
    pub(super) percent: u32,
    pub(super) requests: u64,
    /// The number of the repetition, counted from 0; each has different requests.
    pub(super) repetition: u64,
}

impl Cell {
    pub(super) fn key(&self) -> String {
        let Self { part, way, endpoint, clients, written, instances, policy, percent, repetition, .. } = self;
        let cost = endpoint.cost_us;
        format!(
            "cell/{part}/{repetition}/{cost:06}/{clients:02}/{written:02}/{instances}/{percent:03}/{policy}/{way:?}"
        )
    }

    /// Whether its answers wait for a distance most of the time, so that others can be measured meanwhile.
    pub(super) fn waits(&self) -> bool {
        self.endpoint.away_ms > 0
    }

    /// Returns the requests of the cell.
    pub(super) fn workload(&self) -> Crud {
        workload(self.requests, self.written)
    }
}

/// Returns `requests` requests, of which `written` percent are writes; otherwise as in the report.
pub(super) fn workload(requests: u64, written: u32) -> Crud {
    Crud { requests, entities: ENTITIES, writes: f64::from(written) / 100.0, exponent: EXPONENT }
}
