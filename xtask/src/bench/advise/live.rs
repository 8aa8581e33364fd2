//! A trace replayed through running processes: what one predicts for others, beside what these do.
//!
//! All requests are on one connection, at a fixed rate, and begin with a whole second, so that lifetimes end between the same requests in
//! each process. For the same reason, objects have at most 16 MiB. What a
//! trace lacks is synthetic: sizes if all are 1, lifetimes (two seconds for one object in four, otherwise a day), validators (for half
//! of the objects, whose responses never change), and purges (of the URL of one request in 400, before it).

use super::{Differences, Prediction};
use crate::client::Client;
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::{self as testkit, Process, Seen, free_ports};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The most bytes of an object.
const LARGEST: u64 = 16 << 20;
/// Requests in a second, and the most requests of a trace.
const RATE: f64 = 2_000.0;
const MOST: usize = 20_000;
/// The policies and the sizes that really run, as factors of the size that predicts.
const POLICIES: [&str; 3] = ["lru", "gdsf", "s3fifo"];
const FACTORS: [f64; 3] = [0.25, 1.0, 4.0];
/// The predicting size, as a share of the bytes of all objects.
const SHARE: f64 = 0.1;
/// The share of the requests that one key has, and that of the bytes that one object has, which is requested once in a hundred times.
const OF_ONE_KEY: f64 = 0.45;
const OF_ONE_OBJECT: f64 = 0.4;
const ASKED: f64 = 0.01;
/// The time in which a process has to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The requests of a trace: paths that end in a size, and whether a purge of the path is first.
#[derive(Clone)]
pub(super) struct Replay {
    requests: Vec<(String, bool)>,
    /// The policy and the size of the process that predicts.
    running: &'static str,
    size: u64,
    /// Bytes of the content of all requests.
    bytes: u64,
}

/// A running process.
struct Larder {
    _process: Process,
    _folder: tempfile::TempDir,
    port: u16,
    admin: u16,
}

impl Replay {
    /// Reads the first requests of a trace in oracleGeneral form, compressed or not. Fails if it cannot be read, or
    /// `zstd` is not installed.
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
        let (mut requests, mut bytes) = (Vec::new(), 0);
        for (at, (object, size)) in records.into_iter().enumerate() {
            let mixed = object.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let size = if is_sized { size.min(LARGEST) } else { 500 << (mixed % 8) };
            sizes.insert(object, size);
            bytes += size;
            let lifetime = if mixed.is_multiple_of(4) { 2 } else { 86_400 };
            let validator = if mixed.is_multiple_of(8) { "validator" } else { "none" };
            requests.push((format!("/{object}/{validator}/{lifetime}/{size}"), at % 400 == 399));
        }
        let all: u64 = sizes.values().sum();
        Ok(Self { requests, running: "lru", size: (all as f64 * SHARE) as u64, bytes })
    }

    /// Returns the same with the default policy in the process that predicts.
    pub(super) fn by_default_policy(&self) -> Self {
        Self { running: "adaptive", ..self.clone() }
    }

    /// Returns the same with one key that has much of the requests.
    pub(super) fn with_one_key(&self) -> Self {
        self.with_one(OF_ONE_KEY, 500)
    }

    /// Returns the same with one object that has much of the bytes.
    pub(super) fn with_one_object(&self) -> Self {
        let others = self.bytes as f64 * (1.0 - ASKED);
        let size = others * OF_ONE_OBJECT / (1.0 - OF_ONE_OBJECT) / (ASKED * self.requests.len() as f64);
        self.with_one(ASKED, size as u64)
    }

    /// Replaces a share of the requests, which have no order, by requests for one more object.
    fn with_one(&self, share: f64, size: u64) -> Self {
        let mut changed = self.clone();
        let is_replaced = |at: &u32| f64::from(at.wrapping_mul(0x9E37_79B9)) < share * f64::from(u32::MAX);
        for (_, request) in (0..).zip(&mut changed.requests).filter(|(at, _)| is_replaced(at)) {
            request.0 = format!("/one/none/86400/{size}");
        }
        changed
    }

    /// Returns the predictions of a process, and the truth: hit ratios, and byte hit ratios. Fails if a process does
    /// not start, or does not answer.
    pub(super) fn run(&self, larder: &Path) -> Result<Differences> {
        let (listener, address) = testkit::listen();
        testkit::answer(listener, |seen, stream| stream.write_all(&answer(seen)));
        let origin = address.port();
        let predicting = Larder::start(larder, origin, self.running, self.size, "on")?;
        predicting.replay(self)?;
        let mut report = predicting.ask("GET /advise")?;
        let Value::Array(cells) = report["cells"].take() else { bail!("the process predicts nothing") };
        drop(predicting);
        let mut found = Differences { checks: vec![Prediction::check(&report)], ..Differences::default() };
        let usual = POLICIES.iter().flat_map(|policy| FACTORS.map(|factor| (*policy, factor)));
        // The advised policy is the best of many figures, which may be too good.
        let advised = report["advice"]["policy"].as_str();
        let further = advised.filter(|policy| !POLICIES.contains(policy));
        for (policy, factor) in usual.chain(further.map(|policy| (policy, 1.0))) {
            let size = (self.size as f64 * factor) as u64;
            let is_it = |cell: &&Value| {
                cell["policy"] == policy && cell["size"].as_u64().is_some_and(|own| own.abs_diff(size) <= 4)
            };
            let cell = cells.iter().find(is_it).context("a size is not predicted")?;
            let real = Larder::start(larder, origin, policy, size, "off")?;
            real.replay(self)?;
            let stats = real.ask("GET /stats")?;
            let both = ["hit_ratio", "byte_hit_ratio"].map(|ratio| Prediction::new(cell, &stats, ratio));
            if advised == Some(policy) && factor == 1.0 {
                found.advised.extend(both.clone());
            }
            let [hits, bytes] = both;
            found.hits.push(hits);
            found.bytes.push(bytes);
        }
        Ok(found)
    }
}

/// Returns the time until the next whole second of the system's clock.
fn until_whole_second() -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(Duration::from_secs(1) - Duration::from_nanos(now.subsec_nanos().into()))
}

/// Returns the object and the size of an oracleGeneral record.
fn object_and_size(record: &[u8]) -> Option<(u64, u64)> {
    let object = u64::from_le_bytes(record[4..12].try_into().ok()?);
    let size = u32::from_le_bytes(record[12..16].try_into().ok()?);
    Some((object, u64::from(size.max(1))))
}

/// Returns the origin's answer for a path, which says whether there is a validator, the lifetime and the size.
fn answer(seen: &Seen) -> Vec<u8> {
    let mut words = seen.target.rsplit('/');
    let size = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let lifetime = words.next().unwrap_or("0");
    let tag = if words.next() == Some("validator") { "ETag: \"1\"\r\n" } else { "" };
    let fields = format!("Cache-Control: max-age={lifetime}\r\n{tag}");
    if seen.field("if-none-match").is_some() {
        return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes();
    }
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {size}\r\n\r\n").into_bytes();
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
        client.get("/warm/none/0/0")?;
        sleep(until_whole_second()?);
        let begun = Instant::now();
        for (at, (path, is_purged)) in replay.requests.iter().enumerate() {
            sleep(Duration::from_secs_f64(at as f64 / RATE).saturating_sub(begun.elapsed()));
            if *is_purged {
                let purge = format!("POST /purge?url={path}");
                let answer = admin.ask(&purge, "Host: localhost\r\nLarder-Admin: 1\r\n")?;
                ensure!(answer.status == 200, "{purge}: status {}", answer.status);
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
        let seen = Seen { target: "/7/validator/2/10".to_owned(), ..Seen::default() };
        let text = String::from_utf8(answer(&seen)).unwrap();
        let has_fields = text.contains("max-age=2\r\n") && text.contains("ETag: ");
        assert!(has_fields && text.ends_with("\r\n\r\nxxxxxxxxxx"), "{text}");
    }

    #[test]
    fn one_object_has_its_share_of_the_bytes() {
        let requests = (0..10_000).map(|at| (format!("/{at}/none/9/1000"), false)).collect();
        let replay = Replay { requests, running: "lru", size: 1, bytes: 10_000_000 }.with_one_object();
        let sizes =
            replay.requests.iter().filter_map(|(path, _)| path.rsplit('/').next()?.parse::<u64>().ok());
        let (one, all) =
            sizes.fold((0, 0), |(one, all), size| (one + if size == 1_000 { 0 } else { size }, all + size));
        let share = one as f64 / all as f64;
        assert!((share - OF_ONE_OBJECT).abs() < 0.02, "{share}");
    }
}
