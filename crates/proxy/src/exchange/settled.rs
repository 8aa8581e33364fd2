//! Which gateways of the last process ended with no change in progress or in doubt: a file in the state directory.
//!
//! A process that is killed in the middle of a change cannot write that down any more. So the file names gateways only
//! after an orderly end, and each start replaces them with the id of the new process. A gateway that the file does not
//! name starts in doubt. A process whose id is not in the file any more writes nothing at its end: another process has
//! started meanwhile, of which it knows nothing.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_store::private;
use rustix::fs::{FlockOperation, flock};

use crate::base::settings::{Origin, Role, Settings};

/// Larger files than this are not ours.
const MOST: u64 = 1 << 20;

/// The file, and what it said at the start of this process.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    file: Option<Ours>,
    found: Mutex<HashSet<String>>,
}

/// A file that this process has taken over.
#[derive(Debug)]
struct Ours {
    path: PathBuf,
    /// What the file says until another process starts, or this one ends.
    running: String,
}

impl Settled {
    /// Reads the file of a process with these settings, and takes it over: what it says counts once.
    pub(crate) fn take(settings: &Settings) -> Self {
        let address = settings.listen.iter().find(|listener| listener.role == Role::Reverse);
        let Some((directory, listener)) = settings.state.as_deref().zip(address) else {
            return Self::default();
        };
        let has_gateways = settings.sites.iter().any(|site| site.tags.is_some());
        Self::take_from(directory.join(name(listener.address)), has_gateways)
    }

    /// `makes`: a file that does not exist is made.
    fn take_from(path: PathBuf, makes: bool) -> Self {
        let running = format!("running {:016x}\n", RandomState::new().hash_one(0_u8));
        match exchange(&path, makes, |_| Some(running.clone())) {
            Ok(text) => {
                let found = text.lines().map(str::to_owned).collect();
                Self { file: Some(Ours { path, running }), found: Mutex::new(found) }
            }
            Err(error) => {
                if makes || error.kind() != ErrorKind::NotFound {
                    tracing::warn!("{}: {error}; gateways start in doubt", path.display());
                }
                Self::default()
            }
        }
    }

    /// Whether the gateway of this name, before these origins, ended with nothing in progress or in doubt.
    pub(crate) fn has(&self, site: &str, origins: &[Origin]) -> bool {
        self.found().contains(&line(site, origins))
    }

    /// Lets [`has`](Self::has) find nothing any more: this process may have forwarded changes since its start.
    pub(crate) fn forget(&self) {
        self.found().clear();
    }

    /// Writes the file for the next process: it names these gateways.
    pub(crate) fn write<'g>(&self, gateways: impl Iterator<Item = (&'g str, &'g [Origin])>) {
        let Some(Ours { path, running }) = &self.file else { return };
        let lines: String = gateways.map(|(site, origins)| line(site, origins) + "\n").collect();
        match exchange(path, false, |text| (text == running).then_some(lines)) {
            Ok(text) if text == *running => {}
            Ok(_) => {
                tracing::debug!("{}: another process has started meanwhile", path.display());
            }
            Err(error) => tracing::warn!("{}: {error}; gateways will start in doubt", path.display()),
        }
    }

    fn found(&self) -> MutexGuard<'_, HashSet<String>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file's name: processes that share a state directory listen at different addresses.
fn name(address: SocketAddr) -> String {
    format!("settled-{address}")
}

/// A gateway in the file.
fn line(site: &str, origins: &[Origin]) -> String {
    let origins: Vec<_> = origins.iter().map(Origin::to_string).collect();
    format!("{site:?} {}", origins.join(" "))
}

/// Reads a file, and writes in its place what `replace` makes of it. Two processes do so one after the other.
fn exchange(path: &Path, makes: bool, replace: impl FnOnce(&str) -> Option<String>) -> io::Result<String> {
    let directory = path.parent().filter(|_| makes);
    directory.map_or(Ok(()), private::make_directory)?;
    let mut file = private::open(private::options().read(true).write(true).create(makes), path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut bytes = Vec::new();
    (&file).take(MOST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(new) = replace(&text) {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(new.as_bytes())?;
        file.sync_all()?;
        // A file that was made now is to outlive a crash of the machine.
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn origins(authorities: &[&str]) -> Vec<Origin> {
        let origin = |authority: &&str| Origin { https: false, authority: (*authority).to_owned() };
        authorities.iter().map(origin).collect()
    }

    #[test]
    fn it_counts_once_and_for_the_same_gateways_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("below/settled");
        let (one, two) = (origins(&["a:1"]), origins(&["a:1", "b"]));
        let first = Settled::take_from(path.clone(), true);
        assert!(!first.has("x", &one), "there is no file yet");
        first.write([("x", &one[..]), ("y\nz", &two[..])].into_iter());
        let found = Settled::take_from(path.clone(), true);
        assert!(found.has("x", &one) && found.has("y\nz", &two));
        assert!(!found.has("x", &two) && !found.has("y", &two) && !found.has("z", &two));
        assert!(!Settled::take_from(path, true).has("x", &one), "the second has not ended in order");
        found.forget();
        assert!(!found.has("x", &one));
    }

    #[test]
    fn a_process_says_nothing_of_one_that_started_later() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("settled");
        let one = origins(&["a:1"]);
        let first = Settled::take_from(path.clone(), true);
        let second = Settled::take_from(path.clone(), true);
        first.write([("x", &one[..])].into_iter());
        assert!(!Settled::take_from(path.clone(), true).has("x", &one), "the second was killed");
        second.write([("x", &one[..])].into_iter());
        assert!(!Settled::take_from(path, true).has("x", &one), "so was the third");
    }

    #[test]
    fn without_gateways_there_is_no_file_and_one_that_is_there_counts_no_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("settled");
        let one = origins(&["a:1"]);
        drop(Settled::take_from(path.clone(), false));
        assert!(!path.exists());
        Settled::take_from(path.clone(), true).write([("x", &one[..])].into_iter());
        drop(Settled::take_from(path.clone(), false));
        assert!(!Settled::take_from(path, true).has("x", &one));
    }

    #[test]
    fn what_cannot_be_taken_over_does_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("settled");
        fs::write(directory.path().join("other"), "\"x\" http://a:1\n").expect("written");
        std::os::unix::fs::symlink(directory.path().join("other"), &path).expect("made");
        assert!(!Settled::take_from(path, true).has("x", &origins(&["a:1"])));
    }
}
