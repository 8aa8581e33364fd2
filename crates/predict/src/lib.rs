//! Predictions of the next requests, and limits on the prefetches that follow from them.
//!
//! A [`Planner`] receives the requests of clients and the results of their responses. It predicts the requests that
//! follow ([`association`], [`sequence`]), and selects those that may be prefetched: within a share of the traffic
//! ([`budget`]), and while enough prefetches are used ([`precision`]). The proxy prefetches the selected URLs, and the
//! laboratory simulates the same on a trace.
//!
//! The crate is pure: it has no clock and no sockets. Times are milliseconds since an arbitrary epoch and never go
//! back; URLs and clients are evenly distributed hashes from the caller. Memory is bounded by [`MOST_BYTES`] for any
//! sequence of requests.

pub mod association;
pub mod budget;
mod copy;
mod copy_reader;
mod pending;
mod planner;
pub mod precision;
pub mod sequence;
mod table;

pub use copy::COPY_VERSION;
use larder_words::named;
pub use planner::{Answer, Candidate, ClientRequest, Figures, MOST_BYTES, Planner, PrefetchResult, Ticket};

named! {
    /// The method of a prediction.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Predictor, name {
        /// The successors that clients often requested ([`association`]).
        Association = "association",
        /// The next item of a sequence that a client requests ([`sequence`]).
        Sequence = "sequence",
    }
}

/// The enabled predictors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Predictors {
    /// Whether [`Predictor::Association`] is enabled.
    pub association: bool,
    /// Whether [`Predictor::Sequence`] is enabled.
    pub sequence: bool,
}

impl Predictors {
    /// Returns the set of `kinds`.
    pub fn of(kinds: &[Predictor]) -> Self {
        Self {
            association: kinds.contains(&Predictor::Association),
            sequence: kinds.contains(&Predictor::Sequence),
        }
    }

    /// Whether no predictor is enabled.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The maximum time between two requests of a sequence, in milliseconds.
pub const WINDOW: u64 = 30_000;

/// Spreads numbers evenly (the finaliser of SplitMix64), in the same way on every machine.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
