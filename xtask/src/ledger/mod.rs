//! `cargo x ledger`: the cache lines that workers share while they answer hits.
//!
//! A release build runs with two workers under Valgrind's tool lackey, which prints the address of each access to memory. Some
//! connections send the same number of requests, one after the other; the kernel and the program deal them to both
//! workers. A worker's own stack tells which connections it has: they write many lines in common. Two connections of
//! different workers should write none, except for those in [`LIMITS`]. The pair with the fewest counts: lines that are
//! written now and then are not told, such as those of a shard in which the uses of a hot entry are counted.
//!
//! Lines that are also written without requests belong to other threads, and do not count. A line is named by the function
//! of this program that was the last to run before the access, without its generic parameters. Writes of the kernel are not
//! seen.

mod client;
mod symbols;
mod trace;

use self::client::Connection;
use self::symbols::Symbols;
use self::trace::{Phase, Trace};
use crate::bench::{self, Origin};
use crate::{args, packages, program};
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::{Process, children, free_ports};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Requests of a connection before the measured ones, so that its entry is hot, and the measured ones.
const BEFORE: usize = 12;
const MEASURED: usize = 4;
/// The connections of a load. With two workers, a fourth connection cannot meet the same worker as the first three.
const CONNECTIONS: usize = 4;
/// Each connection is measured so many times, since some lines are written once a second.
const ROUNDS: usize = 2;
/// The time limit for a program that runs some hundred times slower than usual.
const START_LIMIT: Duration = Duration::from_secs(600);
/// Two threads have different stacks: connections with more common lines than this have the same worker.
const SAME_WORKER: usize = 40;
const URLS: u32 = 4;

/// The hosts of the site without rules, and of the one with ten.
const PLAIN: &str = "plain.test";
const RULED: &str = "ruled.test";

/// The time without requests in which all other threads do what they do from time to time.
const IDLE: Duration = Duration::from_secs(3);

/// The time in which a worker finishes a request that is answered.
const REST: Duration = Duration::from_millis(50);

/// A load, and the most lines that workers write in common.
struct Case {
    name: &'static str,
    is_http2: bool,
    /// Whether each connection asks for a URL of its own.
    apart: bool,
    authority: &'static str,
}

/// The kernel tells the program where it has mapped its clocks, but lackey's program cannot read them there. If it is not
/// told, it asks for the time by system calls.
const STRACE: [&str; 7] =
    ["-f", "--seccomp-bpf", "-e", "trace=prctl", "-e", "inject=prctl:error=ENOSYS", "--output=/dev/null"];

/// THE LIST of what may be written by both, by load.
const LIMITS: [(Case, usize); 6] = [
    (Case { name: "one URL", is_http2: false, apart: false, authority: PLAIN }, 2),
    (Case { name: "other URLs", is_http2: false, apart: true, authority: PLAIN }, 0),
    (Case { name: "one URL, ten rules", is_http2: false, apart: false, authority: RULED }, 2),
    (Case { name: "one URL, HTTP/2", is_http2: true, apart: false, authority: PLAIN }, 2),
    (Case { name: "other URLs, HTTP/2", is_http2: true, apart: true, authority: PLAIN }, 0),
    (Case { name: "one URL, ten rules, HTTP/2", is_http2: true, apart: false, authority: RULED }, 2),
];

/// The options of `cargo x ledger`.
pub(crate) struct Options {
    larder: Option<PathBuf>,
    is_quick: bool,
}

impl Options {
    /// Reads the words after `ledger`. Fails on an unknown word, which the error names.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let words = args::parse(words, &[("--larder", true), ("--quick", false)])?;
        Ok(Self { larder: words.path("--larder"), is_quick: words.has("--quick") })
    }

    /// Prints the ledger of each load. Fails if Valgrind is missing, or workers write more lines in common than the
    /// list allows.
    pub(crate) fn run(self) -> Result<()> {
        let missing = packages::missing(packages::FOR_LEDGER);
        ensure!(
            missing.is_empty(),
            "not all packages are installed; run: {}",
            packages::command_line(&missing)
        );
        let larder = self.larder.map_or_else(program::build_release, Ok)?;
        let folder = tempfile::tempdir()?;
        let origin = Origin::start();
        let [port] = free_ports();
        let server = Server::start(&larder, folder.path(), port, origin.port())?;
        let cases = if self.is_quick { &LIMITS[..1] } else { &LIMITS[..] };
        let mut over = Vec::new();
        for (case, most) in cases {
            let shared = server.measure(case)?;
            println!("{}: {} lines written by both workers, at most {most}", case.name, shared.len());
            shared.iter().for_each(|line| println!("  {line}"));
            if shared.len() > *most {
                over.push(case.name);
            }
        }
        ensure!(over.is_empty(), "workers share more lines than the list allows: {}", over.join("; "));
        Ok(())
    }
}

/// A larder under lackey.
struct Server {
    port: u16,
    trace: Trace,
    traced: Pid,
    _strace: Process,
}

impl Drop for Server {
    /// Without strace, which ends next, the program would go on.
    fn drop(&mut self) {
        let _ = kill_process(self.traced, Signal::KILL);
    }
}

impl Server {
    fn start(larder: &Path, folder: &Path, port: u16, origin: u16) -> Result<Self> {
        let (config, log) = (folder.join("larder.toml"), folder.join("trace"));
        std::fs::write(&config, configure(port, origin))?;
        let fifo = Command::new("mkfifo").arg(&log).status().context("cannot start mkfifo")?;
        ensure!(fifo.success(), "mkfifo: {fifo}");
        let mut command = Command::new("strace");
        command.args(STRACE).args(["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no"]);
        command.arg(format!("--log-file={}", log.display())).arg(larder);
        command
            .args(["serve", "--admin", "off", "--threads", "2", "--stats", "none", "--config"])
            .arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(&mut command).context("cannot start strace and valgrind")?;
        let trace = Trace::read(&log)?;
        process.listens(&[("127.0.0.1", port)], START_LIMIT).context("larder under valgrind")?;
        let traced = children(process.id()).first().copied().context("strace has no process")?;
        trace.name_by(Symbols::of(larder, traced)?);
        Ok(Self { port, trace, traced, _strace: process })
    }

    /// Returns the lines that two workers write in common, by name.
    fn measure(&self, case: &Case) -> Result<Vec<String>> {
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS as u32 {
            let path = format!("/1k/{}", if case.apart { number % URLS } else { 0 });
            let mut connection = Connection::open(self.port, case.authority, case.is_http2, path)?;
            (0..BEFORE).try_for_each(|_| connection.get())?;
            connections.push(connection);
        }
        self.trace.wait_until_quiet();
        self.trace.begin();
        sleep(IDLE);
        let idle = self.trace.end();
        let mut phases = Vec::new();
        for number in 0..ROUNDS * connections.len() {
            let connection = &mut connections[number % CONNECTIONS];
            // The others have displaced what this one's worker has learned. Its last use is counted in its shard, as the
            // first one of each second is; the measured ones follow at once, so that most of them are not.
            (0..BEFORE).try_for_each(|_| connection.get())?;
            self.trace.wait_until_quiet();
            connection.get()?;
            sleep(REST);
            self.trace.begin();
            (0..MEASURED).try_for_each(|_| connection.get())?;
            self.trace.wait_until_quiet();
            phases.push(self.trace.end());
        }
        let pairs = (0..phases.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let common = pairs.map(|(one, other)| phases[one].written_by_both(&phases[other], &idle));
        let Some(fewest) = common.min_by_key(Vec::len) else { bail!("no connections") };
        if fewest.len() >= SAME_WORKER {
            bail!("all connections have met the same worker:\n  {}", fewest.join("\n  "));
        }
        ensure!(phases.iter().all(Phase::has_lines), "the trace has no accesses: {}", case.name);
        Ok(fewest)
    }
}

fn configure(port: u16, origin: u16) -> String {
    let site = |host| format!("[[site]]\nhosts = [\"{host}\"]\norigin = \"http://127.0.0.1:{origin}\"\n");
    // The thread of shadow caches works after requests, too, and would be taken for a worker.
    let memory = "advise = \"off\"\n[memory]\nsize = \"1GiB\"\n";
    let rules = bench::rules(10);
    let listen = format!("[reverse]\nlisten = \"127.0.0.1:{port}\"\n");
    format!("{memory}{listen}{}{}{rules}", site(PLAIN), site(RULED))
}
