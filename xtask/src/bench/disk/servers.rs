//! The servers of `bench disk`, and their files on the measured file system.

use super::super::peers::{self, NGINX as PACKAGE, NGINX_FRUGAL, Peer, Setup, Start, Which, nginx_with};
use super::super::server::RunningServer;
use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, fadvise, statfs, syncfs};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The bytes of a disk that is filled several times; it must equal the value in the configurations below.
pub(super) const SMALL: u64 = 128 << 20;

/// A memory so small that hits come from the disk; its policy evicts the least recently requested object, so that a
/// walk over many objects finds none in memory in its next round.
const LITTLE: [&str; 4] = ["--memory", "1MiB", "--policy", "lru"];

/// The maximum wait until a disk has written its queue, or knows its contents.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(10);

/// The number of a file system in memory in `statfs`.
const TMPFS: i64 = 0x0102_1994;

pub(super) const MEMORY: Peer = larder("larder-memory", |setup| serve(setup, &["--memory", "1GiB"]));
pub(super) const DISK: Peer = larder("larder-disk", |setup| on_disk(setup, "sieve", "10GiB"));
pub(super) const NGINX: Peer = nginx("nginx", |setup| nginx_with(setup, "10g", NGINX_FRUGAL));
/// The setting that its manual recommends for files larger than memory: the worker does not wait for the disk.
pub(super) const NGINX_AIO: Peer = nginx("nginx-aio", |setup| nginx_with(setup, "10g", "aio threads;"));

/// The servers whose disk is filled several times.
pub(super) const WRITTEN: [Peer; 4] = [
    larder("larder-fifo", |setup| on_disk(setup, "fifo", "128MiB")),
    larder("larder-lru", |setup| on_disk(setup, "lru", "128MiB")),
    larder("larder-sieve", |setup| on_disk(setup, "sieve", "128MiB")),
    nginx("nginx", |setup| nginx_with(setup, "128m", "")),
];

const fn larder(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Peer {
    Peer::apart(name, Which::Larder, None, configure)
}

const fn nginx(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Peer {
    Peer::apart(name, Which::Installed, Some(PACKAGE), configure)
}

fn serve(setup: &Setup, words: &[&str]) -> Result<Start> {
    peers::serve(setup, &[&["--access-log", "off", "--stats", "none"][..], words].concat())
}

fn on_disk(setup: &Setup, policy: &str, size: &str) -> Result<Start> {
    let folder = setup.folder.join("disk").to_string_lossy().into_owned();
    let disk = ["--disk", &folder, "--disk-size", size, "--disk-policy", policy];
    serve(setup, &[&LITTLE[..], &disk].concat())
}

/// Waits until a larder's disk is in use and knows all its objects; other servers are ready when they listen.
pub(super) fn ready(server: &RunningServer) -> Result<()> {
    wait(server, "its disk is ready", |stats| {
        disks(stats).all(|disk| disk["state"] == "ready" && disk["objects"].is_u64())
    })
}

/// Waits until a larder's disk has written its queue; other servers write before they answer.
pub(super) fn written(server: &RunningServer) -> Result<()> {
    wait(server, "all is written", |stats| disks(stats).all(|disk| disk["bytes_queued"] == 0))
}

fn disks(stats: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    stats["disks"].as_array().into_iter().flatten()
}

fn wait(server: &RunningServer, what: &str, holds: impl Fn(&serde_json::Value) -> bool) -> Result<()> {
    let began = Instant::now();
    while server.which == Which::Larder && !holds(&server.stats()?) {
        if began.elapsed() > LIMIT {
            bail!("{}: waited {} s until {what}", server.name, LIMIT.as_secs());
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// Returns a figure of a larder's only disk; NaN for a server without figures.
pub(super) fn figure(server: &RunningServer, name: &str) -> Result<f64> {
    match server.which {
        Which::Larder => Ok(server.stats()?["disks"][0][name].as_f64().unwrap_or(f64::NAN)),
        _ => Ok(f64::NAN),
    }
}

/// Whether the folder's file system is in memory.
pub(super) fn is_in_memory(folder: &Path) -> Result<bool> {
    let found = statfs(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    Ok(found.f_type == TMPFS)
}

/// Writes all files below `folder` to storage, and removes their pages from the page cache.
pub(super) fn forget_pages(folder: &Path) -> Result<()> {
    syncfs(File::open(folder)?)?;
    for path in files(folder)? {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Returns the bytes that the files below `folder` take.
pub(super) fn occupied(folder: &Path) -> Result<u64> {
    let blocks = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.blocks());
    Ok(files(folder)?.into_iter().map(blocks).sum::<u64>() * 512)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            // An entry that was deleted since the listing is neither.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{files, forget_pages, is_in_memory, occupied};
    use std::fs;

    #[test]
    fn files_are_found_at_any_depth() {
        let folder = std::env::temp_dir().join(format!("larder-bench-test-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/deep"), [1; 10_000]).unwrap();
        fs::write(folder.join("top"), [1; 10_000]).unwrap();
        let found = files(&folder).unwrap().len();
        let forgotten = forget_pages(&folder);
        let bytes = occupied(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        forgotten.unwrap();
        assert_eq!(found, 2);
        assert!((20_000..80_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn proc_is_not_kept_in_memory_files() {
        assert!(!is_in_memory("/proc".as_ref()).unwrap());
        assert!(is_in_memory("/no/such/folder".as_ref()).is_err());
    }
}
