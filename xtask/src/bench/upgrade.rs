//! `cargo x bench upgrade`: what clients notice of an upgrade, of larder, of nginx to the same program (USR2, then QUIT), and
//! of haproxy by a reload (`-sf`). Hits on new connections at a steady rate, without an upgrade and around one.

use super::goal::{self, Goal};
use super::measure::{amid, median, percentile, side_by_side};
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, HAPROXY, NGINX, NGINX_FRUGAL, Peer, Programs, Setup};
use super::table::{Cell, Row};
use super::{SERVER_CORE, server};
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::{Process, free_ports, successor};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The objects that are stored before, and requested.
const STORED: u64 = 10_000;
const LENGTH: usize = 1_024;
/// The requests per second, and the threads that send them.
const RATE: u32 = 1_000;
const CLIENTS: usize = 16;
/// The time for an answer, and for an upgrade.
const PATIENCE: Duration = Duration::from_secs(5);
const UPGRADE: Duration = Duration::from_secs(30);

/// The servers, in the order of the table.
const SERVERS: [&str; 3] = ["larder", "nginx", "haproxy"];

/// Reads the words after `bench upgrade`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Ok(Options::with(words, &[], [3, 1], [6, 3])?.0)
}

/// A server in the background.
struct Server {
    peer: &'static Peer,
    program: PathBuf,
    arguments: Vec<String>,
    folder: TempDir,
    port: u16,
    admin: u16,
    /// The process that was started last; `None` for nginx, which goes into the background itself.
    child: Option<Process>,
    /// Processes that others have started.
    successors: Vec<Pid>,
}

/// The answers of some seconds.
struct Load {
    /// Microseconds from a request's due time to the end of its answer, ascending.
    times: Vec<f64>,
    failed: usize,
}

/// An upgrade with its effects.
struct Sample {
    calm: Load,
    around: Load,
    /// The requests that reached the origin meanwhile.
    again: u64,
    took: Duration,
    /// The time from the start of another upgrade, of an idle server, to the first answer from the new process's cache.
    first_hit: Duration,
}

/// Runs the bench and prints its table, and the goals with their results. Fails if a build fails, or a server does not
/// start or cannot be upgraded.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = options.missing(&[], &[&NGINX, &HAPROXY])?;
    let larder = peers::program(options.larder.as_deref())?;
    claim_cores(&server::in_memory())?;
    let is_there = |peer: &&Peer| {
        SERVERS.contains(&peer.name)
            && peer.package.as_ref().is_none_or(|own| missing.iter().all(|package| package.name != own.name))
    };
    let peers: Vec<&'static Peer> = peers::ALL.iter().filter(is_there).collect();
    let mut samples: Vec<Vec<Sample>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for (peer, samples) in peers.iter().zip(&mut samples) {
            let sample = measure(options, peer, &Programs::given(&larder));
            samples.push(sample.with_context(|| peer.name)?);
        }
    }
    let rows: Vec<_> = peers.iter().zip(&samples).map(|(peer, samples)| row(peer.name, samples)).collect();
    let goals = [
        Goal::new(
            "larder: failed requests".to_owned(),
            0.0,
            figure(&samples[0], |it| it.around.failed as f64),
        ),
        Goal::new("larder: objects fetched again".to_owned(), 0.0, figure(&samples[0], |it| it.again as f64)),
    ];
    println!("\nupgrades with {STORED} objects, at {RATE} new connections a second");
    goal::report(options.json.as_deref(), ("upgrades", &rows), &goals)?;
    Ok(goals.into())
}

fn measure(options: &Options, peer: &'static Peer, programs: &Programs) -> Result<Sample> {
    let origin = Origin::start();
    let mut server = Server::start(peer, programs, &origin)?;
    fill(server.port)?;
    let calm = load(server.port, options.duration)?;
    let (fetched, port) = (origin.requests(), server.port);
    let upgrade = || {
        let begun = Instant::now();
        server.upgrade().map(|()| begun.elapsed())
    };
    let (around, took) = amid(options.duration, || load(port, options.duration), upgrade)?;
    let again = origin.requests() - fetched;
    let first_hit = first_hit(&mut server, &origin)?;
    Ok(Sample { calm, around, again, took, first_hit })
}

/// Requests all objects once.
fn fill(port: u16) -> Result<()> {
    let part =
        |first: usize| (first as u64..STORED).step_by(CLIENTS).try_for_each(|number| ask(port, number));
    side_by_side(CLIENTS, part).map(drop)
}

fn first_hit(server: &mut Server, origin: &Origin) -> Result<Duration> {
    let begun = Instant::now();
    server.upgrade()?;
    until("hit", || {
        let before = origin.requests();
        ask(server.port, 0).ok().filter(|()| origin.requests() == before)
    })?;
    Ok(begun.elapsed())
}

impl Server {
    fn start(peer: &'static Peer, programs: &Programs, origin: &Origin) -> Result<Self> {
        let folder = tempfile::tempdir_in(server::in_memory()).context("cannot make a folder")?;
        let [port, admin] = free_ports();
        let setup = Setup { folder: folder.path(), port, admin, origin: origin.port() };
        let arguments = peer.configure(&setup)?.arguments;
        let program = peer.program(programs)?;
        let (child, successors) = (None, Vec::new());
        let mut server = Self { peer, program, arguments, folder, port, admin, child, successors };
        if server.is_nginx() {
            // In the foreground, nginx ignores the signal for an upgrade. Its frugal answers may come late, by a timer.
            let config = server.folder.path().join("nginx.conf");
            let text =
                fs::read_to_string(&config)?.replace("daemon off;", "daemon on;").replace(NGINX_FRUGAL, "");
            fs::write(&config, text)?;
            ensure!(server.command(&[]).status()?.success(), "it does not start");
        } else {
            server.child = Some(Process::start(&mut server.command(&[]))?);
        }
        until("listener", || TcpStream::connect(("127.0.0.1", port)).ok())?;
        Ok(server)
    }

    fn is_nginx(&self) -> bool {
        self.peer.name == "nginx"
    }

    /// Returns the command that starts the server, with these further arguments.
    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", &SERVER_CORE.to_string()])
            .arg(&self.program)
            .args(&self.arguments)
            .args(more);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Replaces the processes, and returns once the new ones serve.
    fn upgrade(&mut self) -> Result<()> {
        match (self.peer.name, &mut self.child) {
            ("larder", _) => {
                let admin = format!("127.0.0.1:{}", self.admin);
                let output = Command::new(&self.program).args(["upgrade", "--admin", &admin]).output()?;
                self.successors.extend(successor(&String::from_utf8_lossy(&output.stdout)));
                ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
                Ok(())
            }
            ("nginx", _) => {
                // The one before has to have ended, or the signal is ignored.
                let one = self.folder.path().join("nginx.pid.oldbin");
                until("end of the former master", || (!one.exists()).then_some(()))?;
                let old = self.master()?;
                kill_process(old, Signal::USR2)?;
                until("new master", || self.master().ok().filter(|new| *new != old))?;
                Ok(kill_process(old, Signal::QUIT)?)
            }
            (_, Some(old)) => {
                let id = old.id().to_string();
                let new = Process::start(&mut self.command(&["-sf", &id]))?;
                let mut old = self.child.replace(new).context("it runs")?;
                until("end of the old process", || old.try_wait().ok().flatten()).map(drop)
            }
            _ => bail!("it cannot be upgraded"),
        }
    }

    /// Returns the process that nginx has written down.
    fn master(&self) -> Result<Pid> {
        let text = fs::read_to_string(self.folder.path().join("nginx.pid"))?;
        text.trim().parse().ok().and_then(Pid::from_raw).context("no process id")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let master = self.is_nginx().then(|| self.master().ok()).flatten();
        for process in self.successors.drain(..).chain(master) {
            // It may have ended already.
            let _ = kill_process(process, Signal::TERM);
        }
    }
}

/// Sends hits at the rate, each on a connection of its own.
fn load(port: u16, duration: Duration) -> Result<Load> {
    let begun = Instant::now();
    let total = u64::from(RATE) * duration.as_millis() as u64 / 1_000;
    let client = |first: usize| {
        let (mut times, mut failed) = (Vec::new(), 0);
        for number in (first as u64..total).step_by(CLIENTS) {
            let due = begun + Duration::from_secs_f64(number as f64 / f64::from(RATE));
            sleep(due.saturating_duration_since(Instant::now()));
            match ask(port, number % STORED) {
                Ok(()) => times.push(due.elapsed().as_secs_f64() * 1e6),
                Err(_) => failed += 1,
            }
        }
        Ok((times, failed))
    };
    let (times, failed): (Vec<_>, Vec<usize>) = side_by_side(CLIENTS, client)?.into_iter().unzip();
    let mut load = Load { times: times.concat(), failed: failed.iter().sum() };
    load.times.sort_by(f64::total_cmp);
    Ok(load)
}

fn ask(port: u16, number: u64) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // In one piece: the kernel of a server that does not answer the first piece acknowledges it 40 ms later.
    let request = format!("GET /1k/{number} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").context("no head")? + 4;
    ensure!(answer.starts_with(b"HTTP/1.1 200") && answer.len() - head == LENGTH, "another answer");
    Ok(())
}

fn until<T>(what: &str, mut is_there: impl FnMut() -> Option<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match is_there() {
            Some(found) => return Ok(found),
            None if begun.elapsed() > UPGRADE => bail!("no {what} after {UPGRADE:?}"),
            None => sleep(Duration::from_millis(1)),
        }
    }
}

fn figure(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(figure).collect())
}

fn row(name: &str, samples: &[Sample]) -> Row {
    let cell = |of: fn(&Sample) -> f64| Cell::number(figure(samples, of), 0);
    vec![
        ("server", Cell::word(name)),
        ("p99.9 calm us", cell(|it| percentile(&it.calm.times, 99.9))),
        ("p99.9 around us", cell(|it| percentile(&it.around.times, 99.9))),
        ("longest calm us", cell(|it| percentile(&it.calm.times, 100.0))),
        ("longest around us", cell(|it| percentile(&it.around.times, 100.0))),
        ("failed", cell(|it| it.around.failed as f64)),
        ("fetched again", cell(|it| it.again as f64)),
        ("upgrade ms", cell(|it| it.took.as_secs_f64() * 1e3)),
        ("first hit ms", cell(|it| it.first_hit.as_secs_f64() * 1e3)),
    ]
}
