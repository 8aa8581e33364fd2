//! curl and `openssl s_client`, and their output.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use larder_testkit::Process;

use super::Authority;

/// The output of a client.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Whether the output contains `text`.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.text().contains(text) || self.err.contains(text)
    }
}

/// Requests `path` of `host` at `address` with curl and the options `words`; prints the head, too.
pub(crate) fn curl(
    authority: &Authority,
    address: SocketAddr,
    host: &str,
    path: &str,
    words: &[&str],
) -> Said {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "60", "--noproxy", "*"]);
    command.args(["--cacert", &authority.file()]);
    command.args(["--resolve", &format!("{host}:{}:{}", address.port(), address.ip())]);
    command.args(words).arg(format!("https://{host}:{}{path}", address.port()));
    said(&mut command, b"")
}

/// Connects with `openssl s_client` and the options `words`, sends `input`, and reads to the end.
pub(crate) fn s_client(authority: &Authority, address: SocketAddr, words: &[&str], input: &str) -> Said {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string(), "-CAfile", &authority.file()]);
    command.args(["-servername", "site.test", "-verify_return_error", "-ign_eof"]).args(words);
    said(&mut command, input.as_bytes())
}

fn said(command: &mut Command, input: &[u8]) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A program that exits early stops reading.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Said { ok: output.status.success(), out: output.stdout, err }
}

/// A started program, which ends with the test.
pub(crate) struct Started {
    _child: Process,
    said: Vec<String>,
}

/// Starts `command`, and reads its output up to a line that begins with `to try it: `.
pub(crate) fn started(mut command: Command) -> Started {
    let mut child = Process::start(command.stdout(Stdio::piped())).expect("it starts");
    let said = child.said_until("to try it: ");
    Started { _child: child, said }
}

impl Started {
    /// Returns the rest of the last line that begins with `start`.
    pub(crate) fn line(&self, start: &str) -> String {
        let found = self.said.iter().rev().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no line '{start}' in {:?}", self.said)).to_owned()
    }
}
