//! The proxy of a run: a forward proxy on a port of this machine, in a process of its own.

use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use larder_proxy::Settings;
use larder_proxy::settings::AccessLog;
use larder_server::{Control, GivenSockets, Server};
use rustix::fs::{MemfdFlags, memfd_create};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::args::RunArgs;
use super::cache::Cache;
use super::child;
use super::process::EndedCommand;
use super::report::{Report, tell};
use crate::cli::clock::now;
use crate::cli::files::unwritten;
use crate::cli::units::show_duration;
use crate::cli::{Failure, WatchAllocator, open_files, say};
use crate::config;
use crate::config::DatabasePlace;
use crate::config::flags::{Admin, Flags};

/// Memory for stored responses; the others are on disk, and in the page cache.
const MEMORY: u64 = 128 << 20;
/// The most threads: clients of a build are few.
const THREADS: usize = 4;

/// Serves until the command has ended, and then tells what the cache has saved. The error is the reason why it cannot
/// serve, and the exit code of the run if that is not 0.
pub(super) fn serve(args: &RunArgs, watch_allocator: WatchAllocator) -> Result<(), Failure> {
    let _outlived = outlive_signals();
    // A command that takes long would have run for nothing.
    args.report.as_deref().map_or(Ok(()), writable).map_err(Failure::Failed)?;
    let cache = Cache::open(args.cache.as_deref()).map_err(Failure::Failed)?;
    let log = RequestLog::new().map_err(|error| Failure::Failed(format!("cannot log requests: {error}")))?;
    let proxy = Proxy::start(args, &cache, Some(&log), watch_allocator)?;
    // The command begins while the port is written.
    say(&proxy.address.to_string());
    cache.keep_port(proxy.address.port());
    // Without a command, there is nothing to tell; without its process, there is nobody to be told, nor to be waited for.
    let Some(ended) = EndedCommand::read(io::stdin()) else { return Ok(()) };
    let refused = proxy.end();
    let mut report = Report::of(&log.path(), cache.times());
    report.refused = refused;
    report.command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    (report.exit_code, report.seconds) = (ended.exit_code, ended.took.as_secs_f64());
    if let Err(error) = cache.keep_times(&report.times) {
        tell(&format!("cannot keep the durations of requests: {}", unwritten(&error)));
    }
    conclude(args, &report)
}

/// Makes this process outlive the signals that a terminal sends to all of its processes: they are for the command.
pub(super) fn outlive_signals() -> io::Result<Signals> {
    Signals::new(child::PASSED_ON)
}

/// Prints and writes the report, and returns the exit code of the run.
fn conclude(args: &RunArgs, report: &Report) -> Result<(), Failure> {
    if args.verbose {
        report.decisions().iter().for_each(|line| tell(line));
    }
    report.summary().iter().for_each(|line| tell(line));
    let json = report.json();
    let write = |file: &Path| fs::write(file, &json).map_err(|error| no_report(file, &error));
    let written = args.report.as_deref().map_or(Ok(()), write);
    match report.exit_code {
        0 if args.require && report.requests == 0 => {
            Err(Failure::Failed("--require: no request came through the proxy".to_owned()))
        }
        0 => written.map_err(Failure::Failed),
        code => {
            written.err().iter().for_each(|why| tell(why));
            Err(Failure::Ended(code))
        }
    }
}

/// Creates `file` unless it is there, with the report of the last run. The error is the reason why none can be written.
fn writable(file: &Path) -> Result<(), String> {
    // A reader of a pipe would wait for its start, and then take this for the end of the report.
    let is_stream = fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if is_stream {
        return Ok(());
    }
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| no_report(file, &error))
}

/// Returns the reason why a report cannot be written, in one line.
fn no_report(file: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {}", file.display(), unwritten(error))
}

/// The access log of a run, in memory: it is complete even if the disk is full.
pub(super) struct RequestLog(OwnedFd);

impl RequestLog {
    fn new() -> io::Result<Self> {
        Ok(Self(memfd_create("requests", MemfdFlags::CLOEXEC)?))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// A proxy that serves.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    control: UnboundedSender<Control>,
    thread: JoinHandle<()>,
    /// Returns the number of contents that were refused.
    refused: Box<dyn Fn() -> u64>,
}

impl Proxy {
    /// Starts the proxy. The error is the reason why it cannot serve.
    pub(super) fn start(
        args: &RunArgs,
        cache: &Cache,
        log: Option<&RequestLog>,
        watch_allocator: WatchAllocator,
    ) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let server = Server::bind(settings(args, cache, log)?, None, GivenSockets::default());
        let server = server.map_err(|error| failed(&error))?;
        watch_allocator(Arc::clone(server.store()))
            .map_err(|error| failed(&format!("cannot watch the allocator: {error}")))?;
        let address = server.addresses().first().map(|(_, address)| *address);
        let address = address.ok_or_else(|| failed(&"the proxy has no address"))?;
        let refused = Box::new(server.refused_contents());
        let (control, commands) = unbounded_channel();
        let serve = move || {
            if let Err(error) = server.run(commands, |_| ()) {
                tracing::error!("{error}");
            }
        };
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| failed(&format!("cannot start the proxy: {error}")))?;
        Ok(Self { address, control, thread, refused })
    }

    /// Ends the proxy, after a short time for its last requests. Returns the number of contents that were refused.
    pub(super) fn end(self) -> u64 {
        // It may have ended with an error, which it has logged.
        let _ = self.control.send(Control::Drain);
        let _ = self.thread.join();
        (self.refused)()
    }
}

fn settings(args: &RunArgs, cache: &Cache, log: Option<&RequestLog>) -> Result<Settings, Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let flags = Flags {
        forward: vec![address(cache.port())],
        admin: Some(Admin(None)),
        stats: Some(DatabasePlace::Off),
        threads: Some(cores.min(THREADS)),
        memory: Some(MEMORY),
        disk: vec![cache.responses()],
        disk_size: args.size.into_iter().collect(),
        access_log: log.map(|_| AccessLog::Json),
        access_log_file: log.map(RequestLog::path),
        // The command could reach them itself.
        allow_private: true,
        ..Flags::default()
    };
    let settings = config::of_command("larder run", &text(args), &flags);
    let mut settings = settings.map_err(|error| Failure::Refused(error.to_string()))?;
    if let Some(intercept) = &mut settings.intercept {
        intercept.known = cache.known(now());
    }
    settings.forward.one_user = true;
    settings.forward.ports = vec![1..=u16::MAX];
    settings.forward.connect_ports = (1..=u16::MAX).collect();
    open_files::plan(&mut settings).map_err(Failure::Refused)?;
    Ok(settings)
}

/// Returns the address of the run `before` if it is free: a daemon that its command has left, as those of Gradle and Bazel,
/// knows no other.
fn address(before: Option<u16>) -> SocketAddr {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    before.map(at).filter(|address| TcpListener::bind(address).is_ok()).unwrap_or_else(|| at(0))
}

/// Returns the config of the proxy, without what its flags say.
fn text(args: &RunArgs) -> String {
    let hosts: Vec<_> = args.hosts().iter().map(|host| format!("'{host}'")).collect();
    // The proxies of the environment are for the world outside, as without this proxy.
    let mut text = "[timeouts]\ndrain = '2s'\n[parent]\nfrom_env = true\n".to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(text, "[intercept]\nhosts = [{}]", hosts.join(", "));
    let min_age =
        args.min_age.map_or_else(String::new, |age| format!("min_age = '{}'\n", show_duration(age)));
    let _ = write!(text, "[[forward.rule]]\npackages = 'all'\n{min_age}");
    let wanted = match (args.offline, args.max_age) {
        (true, _) => Some("only-if-cached, max-stale".to_owned()),
        (false, max_age) => max_age.map(|age| format!("max-age={}", age.as_secs())),
    };
    if let Some(wanted) = wanted {
        let _ = writeln!(
            text,
            "[[forward.rule]]\nname = 'run'\nrequest = {{ set = {{ Cache-Control = '{wanted}' }} }}"
        );
    }
    if args.offline {
        text.push_str(ONLY_READS);
    }
    text
}

/// Refuses requests that no cache can answer. A registry of images is there, and asks for no tokens.
const ONLY_READS: &str = "\
[[forward.rule]]
name = 'images'
match = { path = '/v2/' }
respond = { status = 200, type = 'application/json', body = '{}' }
[[forward.rule]]
name = 'offline'
match = { not = { method = ['GET', 'HEAD', 'CONNECT'] } }
respond = 504
";
