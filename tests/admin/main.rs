//! The functions of a running process for its administrator: explanations, the live log, the most requested URLs,
//! purges, and the rights to use them.

mod access;
mod advised;
mod agreement;
mod automatic;
#[path = "../doors/caller.rs"]
#[allow(dead_code, reason = "these tests need a part of it")]
mod caller;
mod edges;
mod explained;
mod live;
mod promised;
mod purge_method;
mod purged;
mod reasons;
mod service_manager;
mod tls;

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use larder_testkit::{Larder, PATIENCE};
use serde_json::Value;

/// Runs a command with the admin listener of `larder`, and returns its output.
fn command(larder: &Larder, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .args(words)
        .args(["--admin", &larder.admin.to_string()])
        .env_remove("LARDER_TOKEN")
        .env_remove("COLUMNS");
    command.output().expect("it runs")
}

/// Returns the output of a command, which must succeed.
fn printed(larder: &Larder, words: &[&str]) -> String {
    let output = command(larder, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(larder: &Larder, words: &[&str]) -> Value {
    serde_json::from_str(&printed(larder, words)).expect("json")
}

/// A stream of server-sent events.
struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    /// Opens the stream at `target` of the admin listener. Later events are in the stream.
    fn of(larder: &Larder, target: &str) -> Self {
        let mut stream = TcpStream::connect(larder.admin).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        write!(stream, "GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut lines = BufReader::new(stream).lines();
        let head: Vec<_> =
            lines.by_ref().map(|line| line.expect("a line")).take_while(|line| !line.is_empty()).collect();
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert!(
            head.iter().any(|line| line.eq_ignore_ascii_case("content-type: text/event-stream")),
            "{head:?}"
        );
        Self(lines)
    }
}

/// Yields the data of each event.
impl Iterator for Events {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.0.next()?.expect("it goes on");
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).expect("json"));
            }
        }
    }
}
