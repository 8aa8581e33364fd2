//! The command of a run: its process, and the signals that this process passes on to it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};

use super::environment::Environment;
use crate::cli::files::unread;

/// The exit codes of a shell for commands that cannot be started, and its base for those that a signal has ended.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
const BY_SIGNAL: i32 = 128;

/// The signals that a terminal, a supervisor or a user sends, which are for the command.
pub(super) const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The process of the command, until it has ended.
type SharedPid = Arc<Mutex<Option<Pid>>>;

/// Runs `command` in this environment. Errors: the command cannot be started.
pub(super) fn run(command: &[OsString], environment: &Environment) -> io::Result<ExitStatus> {
    // From here on, a signal no longer ends this process. One that is ignored, as by nohup, stays ignored for both.
    let ignored = ignored();
    let signals = PASSED_ON.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let signals = SignalsInfo::<WithOrigin>::new(signals);
    let mut child = start(command, environment)?;
    let running: SharedPid = Arc::new(Mutex::new(Some(Pid::from_child(&child))));
    if let Ok(signals) = signals {
        let running = Arc::clone(&running);
        // Without it, the command still gets the signals of its terminal.
        let _ = thread::Builder::new().name("signals".to_owned()).spawn(move || pass_on(signals, &running));
    }
    let status = child.wait();
    *running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    status
}

/// Starts `command`. A shell runs a script whose first line names no interpreter, as other programs that start commands do.
fn start(command: &[OsString], environment: &Environment) -> io::Result<Child> {
    let spawn = |program: &OsStr, words: &[OsString]| {
        Command::new(program).args(words).envs(environment.variables()).spawn()
    };
    match spawn(&command[0], &command[1..]) {
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            let through_shell = ["-c", "exec \"$0\" \"$@\""].map(OsString::from);
            spawn("sh".as_ref(), &[&through_shell, command].concat())
        }
        started => started,
    }
}

/// Passes signals on to the command for as long as the process lives.
fn pass_on(mut signals: SignalsInfo<WithOrigin>, running: &SharedPid) {
    for Origin { signal, cause, .. } in signals.forever() {
        // The kernel has sent it to the command, too, for the keys of a terminal.
        let is_of_terminal = matches!(signal, SIGINT | SIGQUIT) && cause == Cause::Kernel;
        let signal = Signal::from_named_raw(signal).filter(|_| !is_of_terminal);
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(process), Some(signal)) = (*running, signal) {
            // It may have ended.
            let _ = kill_process(process, signal);
        }
    }
}

/// Returns the signals that this process ignores, as bits; none if that is not known.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
}

/// Returns the exit code of a shell for a command that has ended.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || BY_SIGNAL + status.signal().unwrap_or_default();
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(u8::MAX)
}

/// Returns the exit code of a shell for a command that cannot be started, and the reason.
pub(super) fn unstarted(command: &OsStr, error: &io::Error) -> (u8, String) {
    match error.kind() {
        ErrorKind::NotFound if is_file(command) => {
            (NOT_FOUND, "it cannot be started: its interpreter or loader is not there".to_owned())
        }
        ErrorKind::NotFound => (NOT_FOUND, "no such command".to_owned()),
        _ => (NOT_STARTED, format!("it cannot be started: {}", unread(error))),
    }
}

/// Whether there is a file that `command` names: a path, or a name in `PATH`.
fn is_file(command: &OsStr) -> bool {
    let is_path = command.as_bytes().contains(&b'/');
    let folders = env::var_os("PATH").filter(|_| !is_path).unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(command).is_file())
}

/// Ends this process by the signal that has ended the command, if its sender expects that: a shell stops its script after an interrupt
/// only if the interrupt has ended the program.
pub(super) fn end_as(status: ExitStatus) {
    if let Some(signal) = status.signal().filter(|signal| [SIGHUP, SIGINT, SIGTERM].contains(signal)) {
        // Without it, the exit code tells.
        let _ = emulate_default_handler(signal);
    }
}
