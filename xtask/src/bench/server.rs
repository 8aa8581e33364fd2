//! A server under test: started in a separate folder on a free loopback port, and ended by its process ID.

use super::SERVER_CORE;
use super::origin::Origin;
use super::peers::{Peer, Programs, Setup, Start, Which};
use super::process;
use crate::client::Client;
use anyhow::{Context, Result, bail};
use larder_testkit::{Process, free_ports};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// The time limit for a server that has much to write before it ends.
const END_LIMIT: Duration = Duration::from_secs(60);
/// The number of purges of which the shortest counts.
const PURGES: usize = 20;
/// The pause is short, since it is part of the measured time of a start.
const PAUSE: Duration = Duration::from_millis(1);

/// A server that accepts connections. It ends when this value is dropped.
pub(super) struct RunningServer {
    pub(super) name: &'static str,
    pub(super) port: u16,
    pub(super) which: Which,
    admin: u16,
    program: PathBuf,
    start: Start,
    child: Process,
    folder: PathBuf,
}

impl RunningServer {
    /// Starts the peer on the server's core, with its files in memory, and waits until it accepts connections. Fails if
    /// it cannot be started, ends immediately, or does not listen in time; the error contains the end of its output.
    pub(super) fn start(peer: &Peer, programs: &Programs, origin: &Origin) -> Result<Self> {
        Self::start_in(&in_memory(), peer, programs, origin)
    }

    /// Starts the peer as [`RunningServer::start`] does, with its files below `base`.
    pub(super) fn start_in(base: &Path, peer: &Peer, programs: &Programs, origin: &Origin) -> Result<Self> {
        Self::start_with(base, peer, programs, origin.port(), &[])
    }

    /// Starts the peer with its files below `base`, the origin at a port, and these additional arguments.
    pub(super) fn start_with(
        base: &Path,
        peer: &Peer,
        programs: &Programs,
        origin: u16,
        more: &[&str],
    ) -> Result<Self> {
        let folder = make_folder(base, peer.name)?;
        let [port, admin] = free_ports();
        let mut start = peer.configure(&Setup { folder: &folder, port, admin, origin })?;
        start.arguments.extend(more.iter().map(|&word| word.to_owned()));
        let program = peer.program(programs)?;
        let child = spawn(&program, &start, &folder)?;
        let mut server =
            Self { name: peer.name, port, which: peer.which, admin, program, start, child, folder };
        server.wait_until_listening()?;
        Ok(server)
    }

    /// Ends the server by `signal` and waits until it has ended. Fails if it does not end in time.
    pub(super) fn end(&mut self, signal: Signal) -> Result<()> {
        self.child.signal(signal);
        if !self.ends_within(END_LIMIT)? {
            bail!("has not ended after {} s", END_LIMIT.as_secs());
        }
        Ok(())
    }

    /// Starts the server again after its end, in the same folder.
    pub(super) fn start_again(&mut self) -> Result<()> {
        self.child = spawn(&self.program, &self.start, &self.folder)?;
        self.wait_until_listening()
    }

    /// Returns the folder of its files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Empties its logs, which would fill the memory.
    pub(super) fn empty_logs(&self) {
        for name in ["access.log", "output"] {
            // Without this log there is nothing to empty.
            let _ =
                OpenOptions::new().write(true).open(self.folder.join(name)).and_then(|log| log.set_len(0));
        }
    }

    /// Returns a larder's statistics. Fails if it does not answer.
    pub(super) fn stats(&self) -> Result<Value> {
        self.tell("/stats")
    }

    /// Returns the answer of a larder's admin listener for `path`. Fails if it does not answer.
    pub(super) fn tell(&self, path: &str) -> Result<Value> {
        let mut client = Client::connect(self.admin)?;
        let mut text = Vec::new();
        client.request(&[path])?;
        client.answer(path, &mut text)?;
        serde_json::from_slice(&text).with_context(|| format!("reading {path}"))
    }

    /// Makes a larder purge the objects that `words` select, and returns the result. Fails if the purge fails.
    pub(super) fn purge(&self, words: &[&str]) -> Result<Value> {
        let admin = format!("127.0.0.1:{}", self.admin);
        let output =
            Command::new(&self.program).args(["purge", "--json", "--admin", &admin]).args(words).output()?;
        if !output.status.success() {
            bail!("larder purge: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        serde_json::from_slice(&output.stdout).context("reading what larder purge prints")
    }

    /// Returns the time until a larder acknowledges the purge in `query`: the shortest of several tries. Fails if it
    /// does not acknowledge the purge.
    pub(super) fn time_of_purge(&self, query: &str) -> Result<Duration> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin))?;
        stream.set_nodelay(true)?;
        let request = format!(
            "POST /purge?{query} HTTP/1.1\r\nHost: localhost\r\nLarder-Admin: 1\r\nContent-Length: 0\r\n\r\n"
        );
        let mut shortest = Duration::MAX;
        for _ in 0..PURGES {
            let (begun, mut answer) = (Instant::now(), [0; 4096]);
            stream.write_all(request.as_bytes())?;
            // An answer of this size arrives completely.
            let length = stream.read(&mut answer)?;
            shortest = shortest.min(begun.elapsed());
            if !answer[..length].starts_with(b"HTTP/1.1 200") {
                bail!("a purge was refused: {}", String::from_utf8_lossy(&answer[..length]));
            }
        }
        Ok(shortest)
    }

    fn ends_within(&mut self, limit: Duration) -> Result<bool> {
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > limit {
                return Ok(false);
            }
            sleep(PAUSE);
        }
        Ok(true)
    }

    fn wait_until_listening(&mut self) -> Result<()> {
        let listens = self.child.listens(&[("127.0.0.1", self.port)], START_LIMIT);
        listens.with_context(|| self.last_output())
    }

    /// Returns the server's process and its workers.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        let mut processes = process::tree(self.child.id())?;
        // Some time after the start, nginx's loader ends, which would look like a failure.
        processes.retain(|&process| !process::command_line(process).contains("cache loader"));
        Ok(processes)
    }

    /// Returns the CPU time that it takes while `work` runs, in microseconds, and the result of `work`. Fails if `work`
    /// fails, or a process of the server ends.
    pub(super) fn cpu_during<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
        let processes = self.processes()?;
        let before = process::cpu_time(&processes)?;
        let done = work()?;
        let used = process::cpu_time(&processes)?.saturating_sub(before);
        Ok((used.as_secs_f64() * 1e6, done))
    }

    fn last_output(&self) -> String {
        let text = fs::read_to_string(self.folder.join("output")).unwrap_or_default();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.map_or_else(|| "it printed nothing".to_owned(), str::to_owned)
    }

    /// Asks the server to end; kills it and its workers if it does not.
    fn stop(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        self.child.signal(Signal::TERM);
        if self.ends_within(STOP_LIMIT)? {
            return Ok(());
        }
        for worker in self.processes()?.into_iter().skip(1) {
            if let Some(worker) = i32::try_from(worker).ok().and_then(Pid::from_raw) {
                // The worker may have ended since it was listed.
                let _ = kill_process(worker, Signal::KILL);
            }
        }
        self.child.end();
        Ok(())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("cannot end {} (process {}): {error:#}", self.name, self.child.id());
        }
        // The server's files are no longer needed; a leftover is harmless.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(program: &Path, start: &Start, folder: &Path) -> Result<Process> {
    let output = OpenOptions::new().create(true).append(true).open(folder.join("output"))?;
    // setpriv: the server must not outlive this process, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset", "--cpu-list", &SERVER_CORE.to_string()]);
    command.arg(program).args(&start.arguments).envs(start.environment.clone()).current_dir(folder);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Process::start(&mut command).context("cannot start setpriv and taskset, of Debian's package util-linux")
}

/// Returns the folder of servers' files, unless the disk is measured: in memory, if the system offers that.
pub(super) fn in_memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

const FOLDER_PREFIX: &str = "larder-bench-";

/// Creates a folder; several servers may have the same name.
fn make_folder(base: &Path, name: &str) -> Result<PathBuf> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = base.join(format!("{FOLDER_PREFIX}{}-{name}-{number}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Removes the folders of interrupted benches, which would keep their bytes in memory.
pub(super) fn remove_leftovers(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if maker(&name).is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // The folder of another user stays: only that user can remove it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the process that created a folder of this name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(FOLDER_PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{FOLDER_PREFIX, maker};

    #[test]
    fn only_folders_of_a_bench_have_a_maker() {
        assert_eq!(maker(&format!("{FOLDER_PREFIX}42-nginx")), Some(42));
        for name in ["nginx", "larder-42-nginx", "larder-bench-x-nginx", "larder-bench-42"] {
            assert_eq!(maker(name), None, "{name}");
        }
    }
}
