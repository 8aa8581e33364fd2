//! The process of the proxy, from the side of the one that runs the command.
//!
//! It is this program with the same arguments. It says its address on standard output, and serves until standard input tells
//! how the command has ended, or closes because this process is gone. A process of its own, so that the command keeps its exit
//! code if the proxy is killed: a kernel without memory takes the largest process.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cli::Failure;

/// The variable that makes this program the proxy of a run.
const ROLE: &str = "LARDER_RUN_ROLE";

/// Whether this process is the proxy of a run.
pub(super) fn is_proxy() -> bool {
    env::var_os(ROLE).is_some()
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
    /// Starts the proxy, perhaps with a variable of its own. Errors: the exit code of a proxy that cannot serve, and has said why;
    /// or that there is no process.
    pub(super) fn start(variable: Option<(&str, &Path)>) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Failed(format!("cannot start the proxy: {error}"));
        let mut command = Command::new(env::current_exe().map_err(failed)?);
        // Words before are for the process that reads its own standard input.
        command.args(env::args_os().skip_while(|word| word != "run")).env(ROLE, "proxy");
        command.envs(variable);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
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
