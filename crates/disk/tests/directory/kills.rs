//! A test with a real process, which stores and removes objects and is killed repeatedly; then its directory
//! is opened.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::support::{self, Folder, about, body, text};
use larder_disk::Disk;

const SIZE: u64 = 64 << 20;
const FOLDER: &str = "LARDER_DISK_KILLS_FOLDER";
const ROUND: &str = "LARDER_DISK_KILLS_ROUND";
const CYCLES: usize = 10;

fn content(n: usize) -> Vec<u8> {
    body(1 + n * 7919 % 30_000 + n % 20 / 19 * 400_000, n as u8)
}

/// Runs one round: stores ten objects, and removes one of the round before.
fn work(disk: &Disk, round: usize) {
    for n in round * 10..round * 10 + 10 {
        let mut writer = disk.put(text(n).as_bytes(), b"meta", about(content(n).len() as u64, 1)).unwrap();
        assert!(writer.write(&content(n)) && writer.finish());
    }
    if round > 0 {
        disk.remove(text(round * 10 - 1).as_bytes());
    }
}

/// The child's work until it is killed: it prints each round that was synced.
#[test]
fn child() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else { return };
    let directory = larder_disk::Directory::open(folder).unwrap();
    let options = larder_disk::Options::new(SIZE, "lru".parse().unwrap());
    let disk = Disk::open(std::sync::Arc::new(directory), options).unwrap();
    for round in round.parse().unwrap().. {
        work(&disk, round);
        disk.sync().unwrap();
        writeln!(std::io::stdout(), "\nsynced {round}").unwrap();
        if round % 7 == 0 && !disk.is_scanning() {
            disk.snapshot().unwrap();
        }
    }
}

/// Runs a child from `round` on, and kills it during its work. Returns the last round that it has synced.
fn run_and_kill(folder: &Folder, round: usize, rounds: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kills::child", "--exact", "--nocapture"])
        .env(FOLDER, folder.path())
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut synced = lines.filter_map(|line| line.strip_prefix("synced ")?.parse().ok());
    let reached = synced.by_ref().find(|&synced: &usize| synced >= round + rounds).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // The output before the child's death counts, too.
    synced.last().unwrap_or(reached)
}

fn check(disk: &Disk, synced: usize, begun: usize) {
    for n in 0..begun * 10 + 10 {
        let found = disk.peek(text(n).as_bytes(), 0);
        let is_removed = n % 10 == 9 && n / 10 < synced;
        match found {
            Some(found) => {
                assert!(!is_removed, "object {n} is back; rounds up to {synced} were synced");
                let bytes = found.body.read(0..found.body.len()).unwrap();
                assert!(bytes == content(n), "wrong bytes of object {n}");
            }
            None => assert!(is_removed || n >= synced * 10 + 9, "object {n} is lost; {synced} rounds synced"),
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_had_synced() {
    let folder = Folder::new();
    let mut random = fastrand::Rng::with_seed(5);
    let mut round = 0;
    for cycle in 0..CYCLES {
        let synced = run_and_kill(&folder, round, random.usize(1..12));
        if cycle % 4 == 3 {
            folder.remove("index.larder");
        }
        let disk = folder.open(SIZE);
        support::until_known(&disk);
        assert_eq!(disk.usage().evictions, 0, "the check needs all");
        check(&disk, synced, synced + 1);
        disk.validate().unwrap();
        round = synced + 1;
    }
}
