//! A server that streams slowly: clients read before its end, and one fetch serves all clients.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use larder_testkit::program;

use super::curl::curl;
use super::reverse;
use super::servers::Server;

#[test]
fn a_slow_stream_reaches_every_client_as_it_comes() {
    let origin = Server::python();
    let (larder, proxy) = reverse(&origin.url());
    let begin = || {
        let mut command = program("curl", "curl");
        command.args([
            "--silent",
            "--show-error",
            "--no-buffer",
            "--max-time",
            "60",
            &format!("{proxy}/held"),
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("curl starts");
        let mut stream = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stream.read_line(&mut line).expect("a line");
        assert_eq!(line, "begin\n");
        (child, stream)
    };
    // All clients have read the beginning before the origin continues.
    let clients = [begin(), begin(), begin()];
    curl(&[], &format!("{}/go-on", origin.url()));
    let expected: String = (0..100).map(|number| format!("{number}\n").repeat(100)).collect();
    for (mut child, mut stream) in clients {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("text");
        assert!(rest == expected, "wrong bytes");
        assert!(child.wait().expect("curl ends").success());
    }
    larder.settle();
    assert!(curl(&[], &format!("{proxy}/held")).is_hit());
    assert_eq!(origin.log("/held").len(), 1);
}
