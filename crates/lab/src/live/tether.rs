//! A program that is started for a measurement and ends with it: with this value, and with this process, since its standard
//! input closes then.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the last line of one that has ended may be under way.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running program.
#[derive(Debug)]
pub(super) struct Tethered {
    child: Child,
    complaint: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Tethered {
    /// `program`, a larder, with the word that makes it end with its standard input; more words follow.
    pub(super) fn larder(program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("--tethered");
        command
    }

    /// Starts `command`, whose program has to end when its standard input does.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let complaint = Arc::default();
        let listener = child.stderr.take().map(|lines| {
            let complaint = Arc::clone(&complaint);
            thread::spawn(move || keep_last(BufReader::new(lines), &complaint))
        });
        Ok(Self { child, complaint, listener })
    }

    /// Its process's number.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it prints; nothing the second time.
    pub(super) fn output(&mut self) -> Option<impl Read + Send + use<>> {
        self.child.stdout.take()
    }

    /// The last line that it complained with. Of one that goes on, as far as it has come after a moment.
    pub(super) fn complaint(&self) -> String {
        let begun = Instant::now();
        while self.listener.as_ref().is_some_and(|listener| !listener.is_finished())
            && begun.elapsed() < LAST_WORDS
        {
            thread::sleep(Duration::from_millis(1));
        }
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        // It may have ended before.
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
        let mut child = Tethered::start(shell.args(["-c", "echo one >&2; echo two >&2; exit 3"])).unwrap();
        let status = loop {
            if let Some(status) = child.ended().unwrap() {
                break status;
            }
            thread::yield_now();
        };
        assert_eq!(status.code(), Some(3));
        while child.complaint() != "two" {
            thread::yield_now();
        }
        let child = Tethered::start(&mut Command::new("cat")).unwrap();
        let id = child.id();
        assert!(Path::new(&format!("/proc/{id}")).exists());
        drop(child);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
