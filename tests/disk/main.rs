//! The disk tier from the view of clients, origins and administrators: restarts, and the effects of a failing disk. The
//! tests of `larder-disk` cover the storage of records, and disks that return wrong data.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod failing;
mod inventory;
mod outliving;
mod overwritten;
mod purged;
mod queries;
mod schedule;
mod slices;
mod soak;

use std::path::Path;

use larder_testkit::{Answer, Larder, Origin, eventually};
use rustix::process::Signal;

/// A config with a disk in `directory`, in front of `origin`, with the further `tables`.
fn config(directory: &Path, origin: &Origin, tables: &str) -> String {
    let site = format!("[[site]]\norigin = 'http://{}'\n", origin.address);
    format!("{tables}\n[[disk]]\npath = '{}'\nsize = '64MiB'\n{site}", directory.display())
}

/// Returns the content at `target`: its length is the number in the path, and its bytes differ between targets.
fn page(target: &str) -> Vec<u8> {
    let len: usize = target.rsplit('-').next().and_then(|len| len.parse().ok()).unwrap_or(100);
    let seed =
        target.bytes().fold(7_u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    (0..len as u64).map(|at| (seed.wrapping_mul(at / 8 + 1) >> 24) as u8 ^ at as u8).collect()
}

/// Starts an origin with such contents, fresh for an hour.
fn pages() -> Origin {
    Origin::answering(|seen| {
        Answer::with_body("200 OK\nCache-Control: max-age=3600\nETag: \"1\"", &page(&seen.target))
    })
}

/// Waits until the disk has stored `objects` objects since the start, and no writes are queued.
fn written(larder: &Larder, objects: u64) {
    eventually(&format!("{objects} objects on the disk"), || {
        let disk = &larder.stats()["disks"][0];
        (disk["stored"].as_u64()? >= objects && disk["bytes_queued"] == 0).then_some(())
    });
}

/// Waits until the disk is in use and its index is complete.
fn ready(larder: &Larder) {
    eventually("a disk in use", || (larder.stats()["disks"][0]["state"] == "ready").then_some(()));
}

/// Stops a proxy with SIGTERM.
fn end(mut larder: Larder) {
    larder.stop();
}

/// Kills a proxy with SIGKILL.
fn kill(mut larder: Larder) {
    larder.signal(Signal::KILL);
    larder.ended();
}
