//! The record of the gateways that the last process ended without a change in progress or in doubt: a file in the state
//! directory.
//!
//! A process that is killed during a change cannot record it any more. Therefore the file names gateways only after an
//! orderly end, and each start replaces them with the id of the new process. A gateway that the file does not name
//! starts in doubt. A process whose id is no longer in the file writes nothing at its end: another process has started
//! since, and its changes are unknown.
//!
//! Processes that share a state directory listen on different addresses, so that there is a file for each address of a
//! reverse listener. A process takes over the files of all its addresses. From the files of other addresses it removes
//! the gateways before its own origins: the config may have had other listeners before, and may have them again later.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use larder_store::private;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::base::error::cause;
use crate::base::settings::{Origin, Role, Settings};

/// The largest file that is read, in bytes.
const MOST: u64 = 1 << 20;

/// The files of this process, and their content at its start.
#[derive(Debug, Default)]
pub(crate) struct GatewayFiles {
    files: Vec<PathBuf>,
    /// The content of the files until another process starts or this one ends.
    running: String,
    found: Mutex<HashSet<String>>,
}

impl GatewayFiles {
    /// Reads the files of a process with these settings, and takes them over, so that their content is used only once.
    pub(crate) fn take(settings: &Settings) -> Self {
        let Some(directory) = settings.state.as_deref() else { return Self::default() };
        let reverse = settings.listen.iter().filter(|listener| listener.role == Role::Reverse);
        let sockets = settings.sockets.paths.iter().map(|path| name(path.display()));
        let names: BTreeSet<_> = reverse.map(|listener| name(listener.address)).chain(sockets).collect();
        if names.is_empty() {
            return Self::default();
        }
        let origins: Vec<_> = settings.sites.iter().flat_map(|site| &site.origins).collect();
        let has_gateways = settings.sites.iter().any(|site| site.tags.is_some());
        Self::take_from(directory, &names, &origins, has_gateways)
    }

    /// Takes over the files of these names; `makes`: whether missing files are made.
    fn take_from(directory: &Path, names: &BTreeSet<String>, origins: &[&Origin], makes: bool) -> Self {
        let running = format!("running {:016x}\n", RandomState::new().hash_one(0_u8));
        let (mut files, mut found) = (Vec::new(), HashSet::new());
        for path in names.iter().map(|name| directory.join(name)) {
            match exchange(&path, makes, |_| Some(running.clone())) {
                Ok(text) => {
                    found.extend(text.lines().map(str::to_owned));
                    files.push(path);
                }
                // There is no gateway here that could start in doubt.
                Err(error) if !makes => tracing::debug!("{}: {}", path.display(), cause(&error)),
                Err(error) => {
                    tracing::warn!("{}: {}; gateways start in doubt", path.display(), cause(&error))
                }
            }
        }
        if !disown(directory, names, origins) {
            found.clear();
        }
        Self { files, running, found: Mutex::new(found) }
    }

    /// Whether the last process ended the gateway of this name, before these origins, without a change in progress or
    /// in doubt.
    pub(crate) fn has(&self, site: &str, origins: &[Origin]) -> bool {
        self.found.lock().contains(&line(site, origins))
    }

    /// Makes [`has`](Self::has) return false from now on: this process may have forwarded changes since its start.
    pub(crate) fn forget(&self) {
        self.found.lock().clear();
    }

    /// Writes these gateways to the files for the next process.
    pub(crate) fn write<'g>(&self, gateways: impl Iterator<Item = (&'g str, &'g [Origin])>) {
        let lines: String = gateways.map(|(site, origins)| line(site, origins) + "\n").collect();
        for path in &self.files {
            match exchange(path, false, |text| (text == self.running).then(|| lines.clone())) {
                Ok(text) if text == self.running => {}
                Ok(_) => tracing::debug!("{}: another process has started meanwhile", path.display()),
                Err(error) => {
                    tracing::warn!("{}: {}; gateways will start in doubt", path.display(), cause(&error))
                }
            }
        }
    }
}

/// The prefix of the files' names.
const BEGINNING: &str = "settled-";

/// Returns the name of the file of a listener.
fn name(address: impl Display) -> String {
    format!("{BEGINNING}{}", address.to_string().replace('/', "%2F"))
}

/// Removes the gateways before any of `origins` from the files of listeners other than `names`. Returns false if a file
/// may still name one.
fn disown(directory: &Path, names: &BTreeSet<String>, origins: &[&Origin]) -> bool {
    let origins: HashSet<_> = origins.iter().map(ToString::to_string).collect();
    let is_ours = |line: &&str| line.rsplit(' ').any(|word| origins.contains(word));
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    let found = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut is_done = true;
    for other in found.filter(|name| name.starts_with(BEGINNING) && !names.contains(name)) {
        let path = directory.join(other);
        let left = |text: &str| {
            let is_named = text.lines().any(|line| is_ours(&line));
            is_named
                .then(|| text.lines().filter(|line| !is_ours(line)).map(|line| format!("{line}\n")).collect())
        };
        if let Err(error) = exchange(&path, false, left) {
            tracing::warn!("{}: {}; gateways start in doubt", path.display(), cause(&error));
            is_done = false;
        }
    }
    is_done
}

/// Returns the line of a gateway in the file.
fn line(site: &str, origins: &[Origin]) -> String {
    let origins: Vec<_> = origins.iter().map(Origin::to_string).collect();
    format!("{site:?} {}", origins.join(" "))
}

/// Reads a file under a lock, replaces its content by the result of `replace`, if any, and returns the old content.
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
        // A new file must survive a crash of the machine.
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(authorities: &[&str]) -> Vec<Origin> {
        let origin = |authority: &&str| Origin::new(false, *authority);
        authorities.iter().map(origin).collect()
    }

    /// Starts a process with these listeners before these origins.
    fn process(directory: &Path, names: &[&str], origins: &[Origin]) -> GatewayFiles {
        let names = names.iter().map(|name| format!("{BEGINNING}{name}")).collect();
        GatewayFiles::take_from(directory, &names, &origins.iter().collect::<Vec<_>>(), true)
    }

    #[test]
    fn a_settled_gateway_counts_once_and_only_for_the_same_origins() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("below");
        let (one, two) = (origins(&["a:1"]), origins(&["a:1", "b"]));
        let start = || process(&path, &["x"], &two);
        let first = start();
        assert!(!first.has("x", &one), "there is no file yet");
        first.write([("x", &one[..]), ("y\nz", &two[..])].into_iter());
        let found = start();
        assert!(found.has("x", &one) && found.has("y\nz", &two));
        assert!(!found.has("x", &two) && !found.has("y", &two) && !found.has("z", &two));
        assert!(!start().has("x", &one), "the second has not ended in order");
        found.forget();
        assert!(!found.has("x", &one));
    }

    #[test]
    fn a_process_says_nothing_of_one_that_started_later() {
        let directory = tempfile::tempdir().expect("a directory");
        let one = origins(&["a:1"]);
        let start = || process(directory.path(), &["x"], &one);
        let (first, second) = (start(), start());
        first.write([("x", &one[..])].into_iter());
        assert!(!start().has("x", &one), "the second was killed");
        second.write([("x", &one[..])].into_iter());
        assert!(!start().has("x", &one), "so was the third");
    }

    #[test]
    fn settled_gateways_count_at_any_listener_until_another_process_serves_other_origins() {
        let directory = tempfile::tempdir().expect("a directory");
        let (one, two) = (origins(&["a:1"]), origins(&["b:1"]));
        let start = |listeners: &[&str], origins: &[Origin]| process(directory.path(), listeners, origins);
        start(&["x"], &one).write([("1", &one[..])].into_iter());
        let both = start(&["y", "x"], &one);
        assert!(both.has("1", &one), "one more listener");
        both.write([("1", &one[..])].into_iter());
        // This process has another backend.
        drop(start(&["z"], &two));
        let turned = start(&["x", "y"], &one);
        assert!(turned.has("1", &one), "the listeners in another order");
        turned.write([("1", &one[..])].into_iter());
        for other in [&["y"][..], &["v"]] {
            // This process is killed, and the config is rolled back.
            drop(start(other, &one));
            let rolled_back = start(&["x", "y"], &one);
            assert!(!rolled_back.has("1", &one), "{other:?}");
            rolled_back.write([("1", &one[..])].into_iter());
        }
        assert!(start(&["y"], &one).has("1", &one));
    }

    #[test]
    fn a_process_without_gateways_writes_no_settled_file_and_voids_old_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, one) = (directory.path(), origins(&["a:1"]));
        let names = BTreeSet::from([format!("{BEGINNING}x")]);
        let without = || drop(GatewayFiles::take_from(path, &names, &[], false));
        without();
        assert_eq!(fs::read_dir(path).expect("a directory").count(), 0);
        process(path, &["x"], &one).write([("x", &one[..])].into_iter());
        without();
        assert!(!process(path, &["x"], &one).has("x", &one));
    }

    #[test]
    fn a_settled_file_that_is_a_symbolic_link_does_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        fs::write(path.join("other"), "\"x\" http://a:1\n").expect("written");
        std::os::unix::fs::symlink(path.join("other"), path.join("settled-x")).expect("made");
        assert!(!process(path, &["x"], &[]).has("x", &origins(&["a:1"])));
    }
}
