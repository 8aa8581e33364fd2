//! Records, in a file beside the disk tier, that purges of this node wait for the engine. So if a process dies
//! meanwhile, the next one detects that the other nodes have missed purges. The purges themselves are not recorded:
//! the other nodes will revalidate everything.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use larder_store::private;
use parking_lot::Mutex;

use crate::base::error::cause;

/// The name of the file, which is empty.
const NAME: &str = "unpublished";

/// The file, if there is a directory for it.
#[derive(Debug, Default)]
pub(super) struct OrderFile {
    path: OnceLock<PathBuf>,
    /// Whether the file should exist.
    written: Mutex<bool>,
}

impl OrderFile {
    /// Keeps the file in `directory` from now on, and returns whether it exists.
    pub(super) fn keep(&self, directory: &Path) -> bool {
        let path = self.path.get_or_init(|| directory.join(NAME));
        *self.written.lock() = path.exists();
        *self.written.lock()
    }

    pub(super) fn is_kept(&self) -> bool {
        self.path.get().is_some()
    }

    /// Writes the file if purges wait, and removes it if none do. Call it in a thread that may wait for a disk.
    pub(super) fn write(&self, waits: impl FnOnce() -> bool) {
        let Some(path) = self.path.get() else { return };
        // The holder of this lock reads whether purges wait now, so that the last caller is right.
        let mut written = self.written.lock();
        let waits = waits();
        if *written == waits {
            return;
        }
        // A failed write is logged once, until the state changes.
        *written = waits;
        if let Err(error) = set(path, waits) {
            tracing::warn!(
                "{}: {}; purges that wait may be lost with this process",
                path.display(),
                cause(&error)
            );
        }
    }
}

/// Creates or removes the file, durably also after a crash.
fn set(path: &Path, there: bool) -> io::Result<()> {
    match there {
        true => private::replace(path)?.sync_all()?,
        false => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        },
    }
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_finds_it_unless_nothing_waits_any_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let there = || OrderFile::default().keep(directory.path());
        let note = OrderFile::default();
        note.write(|| true);
        assert!(!note.keep(directory.path()), "it had no place");
        for (waits, found) in [(true, true), (true, true), (false, false), (false, false)] {
            note.write(|| waits);
            assert_eq!(there(), found);
        }
    }
}
