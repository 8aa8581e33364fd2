//! The command of a run: its process, and the signals that this process passes on to it.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::environment::Environment;

/// The exit codes of a shell for commands that cannot be started, and its base for those that a signal has ended.
pub(super) const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
const BY_SIGNAL: i32 = 128;

/// The signals that a terminal or a supervisor sends, which are for the command.
pub(super) const PASSED_ON: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The process of the command, until it has ended.
type Running = Arc<Mutex<Option<Pid>>>;

/// Runs `command` in this environment and returns its exit code. Errors: the exit code for a command that cannot be
/// started.
pub(super) fn run(command: &[OsString], environment: &Environment) -> Result<u8, u8> {
    // From here on, a signal no longer ends this process.
    let signals = Signals::new(PASSED_ON);
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .envs(environment.variables())
        .spawn()
        .map_err(|error| if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED })?;
    let running: Running = Arc::new(Mutex::new(Some(Pid::from_child(&child))));
    if let Ok(signals) = signals {
        let running = Arc::clone(&running);
        // Without it, the command still gets the signals of its terminal.
        let _ = thread::Builder::new().name("signals".to_owned()).spawn(move || pass_on(signals, &running));
    }
    let status = child.wait();
    *running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(status.map_or(NOT_STARTED, exit_code))
}

/// Passes signals on to the command for as long as the process lives.
fn pass_on(mut signals: Signals, running: &Running) {
    for signal in signals.forever() {
        let is_of_terminal = matches!(signal, SIGINT | SIGQUIT) && is_in_foreground();
        let signal = Signal::from_named_raw(signal).filter(|_| !is_of_terminal);
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(process), Some(signal)) = (*running, signal) {
            // It may have ended.
            let _ = kill_process(process, signal);
        }
    }
}

/// Whether the terminal has sent its signals to the command, too: both processes are in the group that it addresses.
fn is_in_foreground() -> bool {
    [tcgetpgrp(io::stdin()), tcgetpgrp(io::stderr())].contains(&Ok(getpgrp()))
}

fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || BY_SIGNAL + status.signal().unwrap_or_default();
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(u8::MAX)
}
