//! The limits of a recorder, and the retention of rows.

use std::sync::Arc;
use std::time::Duration;

use larder_words::with_defaults;

use crate::event::OnEvent;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

with_defaults! {
    /// The options of a [`crate::Recorder`]. The defaults suit one proxy.
    #[derive(Clone)]
    pub struct Options {
        /// The name of this proxy in a database that several proxies write to: at most 64 characters, different for each.
        pub instance: String = "larder".to_owned(),
        /// The most rows that may wait in memory.
        pub queue: usize = 65_536,
        /// The rows of one second beyond which equal requests share a row.
        pub rate: u32 = 1_000,
        /// The rows that are written at once, even before `delay` is over.
        pub batch: usize = 4_096,
        /// The time that a row may wait for others.
        pub delay: Duration = Duration::from_secs(1),
        /// The most parts of sites that each hour's roll-up distinguishes; all others count as `*`.
        pub routes: usize = 1_000,
        /// The time that opening waits for the database's first answer. After that, opening continues in the background.
        pub opening: Duration = Duration::from_secs(1),
        /// The time limit of one statement, after which the database counts as down.
        pub patience: Duration = Duration::from_secs(30),
        /// The pause after a failure of the database; doubled after each further failure, up to 32 times this value.
        pub pause: Duration = Duration::from_millis(500),
        /// The retention of rows.
        pub keep: Retention = Retention::default(),
        /// Called before the database is opened, repeatedly until it succeeds: another process may be using the
        /// database. Rows wait meanwhile.
        pub may_open: Option<OpenCheck> = None,
        /// Receives failures.
        pub report: OnEvent = Arc::new(|_| {}),
    }
}

/// Checks whether a database may be opened; the error is the reason why not yet. The writing thread calls it.
pub type OpenCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

with_defaults! {
    /// The limits beyond which rows are deleted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Retention {
        /// The age beyond which the rows of requests are deleted.
        pub requests: Duration = 7 * DAY,
        /// The rows of requests beyond which the oldest are deleted, for all instances together; row numbers that
        /// a database skipped count as well.
        pub rows: u64 = 5_000_000,
        /// The bytes of a SQLite file beyond which the oldest rows of requests are deleted. The administrator of
        /// a server manages its space.
        pub bytes: u64 = 1 << 30,
        /// The age beyond which roll-ups are deleted.
        pub hours: Duration = 400 * DAY,
        /// The interval of these checks.
        pub every: Duration = Duration::from_secs(10),
    }
}
