//! Programs that a measurement starts. Each ends when its [`Subprocess`] is dropped, and when this process ends, because its
//! standard input is closed then.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The maximum wait for the last line of a program that has ended.
const LAST_LINE: Duration = Duration::from_millis(500);

/// A running program.
#[derive(Debug)]
pub(super) struct Subprocess {
    child: Child,
    last_line: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Subprocess {
    /// Returns the command line of `program`, one of this workspace, with the option that ends it when its standard input
    /// is closed.
    pub(super) fn ours(program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("--exit-with-parent");
        command
    }

    /// Starts `command`, whose program has to end when its standard input is closed. Fails if it cannot be started.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let last_line = Arc::default();
        let reader = child.stderr.take().map(|lines| {
            let last_line = Arc::clone(&last_line);
            thread::spawn(move || keep_last(BufReader::new(lines), &last_line))
        });
        Ok(Self { child, last_line, reader })
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard output, once.
    pub(super) fn output(&mut self) -> Option<impl Read + Send + use<>> {
        self.child.stdout.take()
    }

    /// Returns the last line of its standard error. For a program that still runs, this is the last line after
    /// [`LAST_LINE`].
    pub(super) fn last_line(&self) -> String {
        let begun = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && begun.elapsed() < LAST_LINE
        {
            thread::sleep(Duration::from_millis(1));
        }
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns its exit status, if it has ended. Fails if the kernel does not report it.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        // The program may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep_last(lines: impl BufRead, last: &Mutex<String>) {
    for line in lines.lines().map_while(Result::ok) {
        *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_with_its_handle_and_says_why_it_ended_before() {
        let mut shell = Command::new("sh");
        let mut child = Subprocess::start(shell.args(["-c", "echo one >&2; echo two >&2; exit 3"])).unwrap();
        let status = loop {
            if let Some(status) = child.ended().unwrap() {
                break status;
            }
            thread::yield_now();
        };
        assert_eq!(status.code(), Some(3));
        while child.last_line() != "two" {
            thread::yield_now();
        }
        let child = Subprocess::start(&mut Command::new("cat")).unwrap();
        let id = child.id();
        assert!(Path::new(&format!("/proc/{id}")).exists());
        drop(child);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
