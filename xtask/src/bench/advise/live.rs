//! A trace replayed through running processes: what one predicts for others, beside what these do.
//!
//! All requests are on one connection and at a fixed rate, so that lifetimes end between the same requests in each process. What a
//! trace lacks is synthetic: sizes if all are 1, lifetimes (two seconds for one object in four, otherwise a day), and purges (of
//! the URL of one request in 400, before it).

use super::Compared;
use crate::client::Client;
use anyhow::{Context, Result, bail};
use larder_testkit::{self as testkit, Process, Seen, free_ports};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Requests in a second, and the most requests of a trace.
const RATE: f64 = 2_000.0;
const MOST: usize = 20_000;
/// The policies and the sizes that really run, as factors of the size that predicts.
const POLICIES: [&str; 3] = ["lru", "gdsf", "s3fifo"];
const FACTORS: [f64; 3] = [0.25, 1.0, 4.0];
/// The predicting size, as a share of the bytes of all objects.
const SHARE: f64 = 0.1;
/// The time in which a process has to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The requests of a trace: paths that end in a size, and whether a purge of the path is first.
pub(super) struct Replay {
    requests: Vec<(String, bool)>,
    size: u64,
}

/// A running process.
struct Larder {
    _process: Process,
    _folder: tempfile::TempDir,
    port: u16,
    admin: u16,
}

impl Replay {
    /// Reads the first requests of a trace in oracleGeneral form, compressed or not.
    ///
    /// # Errors
    /// If it cannot be read, or `zstd` is not installed.
    pub(super) fn read(trace: &Path) -> Result<Self> {
        let bytes = match trace.extension() {
            Some(extension) if extension == "zst" => {
                let output = Command::new("zstd").arg("-dcq").arg(trace).output();
                output.context("zstd is not installed: install the package zstd")?.stdout
            }
            _ => fs::read(trace)?,
        };
        let records: Vec<_> = bytes.chunks_exact(24).take(MOST).filter_map(object_and_size).collect();
        let is_sized = records.iter().any(|(_, size)| *size > 1);
        let mut sizes = HashMap::new();
        let mut requests = Vec::new();
        for (at, (object, size)) in records.into_iter().enumerate() {
            let mixed = object.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let size = if is_sized { size } else { 500 << (mixed % 8) };
            sizes.insert(object, size);
            let lifetime = if mixed.is_multiple_of(4) { 2 } else { 86_400 };
            requests.push((format!("/{object}/{lifetime}/{size}"), at % 400 == 399));
        }
        let all: u64 = sizes.values().sum();
        Ok(Self { requests, size: (all as f64 * SHARE) as u64 })
    }

    /// Returns the predictions of a process under LRU, and the truth: hit ratios, and byte hit ratios.
    ///
    /// # Errors
    /// If a process does not start, or does not answer.
    pub(super) fn run(&self, larder: &Path) -> Result<(Vec<Compared>, Vec<Compared>)> {
        let (listener, address) = testkit::listen();
        testkit::answer(listener, |seen, stream| stream.write_all(&answer(seen)));
        let origin = address.port();
        let predicting = Larder::start(larder, origin, "lru", self.size, "on")?;
        predicting.replay(self)?;
        let mut report = predicting.ask("GET /advise")?;
        let Value::Array(cells) = report["cells"].take() else { bail!("the process predicts nothing") };
        drop(predicting);
        let (mut hits, mut bytes) = (Vec::new(), Vec::new());
        for policy in POLICIES {
            for factor in FACTORS {
                let size = (self.size as f64 * factor) as u64;
                let is_it = |cell: &&Value| {
                    cell["policy"] == policy
                        && cell["size"].as_u64().is_some_and(|own| own.abs_diff(size) <= 4)
                };
                let cell = cells.iter().find(is_it).context("a size is not predicted")?;
                let real = Larder::start(larder, origin, policy, size, "off")?;
                real.replay(self)?;
                let stats = real.ask("GET /stats")?;
                hits.push(Compared::new(cell, &stats, "hit_ratio"));
                bytes.push(Compared::new(cell, &stats, "byte_hit_ratio"));
            }
        }
        Ok((hits, bytes))
    }
}

/// Returns the object and the size of an oracleGeneral record.
fn object_and_size(record: &[u8]) -> Option<(u64, u64)> {
    let object = u64::from_le_bytes(record[4..12].try_into().ok()?);
    let size = u32::from_le_bytes(record[12..16].try_into().ok()?);
    Some((object, u64::from(size.max(1))))
}

/// Returns the origin's answer for a path, which names the lifetime and the size.
fn answer(seen: &Seen) -> Vec<u8> {
    let mut words = seen.target.rsplit('/');
    let size = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let lifetime = words.next().unwrap_or("0");
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age={lifetime}\r\nContent-Length: {size}\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + size, b'x');
    bytes
}

impl Larder {
    fn start(program: &Path, origin: u16, policy: &str, size: u64, advise: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let [port, admin] = free_ports();
        let config = format!(
            "advise = '{advise}'\n[memory]\nsize = {size}\npolicy = '{policy}'\n[[site]]\norigin = 'http://127.0.0.1:{origin}'\n"
        );
        fs::write(folder.path().join("larder.toml"), config)?;
        let mut command = Command::new(program);
        command.args(["serve", "--stats", "none", "--access-log", "off"]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--admin", &format!("127.0.0.1:{admin}")]);
        command
            .args(["--config", "larder.toml"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Process::start(&mut command)?;
        process.listens(&[("127.0.0.1", port), ("127.0.0.1", admin)], PATIENCE)?;
        Ok(Self { _process: process, _folder: folder, port, admin })
    }

    fn replay(&self, replay: &Replay) -> Result<()> {
        let (mut client, mut admin) = (Client::to(self.port), Client::to(self.admin));
        let begun = Instant::now();
        for (at, (path, is_purged)) in replay.requests.iter().enumerate() {
            sleep(Duration::from_secs_f64(at as f64 / RATE).saturating_sub(begun.elapsed()));
            if *is_purged {
                admin.ask(&format!("POST /purge?url={path}"), "Host: localhost\r\n")?;
            }
            client.get(path)?;
        }
        Ok(())
    }

    /// Returns the JSON of the admin listener.
    fn ask(&self, request: &str) -> Result<Value> {
        let answer = Client::to(self.admin).ask(request, "Host: localhost\r\n")?;
        serde_json::from_slice(&answer.body).with_context(|| format!("{request}: not JSON"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_answers_with_the_size_and_lifetime_of_the_path() {
        let seen = Seen { target: "/7/2/10".to_owned(), ..Seen::default() };
        let bytes = answer(&seen);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("max-age=2\r\n") && text.ends_with("\r\n\r\nxxxxxxxxxx"), "{text}");
    }
}
