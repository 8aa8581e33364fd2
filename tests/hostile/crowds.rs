//! Many concurrent clients, slow clients and clients that send arbitrary bytes: the proxy continues, and other clients
//! do not wait.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use larder_testkit::{Answer, Client, Gate, Larder, Origin, eventually, raise_open_files};

const CACHED: &str = "200 OK\nCache-Control: max-age=100\n\nbody";

/// The limit of a hit's duration: far longer than a hit takes, to allow for a busy machine.
const PROMPT: Duration = Duration::from_secs(5);

fn serves_promptly(larder: &Larder) {
    let begun = Instant::now();
    assert_eq!(larder.client().ask("GET /").text(), "body");
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
}

#[test]
fn ten_thousand_idle_connections_cost_little_and_do_not_slow_others() {
    const WANTED: u64 = 10_000;
    let allowed = raise_open_files() / 2;
    let count = WANTED.min(allowed);
    if count < WANTED {
        println!("only {count} connections: the system allows no more open files");
    }
    let origin = Origin::always(CACHED);
    let larder = Larder::before(&origin);
    larder.get("/");
    let before = larder.resident();
    let mut idle: Vec<Client> = (0..count).map(|_| larder.client()).collect();
    larder.wait_for("connections", count);
    // Some connections have been used, which must not increase their memory.
    for client in idle.iter_mut().step_by(10) {
        assert!(client.ask("GET /").is_hit());
    }
    serves_promptly(&larder);
    let each = larder.resident().saturating_sub(before) / count;
    assert!(each < 8 << 10, "{each} bytes for each idle connection");
    assert!(idle.iter_mut().rev().step_by(500).all(|client| client.ask("GET /").is_hit()));
    drop(idle);
    larder.wait_for("connections", 0);
}

#[test]
fn with_few_open_files_all_promised_clients_are_served() {
    raise_open_files();
    for (files, promised, requests) in [(200, 51, 34), (1024, 389, 259)] {
        let (gate, origin) = Origin::gated(|_, held| {
            Answer::raw("").then_wait(held).then("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
        });
        let config = format!("[[site]]\norigin = '{}'", origin.url());
        let larder = Larder::start_behind(&["prlimit", &format!("--nofile={files}:{files}")], &config);
        larder.wait_for_log(&format!("they serve {promised} connections of clients, not 65536"));
        larder.wait_for_log(&format!("they serve {requests} requests to origins, not 1024"));
        let ask = |number| {
            let mut client = larder.client();
            client.send(&format!("GET /{number}"));
            client
        };
        let mut clients: Vec<_> = (0..promised).map(ask).collect();
        larder.wait_for("connections", promised);
        let _crowd: Vec<_> = (0..200).map(|_| larder.client()).collect();
        larder.wait_for("connections_refused", 200);
        larder.wait_for_log("more times within 1 s: connections are closed on arrival");
        gate.open();
        for client in &mut clients {
            assert_eq!(client.receive("GET").status, 200, "{files} files");
        }
    }
}

#[test]
fn too_few_open_files_are_an_error_that_names_the_least() {
    let origin = Origin::always(CACHED);
    let any = "127.0.0.1:0";
    let mut larder = Command::new("prlimit");
    larder.args([
        "--nofile=20:20",
        env!("CARGO_BIN_EXE_larder"),
        "serve",
        "--threads",
        "2",
        "--stats",
        "none",
    ]);
    larder.args(["--forward", any, "--listen", any, "--origin", &origin.url()]);
    let output = larder.output().expect("it ends");
    let told = String::from_utf8(output.stderr).expect("text");
    let before = "20 files may be open at once (ulimit -n), and this config needs at least ";
    let least: u32 = told.trim_end().rsplit_once(before).expect(&told).1.parse().expect("a number");
    assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
    let config = format!("[[site]]\norigin = '{}'", origin.url());
    let larder = Larder::start_behind(&["prlimit", &format!("--nofile={least}:{least}")], &config);
    let mut clients: Vec<_> = (0..8).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("GET /{number}")).status, 200);
    }
}

#[test]
fn slow_heads_get_408_and_do_not_delay_other_clients() {
    let origin = Origin::always(CACHED);
    let larder = Larder::with(&origin, "[timeouts]\nhead = '1s'");
    larder.get("/");
    let mut slow: Vec<Client> = (0..300).map(|_| larder.client()).collect();
    let mut sent = "GET / HTTP/1.1\r\nHost: site.test\r\nA: aaaaaaaaaaaaaaaaaaaaa".bytes();
    // Each byte is progress, but the limit applies to the whole head.
    eventually("300 refusals", || {
        let byte = [sent.next().unwrap_or(b'a')];
        for client in &mut slow {
            // A client that was already refused cannot send more.
            let _ = client.stream.write_all(&byte);
        }
        serves_promptly(&larder);
        std::thread::sleep(Duration::from_millis(50));
        (larder.stat("refused") == 300).then_some(())
    });
    drop(slow);
    larder.wait_for("connections", 0);
}

#[test]
fn clients_that_never_read_are_dropped_and_do_not_delay_others() {
    const LARGE: usize = 16 << 20;
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/" => Answer::with_body("200 OK\nCache-Control: max-age=100", b"body"),
        "/passed" => Answer::with_body("200 OK", &vec![b'a'; LARGE]),
        _ => Answer::with_body("200 OK\nCache-Control: max-age=100", &vec![b'a'; LARGE]),
    });
    let larder = Larder::with(&origin, "[timeouts]\nstall = '500ms'\n[memory]\nsize = '256MiB'");
    larder.get("/");
    larder.get("/stored");
    let mut unread: Vec<Client> = (0..15).map(|_| larder.client()).collect();
    for (number, client) in unread.iter_mut().enumerate() {
        client.send(["GET /stored", "GET /passed", "GET /filled"][number % 3]);
    }
    larder.wait_for("connections", 15);
    serves_promptly(&larder);
    larder.wait_for("connections", 0);
    larder.wait_for("in_flight", 0);
    larder.settle();
    // The response is complete for clients that read it, although other clients stopped reading.
    assert_eq!(larder.get("/stored").body.len(), LARGE);
}

#[test]
fn a_client_that_never_reads_does_not_block_an_identical_request() {
    const LARGE: usize = 16 << 20;
    let gate = Gate::default();
    let (held, sent) = (gate.clone(), vec![b'a'; LARGE]);
    let origin = Origin::answering(move |_| {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: {LARGE}\r\n\r\n");
        Answer::raw("").then_wait(&held).then(head).then(&sent[..])
    });
    let larder = Larder::with(&origin, "[memory]\nmax_object = '1MiB'");
    let [mut unread, mut other] = [larder.client(), larder.client()];
    unread.send("GET /");
    origin.wait_for(1);
    other.send("GET /");
    larder.wait_for("connections", 2);
    gate.open();
    assert_eq!(other.receive("GET").body.len(), LARGE);
    // The content is not shared, at whatever time the second request arrives.
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_client_that_reads_too_slowly_is_dropped() {
    const LARGE: usize = 32 << 20;
    let answer = |_: &_| Answer::with_body("200 OK\nCache-Control: max-age=100", &vec![b'a'; LARGE]);
    let origin = Origin::answering(answer);
    let tables = "[timeouts]\nstall = '1s'\nmin_rate = 10000000\n[memory]\nsize = '256MiB'";
    let larder = Larder::with(&origin, tables);
    assert_eq!(larder.get("/").body.len(), LARGE);
    let mut slow = larder.client();
    slow.send("GET /");
    let (mut piece, mut taken) = (vec![0; 64 << 10], 0);
    while let Ok(count @ 1..) = slow.stream.read(&mut piece) {
        taken += count;
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(taken < LARGE, "at 6.4 MB a second it got everything");
    larder.wait_for("connections", 0);
}

#[test]
fn a_flood_of_pipelined_requests_is_answered_in_order() {
    const COUNT: usize = 20_000;
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target));
    let larder = Larder::before(&origin);
    for number in 0..10 {
        larder.get(&format!("/{number}"));
    }
    let mut client = larder.client();
    let mut writing = client.stream.try_clone().expect("a descriptor");
    let flood = std::thread::spawn(move || {
        for number in 0..COUNT {
            let request = format!("GET /{} HTTP/1.1\r\nHost: site.test\r\n\r\n", number % 10);
            writing.write_all(request.as_bytes()).expect("the proxy reads");
        }
    });
    for number in 0..COUNT {
        assert_eq!(client.receive("GET").text(), format!("/{}", number % 10));
    }
    flood.join().expect("all was sent");
    assert_eq!(origin.count(), 10);
}

/// A small pseudorandom generator (xorshift64*), so that a failure is reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// Returns `bytes` with some bytes changed, duplicated, removed or inserted.
    fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes.insert(at, b"\r\n \0:;,\x7f\xff"[self.below(9)]),
                2 => drop(bytes.drain(at..(at + 1 + self.below(8)).min(bytes.len() - 1).max(at))),
                _ => {
                    let again = bytes[at..(at + 1 + self.below(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        bytes
    }
}

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,3-\r\nIf-None-Match: \"1\", W/\"2\"\r\n\
     Accept-Language: de;q=0.5, en\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\
     \r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\
     Connection: keep-alive, x\r\n\r\nabc",
    "GET http://a/b?c HTTP/1.0\r\nCache-Control: max-age=1, no-cache=\"x\"\r\n\
     Connection: upgrade\r\nUpgrade: x\r\n\r\n",
];

#[test]
fn random_bytes_from_clients_never_break_it() {
    let origin = Origin::always(CACHED);
    let larder = Larder::before(&origin);
    let mut random = Random(0x1a4d_e401);
    for round in 0..3000 {
        let sent = match random.below(5) {
            0 => random.bytes(2000),
            kind => random.mutated(REQUESTS[kind - 1].as_bytes()),
        };
        let mut stream = TcpStream::connect(larder.address()).expect("the proxy accepts");
        // The proxy may have refused the beginning and closed the connection before it received all bytes.
        let _ = stream.write_all(&sent).and_then(|()| stream.shutdown(Shutdown::Write));
        stream.set_read_timeout(Some(larder_testkit::PATIENCE)).expect("a limit");
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        let waited = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        let http = answer.is_empty() || answer.starts_with(b"HTTP/1.1 ");
        assert!(http && !waited, "round {round}: {:?}", String::from_utf8_lossy(&sent));
    }
    serves_promptly(&larder);
    larder.wait_for("connections", 0);
    larder.wait_for("in_flight", 0);
}

const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=9, no-cache=\"x\"\r\n\
     Vary: A, b\r\nETag: \"1\"\r\n\r\nbody",
    "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 206 Part\r\nContent-Range: bytes 0-3/9\r\n\
     Content-Length: 4\r\nETag: \"1\"\r\n\r\nbody",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nAge: 7\r\n\
     Expires: Thu, 31 Dec 2099 23:59:59 GMT\r\n\r\n4\r\nbody\r\n0\r\nA: b\r\n\r\n",
    "HTTP/1.0 304 Not Modified\r\nETag: \"1\"\r\nDate: Thu, 31 Dec 2015 23:59:59 GMT\r\n\
     CDN-Cache-Control: max-age=9\r\n\r\n",
];

#[test]
fn random_bytes_from_origins_never_break_it() {
    let origin = Origin::speaking(|peer| {
        while let Some(seen) = peer.request() {
            let mut random = Random(0xbad_0419 + seen.number as u64);
            let answer = match random.below(5) {
                0 => random.bytes(2000),
                kind => random.mutated(RESPONSES[kind - 1].as_bytes()),
            };
            match seen.target.as_str() {
                "/" => peer.answer(CACHED),
                _ => return peer.send(&answer),
            }
        }
    });
    let larder = Larder::before(&origin);
    let fields = ["", "\nRange: bytes=1-2", "\nIf-None-Match: \"1\"", "\nA: b"];
    for round in 0..2000 {
        let mut client = larder.client();
        client.send(&format!("GET /{}{}\nConnection: close", 1 + round % 7, fields[round % 4]));
        let answer = client.rest();
        let http = answer.as_ref().is_none_or(|answer| answer.starts_with(b"HTTP/1.1 "));
        assert!(http, "round {round}: {answer:?}");
    }
    serves_promptly(&larder);
    larder.wait_for("in_flight", 0);
    larder.settle();
}
