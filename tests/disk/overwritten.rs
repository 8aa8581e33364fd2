//! Segments that are overwritten or truncated while the proxy runs: its responses stay correct.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use larder_testkit::{Larder, Origin, seed};

use crate::{config, page, pages, ready, written};

/// Memory has one entry, so that most responses come from the disk.
const MEMORY: &str = "[memory]\nentries = 1";

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "segment"));
    all.sort();
    all
}

/// Overwrites up to half of a segment.
fn overwrite(segment: &Path, rng: &mut Rng) {
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    let size = file.metadata().unwrap().len();
    let at = rng.u64(..size.max(1));
    let mut bytes = vec![0; (size / 2).min(size - at) as usize];
    rng.fill(&mut bytes);
    file.write_all_at(&bytes, at).unwrap();
}

fn all_are_right(larder: &Larder, paths: &[String], seed: u64) {
    for path in paths {
        let response = larder.get(path);
        assert_eq!(response.status, 200, "{path}, seed {seed}");
        assert!(response.body == page(path), "{path}, seed {seed}: {} bytes", response.body.len());
    }
}

fn start(origin: &Origin, directory: &Path) -> Larder {
    let larder = Larder::start(&config(directory, origin, MEMORY));
    ready(&larder);
    larder
}

#[test]
fn segments_that_are_overwritten_give_no_wrong_byte() {
    let (directory, origin, seed) = (tempfile::tempdir().unwrap(), pages(), seed());
    let mut rng = Rng::with_seed(seed);
    let paths: Vec<_> = (0..24).map(|n| format!("/{n}-{}", rng.u32(65_536..400_000))).collect();
    let larder = start(&origin, directory.path());
    all_are_right(&larder, &paths, seed);
    written(&larder, paths.len() as u64);
    for _ in 0..6 {
        // The second round sends the verified records without reading them.
        all_are_right(&larder, &paths, seed);
        all_are_right(&larder, &paths, seed);
        segments(directory.path()).iter().for_each(|segment| overwrite(segment, &mut rng));
        all_are_right(&larder, &paths, seed);
    }
    assert!(larder.stats()["disks"][0]["corrupt"].as_u64().unwrap() > 0);
}

#[test]
fn segments_that_are_cut_short_give_no_short_answer() {
    let (directory, origin, seed) = (tempfile::tempdir().unwrap(), pages(), seed());
    let mut rng = Rng::with_seed(seed);
    let mut paths: Vec<_> = (0..12).map(|n| format!("/{n}-{}", rng.u32(65_536..400_000))).collect();
    paths.push("/long-6000000".to_owned());
    let larder = start(&origin, directory.path());
    all_are_right(&larder, &paths, seed);
    written(&larder, paths.len() as u64);
    all_are_right(&larder, &paths, seed);
    for segment in segments(directory.path()) {
        let file = OpenOptions::new().write(true).open(&segment).unwrap();
        file.set_len(rng.u64(..file.metadata().unwrap().len())).unwrap();
    }
    // The long page is first: fetched pages are written behind the old end of the segment, which leaves a hole.
    paths.reverse();
    all_are_right(&larder, &paths, seed);
}
