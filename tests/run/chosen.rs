//! The protocol to origins over https: HTTP/2 if the origin chooses it, and HTTP/1.1 where that fails or serves better. The
//! origin is Node's server.

use std::process::Stdio;

use larder_testkit::{Authority, Process, programs, stdout};

use crate::served::Team;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/chosen_origin.js");

/// A server with a listener for each kind of fault, and a team's proxy before it.
struct Chosen {
    ports: Vec<u16>,
    team: Team,
    _node: Process,
}

impl Chosen {
    fn new(faults: &[&str], config: &str) -> Self {
        let authority = Authority::new();
        let pair = authority.pair("origin", &["localhost"]);
        let mut node = programs::program("node", "nodejs");
        node.arg(SCRIPT).args([&pair.cert, &pair.key]).args(faults).stdout(Stdio::piped());
        let mut node = Process::start(&mut node).expect("node starts");
        let ports: Vec<u16> =
            node.said_until("")[0].split(' ').map(|port| port.parse().expect("a port")).collect();
        let team = Team::before(&ports, &authority.file(), &[], config);
        Self { ports, team, _node: node }
    }

    /// Returns the answers of a listener to `words`, which are those of curl but for the URLs: the protocol of each, and the
    /// number of connections in HTTP/2 at that time.
    fn answers(&self, listener: usize, words: &[&str], paths: &[&str]) -> Vec<String> {
        let url = |path: &&str| format!("https://localhost:{}{path}", self.ports[listener]);
        let urls: Vec<_> = paths.iter().map(url).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        stdout(&self.team.curl(&[words, &urls].concat())).lines().map(str::to_owned).collect()
    }
}

#[test]
fn concurrent_requests_share_one_connection_in_http2() {
    let chosen = Chosen::new(&["none"], "");
    // Each worker has its own connections: this client has one connection, and so one worker.
    let paths = ["/slow"; 20].to_vec();
    let answers = chosen.answers(0, &["--http2", "--parallel", "--parallel-max", "20"], &paths);
    assert_eq!(answers, vec!["2.0 1"; 20]);
    assert_eq!(chosen.answers(0, &["-H", "Range: bytes=0-"], &["/"])[0][..3], *"1.1", "large content");
    for scheme in ["NTLM", "Negotiate"] {
        let field = format!("Authorization: {scheme} x");
        let answers = chosen.answers(0, &["-H", &field], &["/"]);
        assert_eq!(answers[0][..3], *"1.1", "{scheme} authorises a connection");
    }
    let post = chosen.answers(0, &["-d", "content"], &["/"]);
    assert_eq!(post[0][..3], *"1.1");
}

#[test]
fn requests_that_http2_fails_are_answered_in_http1() {
    let faults = ["refuses", "demandsOld", "fails", "cuts", "misdirects"];
    let chosen = Chosen::new(&[&["refusesOnce", "leaves"], &faults[..]].concat(), "");
    assert_eq!(chosen.answers(0, &[], &["/", "/"]), ["2.0 1"; 2], "the request is sent again");
    assert_eq!(chosen.answers(1, &[], &["/", "/"]), ["2.0 1", "2.0 2"], "on another connection");
    for (listener, fault) in (2..).zip(faults) {
        for answer in chosen.answers(listener, &[], &["/", "/"]) {
            assert_eq!(answer[..3], *"1.1", "{fault}");
        }
    }
}

#[test]
fn without_the_key_origins_are_asked_in_http1() {
    let chosen = Chosen::new(&["none"], "http2 = false");
    assert_eq!(chosen.answers(0, &["--http2"], &["/"]), ["1.1 0"]);
}
