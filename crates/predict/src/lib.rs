//! What will be asked for next, and how much may be fetched on that guess.
//!
//! A [`Planner`] is told of the requests of clients and of their answers. It predicts what follows ([`association`],
//! [`sequence`]), and says what of that may be prefetched: within a share of the traffic ([`budget`]), as long as enough of it is
//! used ([`precision`]). The proxy prefetches what it says, and the laboratory simulates the same on a trace.
//!
//! Pure: no clock, no sockets. Times are milliseconds of any epoch that never go back; URLs and clients are numbers that their
//! caller has hashed evenly. Memory is bounded by [`MOST_BYTES`], whatever the requests are.

pub mod association;
pub mod budget;
mod pending;
mod planner;
pub mod precision;
pub mod sequence;
mod table;

pub use planner::{Answer, Ask, Ending, Figures, MOST_BYTES, Planner, Ticket, Wish};

/// How a prediction is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Predictor {
    /// What clients often asked for next ([`association`]).
    Association,
    /// The next of what a client asks for one after the other ([`sequence`]).
    Sequence,
}

impl Predictor {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Association, Self::Sequence];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Association => "association",
            Self::Sequence => "sequence",
        }
    }
}

/// The kinds of predictions that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Predictors {
    /// [`Predictor::Association`].
    pub association: bool,
    /// [`Predictor::Sequence`].
    pub sequence: bool,
}

impl Predictors {
    /// Those of `kinds`.
    pub fn of(kinds: &[Predictor]) -> Self {
        Self {
            association: kinds.contains(&Predictor::Association),
            sequence: kinds.contains(&Predictor::Sequence),
        }
    }

    /// Whether there is any.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Time within which a request follows another, in milliseconds.
pub const WINDOW: u64 = 30_000;

/// Spreads numbers evenly (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
