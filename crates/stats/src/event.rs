//! Events of the recorder that no return value reports: for the caller's log.

use std::fmt;
use std::sync::Arc;

/// Something that went wrong, or right again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The database cannot be written to. Told again only after it could.
    Lost {
        /// The database's or the system's words.
        why: String,
    },
    /// The database is written to again.
    Back,
    /// The queue is full: requests are dropped. Told at most once a minute.
    Dropping,
    /// The database refused rows for what is in them; they are dropped.
    Rejected {
        /// Requests that they stood for.
        requests: u64,
        /// The database's words.
        why: String,
    },
}

/// Receives events. It is called by the writing thread, and should not wait.
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
