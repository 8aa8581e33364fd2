//! Events of the store that no return value reports, for the caller's log.

use std::fmt;
use std::sync::Arc;

/// A failure, or the end of one. Each is reported once, when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A file that has the name of a segment, but is not a segment or can no longer be read. It is ignored.
    Foreign {
        /// The file's name.
        name: String,
    },
    /// The snapshot of the index cannot be used: every record is read instead.
    NoSnapshot {
        /// The reason.
        why: String,
    },
    /// The records of segments have been read after a start without a good snapshot.
    Scanned {
        /// Objects known now.
        objects: u64,
        /// Places with bytes that are not a record, as an interrupted write leaves them.
        damaged: u64,
    },
    /// A record read differs from the written one. The object is removed.
    Damaged {
        /// The segment's file.
        name: String,
        /// The start of the record, in bytes.
        at: u64,
        /// The reason.
        why: String,
    },
    /// A write failed; reported again only after a write has succeeded.
    WriteFailed {
        /// The file.
        name: String,
        /// The operating system's message.
        why: String,
    },
    /// More removals waited to be written than there is room for: everything is removed, so that no removal is lost.
    Overrun,
    /// The disk has no space for more. Reported at most once a minute.
    Full,
    /// Writes failed repeatedly, and are paused.
    Paused,
    /// Writes succeed again.
    Resumed,
    /// There are objects that another version of the caller has stored, and this one cannot read.
    OtherVersion,
}

/// Receives events. Any thread may call it, including the caller's; it should not block.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { name } => write!(f, "{name}: not a segment of this cache; ignored"),
            Self::NoSnapshot { why } => write!(f, "index snapshot not used: {why}; reading all records"),
            Self::Scanned { objects, damaged } => {
                let plural = |count: &u64| if *count == 1 { "" } else { "s" };
                let (of_objects, of_places) = (plural(objects), plural(damaged));
                write!(
                    f,
                    "all records read: {objects} object{of_objects}, {damaged} damaged place{of_places}"
                )
            }
            Self::Damaged { name, at, why } => write!(f, "{name}: record at {at} dropped: {why}"),
            Self::WriteFailed { name, why } => write!(f, "{name}: cannot write: {why}"),
            Self::Overrun => {
                f.write_str("too many removals wait to be written; all objects stored here are removed")
            }
            Self::Full => f.write_str(
                "the disk is full: most entries stay, and responses that find no space are not stored",
            ),
            Self::Paused => f.write_str("writes failed repeatedly; nothing is written for a while"),
            Self::Resumed => f.write_str("writes succeed again"),
            Self::OtherVersion => f.write_str(
                "responses that another version of Larder has stored are not used; they are evicted as others come",
            ),
        }
    }
}
