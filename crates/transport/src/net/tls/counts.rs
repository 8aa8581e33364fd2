//! Counts of handshakes with clients, by result, and the lines of the log about those that failed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::accept::{Failure, HandshakeError, Session};

/// Milliseconds between two lines of the log about failed handshakes.
const BETWEEN: u64 = 60_000;

/// Handshakes since the process began.
#[derive(Debug, Default)]
pub(super) struct Counts {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; Failure::ALL.len()],
    told: Mutex<LogState>,
}

/// The state of the last line in the log.
#[derive(Debug, Default)]
struct LogState {
    /// Its time, in `clock::millis`; `None`: there is no line yet.
    at: Option<u64>,
    failed: [u64; Failure::ALL.len()],
}

impl Counts {
    /// Counts the result of a handshake.
    pub(super) fn add(&self, ended: Result<Session, &HandshakeError>) {
        let count = match ended {
            Ok(Session { is_resumed: true, .. }) => &self.resumed,
            Ok(_) => &self.full,
            Err(error) => &self.failed[error.reason() as usize],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns all counts, by result.
    pub(super) fn by_end(&self) -> BTreeMap<&'static str, u64> {
        let done = [("full", &self.full), ("resumed", &self.resumed)];
        let failed = Failure::ALL.iter().map(|failure| failure.name()).zip(&self.failed);
        done.into_iter().chain(failed).map(|(end, count)| (end, count.load(Ordering::Relaxed))).collect()
    }

    /// Returns a line about the handshakes that have failed since the last line, if that is at least [`BETWEEN`] before
    /// `now`. Clients that left are not in it: health checks at the level of TCP do so.
    pub(super) fn news(&self, now: u64) -> Option<String> {
        let mut told = self.told.lock();
        if told.at.is_some_and(|at| now.saturating_sub(at) < BETWEEN) {
            return None;
        }
        let failed = self.failed.each_ref().map(|count| count.load(Ordering::Relaxed));
        let new = failed.iter().zip(&told.failed).map(|(now, then)| now.saturating_sub(*then));
        let new =
            Failure::ALL.iter().zip(new).filter(|(failure, new)| **failure != Failure::Left && *new > 0);
        let new = new.map(|(failure, new)| format!("{new} {}", failure.name())).collect::<Vec<_>>();
        if new.is_empty() {
            return None;
        }
        *told = LogState { at: Some(now), failed };
        Some(format!("TLS handshakes of clients failed: {}", new.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_handshakes_have_one_line_a_minute() {
        let counts = Counts::default();
        let fail = |error| counts.add(Err(&error));
        assert_eq!(counts.news(5), None);
        fail(HandshakeError::Left);
        assert_eq!(counts.news(6), None);
        fail(HandshakeError::Plain);
        assert_eq!(counts.news(7).as_deref(), Some("TLS handshakes of clients failed: 1 plain-http"));
        (0..1_000).for_each(|_| fail(HandshakeError::Plain));
        fail(HandshakeError::Busy);
        assert_eq!(counts.news(60_006), None);
        let line = "TLS handshakes of clients failed: 1000 plain-http, 1 busy";
        assert_eq!(counts.news(60_007).as_deref(), Some(line));
        assert_eq!(counts.news(200_000), None);
    }
}
