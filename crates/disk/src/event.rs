//! Events of the store that no return value reports: for the caller's log.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Something that went wrong, or right again. Each is told once, when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A file that carries a name of ours and is none of ours, or can no longer be read. It is left alone.
    Foreign {
        /// Its name.
        name: String,
    },
    /// The snapshot of the index cannot be used: every record is read instead.
    NoSnapshot {
        /// What is wrong with it.
        why: String,
    },
    /// The records of segments have been read after a start without a good snapshot.
    Scanned {
        /// Objects that are known now.
        objects: u64,
        /// Places where bytes were found that are no record, as an interrupted write leaves them.
        damaged: u64,
    },
    /// What was read is not what was written. The object is gone.
    Damaged {
        /// The segment's file.
        name: String,
        /// Where the record begins, in bytes.
        at: u64,
        /// What does not add up.
        why: String,
    },
    /// A write failed; told again only after one has succeeded.
    WriteFailed {
        /// What was written to.
        name: String,
        /// The operating system's words.
        why: String,
    },
    /// More removals waited to be written than there is room for: everything is forgotten, so that none is lost.
    Overrun,
    /// The disk has no space for more. Told once a minute at most.
    Full,
    /// Writes failed repeatedly, and stop for a while.
    Paused,
    /// Writes succeed again.
    Resumed,
}

/// Receives events. It is called by any thread, including the caller's, and should not wait.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { name } => write!(f, "{name}: not a segment of this cache; it is left alone"),
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
                f.write_str("too many removals wait to be written; everything stored here is forgotten")
            }
            Self::Full => f.write_str(
                "the disk is full: most entries stay, and responses that find no space are not stored",
            ),
            Self::Paused => f.write_str("writes failed repeatedly; nothing is written for a while"),
            Self::Resumed => f.write_str("writes succeed again"),
        }
    }
}

/// The system's message as a part of a sentence: in lower case, without the number of the error.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(&*text, |(words, _)| words);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
