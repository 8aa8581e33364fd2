//! Events of the recorder that no return value reports: for the caller's log.

use std::fmt;
use std::sync::Arc;

/// A failure of the recorder, or the end of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The database cannot be written to. Reported again only after a write has succeeded.
    Lost {
        /// The message of the database or the system.
        why: String,
    },
    /// Writes to the database succeed again.
    Back,
    /// The queue is full: requests are dropped. Reported at most once a minute.
    Dropping,
    /// The database refused rows because of their values; they are dropped.
    Rejected {
        /// The number of requests in these rows.
        requests: u64,
        /// The message of the database.
        why: String,
    },
}

/// Receives events. The writing thread calls it; it should not block.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { why } => write!(f, "statistics database: {why}; trying again"),
            Self::Back => f.write_str("statistics database: written to again"),
            Self::Dropping => f.write_str("statistics database: queue full; requests are dropped"),
            Self::Rejected { requests, why } => {
                let noun = if *requests == 1 { "request" } else { "requests" };
                write!(f, "statistics database: {requests} {noun} not recorded: {why}")
            }
        }
    }
}
