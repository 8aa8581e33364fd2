//! Says, beside what the disk tier keeps, that purges of this node wait for the engine: so that a process that dies
//! meanwhile leaves a trace, and the next one knows that others have missed something. What it was, is not written: they
//! will validate everything.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use larder_store::private;

/// What the file is called. It is empty.
const NAME: &str = "unpublished";

/// The file, where there is a directory for it.
#[derive(Debug, Default)]
pub(super) struct Pending {
    path: OnceLock<PathBuf>,
    /// Whether it should be there.
    written: Mutex<bool>,
}

impl Pending {
    /// Keeps it in `directory` from now on; whether it is there.
    pub(super) fn keep(&self, directory: &Path) -> bool {
        let path = self.path.get_or_init(|| directory.join(NAME));
        *self.written() = path.exists();
        *self.written()
    }

    pub(super) fn is_kept(&self) -> bool {
        self.path.get().is_some()
    }

    /// Writes it if something waits, and removes it if nothing does. To be called where one may wait for a disk.
    pub(super) fn write(&self, waits: impl FnOnce() -> bool) {
        let Some(path) = self.path.get() else { return };
        // Who holds this sees what waits now, so that the last to come is right.
        let mut written = self.written();
        let waits = waits();
        if *written == waits {
            return;
        }
        // What cannot be written is told once, until there is something else to say.
        *written = waits;
        if let Err(error) = set(path, waits) {
            tracing::warn!("{}: {error}; purges that wait may be lost with this process", path.display());
        }
    }

    fn written(&self) -> MutexGuard<'_, bool> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets there be such a file, or none, after a crash, too.
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
        let there = || Pending::default().keep(directory.path());
        let note = Pending::default();
        note.write(|| true);
        assert!(!note.keep(directory.path()), "it had no place");
        for (waits, found) in [(true, true), (true, true), (false, false), (false, false)] {
            note.write(|| waits);
            assert_eq!(there(), found);
        }
    }
}
