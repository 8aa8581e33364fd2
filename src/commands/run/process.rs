//! The process of the proxy, from the side of the one that runs the command.
//!
//! It is this program with the same arguments. It says its address on standard output, and serves until standard input tells
//! how the command has ended, or closes because this process is gone. A process of its own, so that the command keeps its exit
//! code if the proxy is killed: a kernel without memory takes the largest process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use close_fds::set_fds_cloexec;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Pid;

use crate::cli::Failure;

/// The variable by which a process of this program knows its part in a run.
const ROLE: &str = "LARDER_RUN_ROLE";
const PROXY: &str = "proxy";
/// The variable with the file that a process of Larder reads instead of the system's certificates.
pub(super) const OWN: &str = "SSL_CERT_FILE";

/// The part of a process in a run.
pub(super) enum Role {
    /// It runs the command.
    Command,
    Proxy,
    /// It is the proxy of processes that the command has left, at this port, with their files in this directory.
    Lingering(u16, PathBuf),
}

impl Role {
    pub(super) fn of_this_process() -> Self {
        let role = env::var_os(ROLE).unwrap_or_default();
        let lingering = role.to_str().and_then(|role| role.split_once(' '));
        match lingering.and_then(|(port, folder)| Some((port.parse().ok()?, folder.into()))) {
            Some((port, folder)) => Self::Lingering(port, folder),
            None if role == PROXY => Self::Proxy,
            None => Self::Command,
        }
    }
}

/// Returns the arguments of this process. Words before `run` are for a process that reads its own standard input.
pub(super) fn arguments() -> Vec<OsString> {
    env::args_os().skip(1).skip_while(|word| word != "run").collect()
}

/// Starts a process of this program with these arguments and streams, perhaps with other certificates that it trusts.
fn start(
    role: &OsStr,
    arguments: &[OsString],
    trusted: Option<&str>,
    [input, said, told]: [Stdio; 3],
) -> io::Result<Child> {
    // Also if the program was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    env::args_os().next().iter().for_each(|name| _ = command.arg0(name));
    command.args(arguments).env(ROLE, role);
    let file = trusted.map(in_memory).transpose()?;
    command.envs(file.iter().map(|file| (OWN, format!("/proc/self/fd/{}", file.as_raw_fd()))));
    command.stdin(input).stdout(said).stderr(told).spawn()
}

/// Returns a file that processes inherit.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("trusted", MemfdFlags::empty())?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Whether a process is a proxy that [`linger`] has started.
pub(super) fn is_lingering(process: Pid) -> bool {
    let variables = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).unwrap_or_default();
    role_in(&variables).is_some_and(|role| role != PROXY.as_bytes())
}

/// Returns the part in a run of a process with these variables; `None` if it is no proxy.
pub(super) fn role_in(variables: &[u8]) -> Option<&[u8]> {
    let mut variables = variables.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(ROLE.as_bytes())?.strip_prefix(b"="))
}

/// Starts a proxy for processes that a command has left, with their files in `folder`, as the run in the directory
/// `place` with these arguments would start it. Errors: the operating system's error.
pub(super) fn linger(
    port: u16,
    folder: &Path,
    (place, arguments): (PathBuf, Vec<OsString>),
    trusted: Option<&str>,
) -> io::Result<()> {
    let mut role = OsString::from(format!("{port} "));
    role.push(folder);
    // The reader of a pipe that this process has inherited waits for this process alone.
    set_fds_cloexec(3, &[]);
    // It may have been removed.
    let _ = env::set_current_dir(place);
    start(&role, &arguments, trusted, [Stdio::null(), Stdio::null(), Stdio::null()]).map(drop)
}

/// The process of a proxy that serves.
pub(super) struct ProxyProcess {
    pub(super) address: SocketAddr,
    process: Child,
}

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EndedCommand {
    pub(super) exit_code: u8,
    /// Its duration.
    pub(super) took: Duration,
}

impl ProxyProcess {
    /// Starts the proxy, perhaps with other certificates that it trusts. Errors: the exit code of a proxy that cannot serve, and has said
    /// why; or that there is no process.
    pub(super) fn start(trusted: Option<&str>) -> Result<Self, Failure> {
        let process =
            start(PROXY.as_ref(), &arguments(), trusted, [Stdio::piped(), Stdio::piped(), Stdio::inherit()]);
        let mut process =
            process.map_err(|error| Failure::Failed(format!("cannot start the proxy: {error}")))?;
        let mut line = String::new();
        // Without a line, the process has ended.
        let _ = process.stdout.take().map(|said| BufReader::new(said).read_line(&mut line));
        match line.trim().parse() {
            Ok(address) => Ok(Self { address, process }),
            Err(_) => Err(match exit_code(&mut process) {
                Ok(code) => Failure::Ended(code),
                Err(signal) => {
                    Failure::Failed(format!("signal {signal} has ended the proxy before it served"))
                }
            }),
        }
    }

    /// Ends the proxy, which reports about a command that has `ended`. Returns the exit code of the run. Errors: the
    /// proxy was killed while the command ran.
    pub(super) fn end(mut self, ended: Option<EndedCommand>) -> Result<u8, i32> {
        if let (Some(ended), Some(input)) = (ended, &mut self.process.stdin) {
            // It may have been killed.
            let _ = writeln!(input, "{ended}");
        }
        drop(self.process.stdin.take());
        exit_code(&mut self.process)
    }
}

/// Waits for the exit code of a process. Errors: the signal that has ended it.
fn exit_code(process: &mut Child) -> Result<u8, i32> {
    match process.wait() {
        Ok(status) => status.code().map(|code| code as u8).ok_or(status.signal().unwrap_or_default()),
        Err(_) => Err(0),
    }
}

impl EndedCommand {
    /// Reads what the process that runs the command says at its end; `None` if it ends without.
    pub(super) fn read(input: impl io::Read) -> Option<Self> {
        let mut line = String::new();
        BufReader::new(input).read_line(&mut line).ok()?;
        let (code, micros) = line.trim().split_once(' ')?;
        Some(Self { exit_code: code.parse().ok()?, took: Duration::from_micros(micros.parse().ok()?) })
    }
}

impl fmt::Display for EndedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.exit_code, self.took.as_micros())
    }
}
