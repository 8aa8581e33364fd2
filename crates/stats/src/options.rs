//! The limits of a recorder, and the retention of rows.

use std::sync::Arc;
use std::time::Duration;

use crate::event::OnEvent;

/// The options of a [`crate::Recorder`]. The defaults suit one proxy.
#[derive(Clone)]
pub struct Options {
    /// The name of this proxy in a database that several proxies write to: at most 64 characters, different for each.
    pub instance: String,
    /// The most rows that may wait in memory.
    pub queue: usize,
    /// The rows of one second beyond which equal requests share a row.
    pub rate: u32,
    /// The rows that are written at once, even before `delay` is over.
    pub batch: usize,
    /// The time that a row may wait for others.
    pub delay: Duration,
    /// The most parts of sites that each hour's roll-up distinguishes; all others count as `*`.
    pub routes: usize,
    /// The time that opening waits for the database's first answer. After that, opening continues in the background.
    pub opening: Duration,
    /// The time limit of one statement, after which the database counts as down.
    pub patience: Duration,
    /// The pause after a failure of the database; doubled after each further failure, up to 32 times this value.
    pub pause: Duration,
    /// The retention of rows.
    pub keep: Retention,
    /// Called before the database is opened, repeatedly until it succeeds: another process may be using the
    /// database. Rows wait meanwhile.
    pub may_open: Option<OpenCheck>,
    /// Receives failures.
    pub report: OnEvent,
}

/// Checks whether a database may be opened; the error is the reason why not yet. The writing thread calls it.
pub type OpenCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The limits beyond which rows are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age beyond which the rows of requests are deleted.
    pub requests: Duration,
    /// The rows of requests beyond which the oldest are deleted, for all instances together; row numbers that
    /// a database skipped count as well.
    pub rows: u64,
    /// The bytes of a SQLite file beyond which the oldest rows of requests are deleted. The administrator of
    /// a server manages its space.
    pub bytes: u64,
    /// The age beyond which roll-ups are deleted.
    pub hours: Duration,
    /// The interval of these checks.
    pub every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instance: "larder".to_owned(),
            queue: 65_536,
            rate: 1_000,
            batch: 4_096,
            delay: Duration::from_secs(1),
            routes: 1_000,
            opening: Duration::from_secs(1),
            patience: Duration::from_secs(30),
            pause: Duration::from_millis(500),
            keep: Retention::default(),
            may_open: None,
            report: Arc::new(|_| {}),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        let every = Duration::from_secs(10);
        Self { requests: 7 * day, rows: 5_000_000, bytes: 1 << 30, hours: 400 * day, every }
    }
}
