//! The limits of a recorder, and the retention of rows.

use std::sync::Arc;
use std::time::Duration;

use crate::event::OnEvent;

/// How a [`crate::Recorder`] works. The defaults suit one proxy.
#[derive(Clone)]
pub struct Options {
    /// The name of this proxy in a database that several write to: at most 64 characters, different for each.
    pub instance: String,
    /// Rows that may wait in memory.
    pub queue: usize,
    /// Rows of one second beyond which equal requests share a row.
    pub rate: u32,
    /// Rows that are written at once, even before `delay` is over.
    pub batch: usize,
    /// How long a row may wait for others.
    pub delay: Duration,
    /// Parts of sites that each hour's roll-up tells apart; all others count as `*`.
    pub routes: usize,
    /// How long opening waits for the database's first answer. After that it goes on in the background.
    pub opening: Duration,
    /// How long one statement may take before the database counts as down.
    pub patience: Duration,
    /// How long to leave a database alone after it failed; doubled after each failure, up to 32 times that.
    pub pause: Duration,
    /// How long rows are kept.
    pub keep: Keep,
    /// Asked before the database is opened, again and again until it says yes: others may be using it. Rows wait meanwhile.
    pub may_open: Option<MayOpen>,
    /// Receives failures.
    pub report: OnEvent,
}

/// Whether a database may be opened; the error says why not yet. Called by the writing thread.
pub type MayOpen = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What is deleted, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Age beyond which the rows of requests go.
    pub requests: Duration,
    /// Rows of requests beyond which the oldest go. All instances together; rows whose numbers a database
    /// skipped count as well.
    pub rows: u64,
    /// Bytes of a SQLite file beyond which the oldest rows of requests go. The space of servers is their
    /// administrator's business.
    pub bytes: u64,
    /// Age beyond which roll-ups go.
    pub hours: Duration,
    /// How often it is looked.
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
            keep: Keep::default(),
            may_open: None,
            report: Arc::new(|_| {}),
        }
    }
}

impl Default for Keep {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        let every = Duration::from_secs(10);
        Self { requests: 7 * day, rows: 5_000_000, bytes: 1 << 30, hours: 400 * day, every }
    }
}
