//! The counters of a recorder.

/// Figures of a recorder at one moment; counters start when it is opened.
///
/// Each recorded request is written, dropped or queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests that [`crate::Recorder::record`] was called for.
    pub recorded: u64,
    /// Requests waiting to be written.
    pub queued: u64,
    /// Requests that are in the database.
    pub written: u64,
    /// Rows of these requests in the database.
    pub rows: u64,
    /// Requests that are in no row: the queue was full, or the database refused them.
    pub dropped: u64,
    /// Attempts to write that failed.
    pub failed: u64,
    /// Snapshots of the cache's contents written to the database, each in place of the one before.
    pub snapshots: u64,
    /// Whether the last attempt to reach the database succeeded.
    pub is_connected: bool,
}
