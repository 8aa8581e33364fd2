//! Which gateways of the last process ended with no change in progress or in doubt: a file in the state directory.
//!
//! A process that is killed in the middle of a change cannot write that down any more. So the file says the opposite:
//! an orderly end writes it, and each start removes it. A gateway that it does not name starts in doubt.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use larder_store::private;

use crate::base::settings::{Origin, Role, Settings};

/// Longer files than this are not ours.
const MOST: u64 = 1 << 20;

/// The file, and what it said at the start of this process.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    path: Option<PathBuf>,
    found: HashSet<String>,
}

impl Settled {
    /// Reads the file of a process with these settings, and removes it: it counts once.
    pub(crate) fn take(settings: &Settings) -> Self {
        let address = settings.listen.iter().find(|listener| listener.role == Role::Reverse);
        let Some((directory, listener)) = settings.state.as_deref().zip(address) else {
            return Self::default();
        };
        Self::take_from(directory.join(name(listener.address)))
    }

    fn take_from(path: PathBuf) -> Self {
        let found = match read(&path) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!("{}: {error}; gateways start in doubt", path.display());
                }
                HashSet::new()
            }
        };
        Self { path: Some(path), found }
    }

    /// Whether the gateway of this name, before these origins, ended with nothing in progress or in doubt.
    pub(crate) fn has(&self, site: &str, origins: &[Origin]) -> bool {
        self.found.contains(&line(site, origins))
    }

    /// Writes the file for the next process: it names these gateways.
    pub(crate) fn write<'g>(&self, gateways: impl Iterator<Item = (&'g str, &'g [Origin])>) {
        let lines: Vec<_> = gateways.map(|(site, origins)| line(site, origins) + "\n").collect();
        let Some(path) = self.path.as_ref().filter(|_| !lines.is_empty()) else { return };
        if let Err(error) = write(path, &lines.concat()) {
            tracing::warn!("{}: {error}; gateways will start in doubt", path.display());
        }
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

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    private::open(private::options().read(true), path)?.take(MOST).read_to_string(&mut text)?;
    fs::remove_file(path)?;
    sync_directory(path)?;
    Ok(text)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), private::make_directory)?;
    let mut file = private::replace(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    sync_directory(path)
}

/// Makes the removal or the making of a file outlive a crash of the machine.
fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
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
        assert!(!Settled::take_from(path.clone()).has("x", &one), "there is no file yet");
        let written = Settled { path: Some(path.clone()), found: HashSet::new() };
        written.write([("x", &one[..]), ("y\nz", &two[..])].into_iter());
        let found = Settled::take_from(path.clone());
        assert!(found.has("x", &one) && found.has("y\nz", &two));
        assert!(!found.has("x", &two) && !found.has("y", &two) && !found.has("z", &two));
        assert!(!Settled::take_from(path).has("x", &one), "it was removed");
    }

    #[test]
    fn what_cannot_be_removed_does_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("settled");
        fs::write(directory.path().join("other"), "\"x\" http://a:1\n").expect("written");
        std::os::unix::fs::symlink(directory.path().join("other"), &path).expect("made");
        assert!(!Settled::take_from(path).has("x", &origins(&["a:1"])));
    }
}
