//! The position of this node in the stream, kept beside the data that it concerns: in each directory of the disk
//! tier, as the file [`NAME`]. It is written after everything obeyed up to there is durable. So a node that returns
//! receives every purge that its stored responses have missed, and some purges twice.

use std::io;
use std::path::{Path, PathBuf};

use larder_cluster::Follower;
use larder_store::{Drive, private};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The file's name. Its one line has the engine's identity and the position of the last entry obeyed.
const NAME: &str = "position";

/// The files of all directories.
#[derive(Debug, Default)]
pub(crate) struct StreamPositions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The directories whose files were read.
    read: Vec<PathBuf>,
    /// The position from which this process began to follow.
    began: Follower,
    /// The line that was written last.
    written: String,
}

impl StreamPositions {
    /// Begins at `follower`: directories that are opened later must not be behind.
    pub(super) fn begin(&self, follower: Follower) {
        self.0.lock().began = follower;
    }

    /// Reads the files of directories that have been opened since the last call. On the first call, `follower` begins
    /// at the earliest position. Later, it returns whether a position is unknown, of another engine, or before the
    /// beginning.
    pub(super) fn take(&self, drives: &[Drive], follower: &watch::Sender<Follower>) -> bool {
        let mut state = self.0.lock();
        let is_new =
            |drive: &&Drive| drive.disk().is_some() && !state.read.iter().any(|path| path == drive.path());
        let new: Vec<_> = drives.iter().filter(is_new).map(|drive| drive.path().to_owned()).collect();
        let found: Vec<_> = new.iter().map(|path| read(path)).collect();
        let is_first = state.read.is_empty();
        state.read.extend(new);
        if found.is_empty() {
            return false;
        }
        let earliest = earliest(&found);
        if is_first && follower.borrow().position().is_none() {
            state.began = earliest.clone().unwrap_or_default();
            follower.send_replace(state.began.clone());
            return false;
        }
        let began = &state.began;
        earliest.is_none_or(|late| late.engine() != began.engine() || late.position() < began.position())
    }

    /// Writes the position of `follower` into the directories that were read. Call it when all that it has obeyed is
    /// durable. Errors: the error of the operating system.
    pub(crate) fn write(&self, follower: &Follower) -> io::Result<()> {
        let (Some(engine), Some(position)) = (follower.engine(), follower.position()) else { return Ok(()) };
        let mut state = self.0.lock();
        let line = format!("{engine} {position}\n");
        if line == state.written {
            return Ok(());
        }
        state.read.iter().try_for_each(|path| private::write(&path.join(NAME), line.as_bytes()))?;
        state.written = line;
        Ok(())
    }
}

/// Returns the earliest position, if all are of one engine.
fn earliest(found: &[Option<Follower>]) -> Option<Follower> {
    let all: Vec<_> = found.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let first = all.iter().min_by_key(|follower| follower.position())?;
    all.iter().all(|follower| follower.engine() == first.engine()).then(|| (*first).clone())
}

fn read(directory: &Path) -> Option<Follower> {
    let text = String::from_utf8(private::read(&directory.join(NAME)).ok()?).ok()?;
    let (engine, position) = text.strip_suffix('\n')?.split_once(' ')?;
    Some(Follower::at(engine, position.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use larder_cluster::Position;

    use super::*;

    fn at(engine: &str, millis: u64) -> Option<Follower> {
        Some(Follower::at(engine, Position::new(millis, 0)))
    }

    #[test]
    fn a_written_stream_position_is_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(read(directory.path()), None);
        private::write(&directory.path().join(NAME), b"e 5-0\n").expect("there is room");
        assert_eq!(read(directory.path()), at("e", 5));
    }

    #[test]
    fn an_incomplete_stream_position_file_is_ignored() {
        let directory = tempfile::tempdir().expect("a directory");
        for text in ["", "e", "e 5-0", "e 5\n", "e 5-0\n\n", " \n"] {
            fs::write(directory.path().join(NAME), text).expect("there is room");
            assert_eq!(read(directory.path()), None, "{text:?}");
        }
    }

    #[test]
    fn the_earliest_place_counts_if_all_are_in_one_stream() {
        assert_eq!(earliest(&[at("e", 5), at("e", 3)]), at("e", 3));
        assert_eq!(earliest(&[at("e", 5), at("f", 3)]), None);
        assert_eq!(earliest(&[at("e", 5), None]), None);
    }
}
