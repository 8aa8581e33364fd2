//! `larder fetch`: through the real proxy, and from simple servers for RPC.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use larder_rpc::line::Form;
use larder_rpc::{Call, Failure, Limits, ReplyEncoder, ServerProtocol, Statistics, line, onc, thrift};
use larder_testkit::{Answer, Larder, Origin, listen};
use serde_json::{Value, json};

const OPEN: &str = "[forward]\nallow_private = true";

/// The options for each RPC protocol.
const WAYS: &[&[&str]] = &[
    &["--via", "thrift"],
    &["--via", "thrift", "--transport", "buffered", "--protocol", "compact"],
    &["--via", "onc"],
    &["--via", "line"],
    &["--via", "line", "--form", "bare"],
];

/// Returns a page of binary data that is longer than one read.
fn binary() -> Vec<u8> {
    (0..300_000_u32).flat_map(|number| [0, 10, 13, 255, number as u8, (number >> 8) as u8]).collect()
}

/// A server with `/binary`, `/html` and `/text`, that closes the connection at the first request for `/broken`.
struct Server {
    address: String,
    asked: Arc<AtomicU64>,
}

impl Server {
    /// Starts a server for the protocol of `way`.
    fn by(way: &[&str]) -> Self {
        match way {
            [_, "thrift", ..] => Self::start(|| thrift::Server::new(Limits::default())),
            [_, "onc", ..] => Self::start(|| onc::Server::new(Limits::default())),
            [_, "line"] => Self::start(|| line::Server::new(Form::Framed, Limits::default())),
            _ => Self::start(|| line::Server::new(Form::Bare, Limits::default())),
        }
    }

    fn start<S: ServerProtocol>(codec: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let (listener, address) = listen();
        let asked = Arc::new(AtomicU64::new(0));
        let (codec, counter) = (Arc::new(codec), Arc::clone(&asked));
        larder_testkit::serve(listener, move |stream| serve(stream, codec(), &counter));
        Self { address: address.to_string(), asked }
    }

    /// Runs `larder fetch` on this server.
    fn fetch(&self, way: &[&str], words: &[&str]) -> Output {
        larder(&[way, &["--server", &self.address], words].concat())
    }
}

/// Answers on `stream` until it ends, or until a request requires a closed connection.
fn serve(mut stream: TcpStream, mut codec: impl ServerProtocol, asked: &AtomicU64) {
    let (mut buffer, mut bytes) = (BytesMut::new(), [0; 4096]);
    loop {
        while let Some(call) = codec.decode(&mut buffer).expect("a call") {
            let reply = &call.reply;
            let pieces = match call.call {
                Call::Fetch { url } => {
                    let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
                    match page(&url) {
                        _ if url.ends_with("/broken") && is_first => return,
                        Some(page) => reply.page(page.len()).expect("room").around(page),
                        None => {
                            let why = "no\nsuch page".to_owned();
                            vec![reply.failure(&Failure { what: url, why, status: 404 })]
                        }
                    }
                }
                Call::Statistics => vec![reply.statistics(&statistics(asked.load(Ordering::SeqCst)))],
                Call::Reset => {
                    asked.store(0, Ordering::SeqCst);
                    vec![reply.done()]
                }
                Call::Ping => vec![reply.done()],
            };
            for piece in pieces {
                stream.write_all(&piece).expect("the client reads");
            }
            if reply.closes() {
                return;
            }
        }
        match stream.read(&mut bytes) {
            Ok(read @ 1..) => buffer.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
}

fn page(url: &str) -> Option<Bytes> {
    match url.rsplit('/').next()? {
        "binary" => Some(binary().into()),
        "html" => Some("<h1>Pears</h1><p>are <a href='/'>green</a>".into()),
        "text" | "broken" => Some(Bytes::copy_from_slice(url.as_bytes())),
        _ => None,
    }
}

fn statistics(requests: u64) -> Statistics {
    Statistics {
        requests,
        hits: requests / 2,
        misses: requests - requests / 2,
        hit_ratio: 0.5,
        average_micros: 1500.0,
        capacity: 1 << 30,
        capacity_unit: "bytes".to_owned(),
        policy: "sieve".to_owned(),
        ..Statistics::default()
    }
}

fn larder(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder")).arg("fetch").args(words).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Returns the errors and the exit code of a failed command.
fn failure(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("json")
}

#[test]
fn a_page_comes_byte_for_byte_by_every_rpc() {
    for way in WAYS {
        let output = Server::by(way).fetch(way, &["http://a.test/binary"]);
        assert!(output.status.success(), "{way:?}: {:?}", failure(&output));
        assert!(output.stdout == binary(), "{way:?}: {} bytes", output.stdout.len());
    }
}

#[test]
fn a_failure_is_one_line_and_1() {
    let table = ["404 no such page", "404 no such page", "system error", "404 no such page"];
    for (way, why) in WAYS.iter().zip(table) {
        let (said, code) = failure(&Server::by(way).fetch(way, &["http://a/none", "http://a/text"]));
        assert_eq!(code, Some(1), "{way:?}");
        assert!(said.starts_with("larder: http://a/none: ") && said.lines().count() == 1, "{way:?}: {said}");
        assert!(said.to_lowercase().contains(why), "{way:?}: {said}");
    }
}

#[test]
fn a_connection_that_breaks_is_opened_again_once() {
    for way in &WAYS[..4] {
        let server = Server::by(way);
        assert_eq!(stdout(&server.fetch(way, &["http://a/broken"])), "http://a/broken", "{way:?}");
        assert_eq!(server.asked.load(Ordering::SeqCst), 2, "{way:?}");
    }
}

#[test]
fn a_server_that_is_not_there_or_says_nothing_is_named() {
    // Port 1 is reserved, and no process of this machine listens there.
    for way in WAYS {
        let refused = larder(&[*way, &["--server", "127.0.0.1:1", "http://a/"]].concat());
        let expected = "larder: http://a/: cannot connect to 127.0.0.1:1: connection refused\n";
        assert_eq!(failure(&refused), (expected.to_owned(), Some(1)));
    }
    let refused = larder(&["--server", "127.0.0.1:1", "http://a/"]);
    let expected = "larder: http://a/: cannot connect through 127.0.0.1:1: connection refused\n";
    assert_eq!(failure(&refused), (expected.to_owned(), Some(1)));

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for way in ["http", "thrift", "onc", "line"] {
        let output = larder(&["--via", way, "--server", &address, "--timeout", "50ms", "http://a/"]);
        let expected = "larder: http://a/: no answer in 50ms\n";
        assert_eq!(failure(&output), (expected.to_owned(), Some(1)), "{way}");
    }
}

#[test]
fn pages_are_saved_under_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (pages, way) = (folder.path().join("pages"), WAYS[0]);
    let save = pages.display().to_string();
    let long = format!("http://a/{}/text", "b".repeat(300));
    let urls = [
        "http://a/text",
        "http://a_text",
        "http://a/../../text",
        "https://a/text",
        "http://a/x?/text",
        &long,
    ];
    let server = Server::by(way);
    let failed = server.fetch(way, &[&urls[..], &["--save", &save, "--connections", "3"]].concat());
    assert_eq!(failure(&failed).0, "larder: http://a_text: 404 no such page\n");
    let mut found = Vec::new();
    let mut folders = vec![pages];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(fs::read_to_string(entry.path()).unwrap()),
            }
        }
    }
    found.sort_unstable();
    let mut saved: Vec<_> = urls.into_iter().filter(|url| *url != "http://a_text").collect();
    saved.sort_unstable();
    assert_eq!(found, saved);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a page left its folder");

    let file = folder.path().join("page").display().to_string();
    assert_eq!(stdout(&server.fetch(way, &["http://a/binary", "--output", &file])), "");
    assert!(fs::read(&file).unwrap() == binary());
}

#[test]
fn html_can_be_read_on_a_terminal() {
    let way = WAYS[3];
    let text = stdout(&Server::by(way).fetch(way, &["http://a/html", "--text"]));
    assert_eq!(text, "# Pears\n\nare [green][1]\n\n[1]: /\n");
}

#[test]
fn a_workload_shows_what_server_and_client_saw() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let workload =
        "# larder workload 1\n0 GET /text 1 1\n9 POST /text 1 1\n10 GET /none 1 1\n20 GET /text 1 1\n";
    fs::write(file.path(), workload).unwrap();
    let path = file.path().display().to_string();
    for way in [WAYS[0], WAYS[1], WAYS[3], WAYS[4]] {
        let server = Server::by(way);
        let replay = [
            "--workload",
            &path,
            "--origin",
            "http://a.test",
            "--repeat",
            "2",
            "--reset",
            "--connections",
            "2",
        ];
        let output = server.fetch(way, &[&replay[..], &["--json"]].concat());
        let numbers: Value = serde_json::from_slice(&output.stdout).expect("json");
        assert_eq!(numbers["server"]["requests"], 6, "{way:?}: {numbers}");
        assert_eq!(numbers["server"]["policy"], "sieve");
        assert_eq!(numbers["client"]["requests"], 6);
        assert!(numbers["client"]["p99_micros"].as_u64() > Some(0), "{numbers}");
        // A missing page is a valid answer with a status; in the bare form of the line protocol it is an empty page.
        let statuses = if way.contains(&"bare") { json!({"200": 6}) } else { json!({"200": 4, "404": 2}) };
        assert_eq!((&numbers["client"]["errors"], &numbers["client"]["statuses"]), (&json!(0), &statuses));
        let (said, code) = failure(&output);
        assert_eq!(code, Some(0), "{way:?}: {said}");
        assert!(said.contains("left out 1 with a method other than GET"), "{said}");

        let table = String::from_utf8(server.fetch(way, &replay).stdout).unwrap();
        let starts = |line: &str| table.lines().any(|found| found.starts_with(line));
        for line in
            ["server (", "  requests        6", "  hit ratio       50.00%", "  average time    1.50 ms"]
        {
            assert!(starts(line), "{line} in\n{table}");
        }
        for line in ["  capacity        1.00 GiB", "client", "  requests/s      ", "  99% within      "] {
            assert!(starts(line), "{line} in\n{table}");
        }
    }
}

/// A request at an origin: method, target, content, its type, and a field.
type Arrived = (String, String, String, Option<String>, Option<String>);

#[test]
fn a_workload_is_sent_with_its_methods_fields_and_bodies_through_http() {
    let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
    let notes = Arc::clone(&arrived);
    let origin = Origin::answering(move |seen| {
        let field = |name| seen.field(name).map(str::to_owned);
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let one = (seen.method.clone(), seen.target.clone(), body, field("content-type"), field("x-key"));
        notes.lock().unwrap().push(one);
        match (seen.method.as_str(), seen.target.as_str()) {
            (_, "/broken") => Answer::with_body("503 Service Unavailable", b"later"),
            ("DELETE", _) => Answer::raw("HTTP/1.1 204 No Content\r\n\r\n"),
            ("GET", "/gone") => Answer::with_body("404 Not Found", b"no"),
            ("GET", _) => Answer::with_body("200 OK\nCache-Control: max-age=100", b"page"),
            _ => {
                Answer::raw("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            }
        }
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    let workload = "# larder workload 1\n0 GET /a 1 1\n1 POST /a 1 1 {\"name\":\"b  c\"}\n+X-Key: 7\n2 PUT /a/1 1 1 {}\n\
        3 PATCH /a/1 1 1 {}\n+Content-Type: text/plain\n4 DELETE /a/1 1 1\n5 GET /gone 1 1\n6 GET /b 1 1\n\
        7 GET /broken 1 1\n";
    fs::write(file.path(), workload).unwrap();
    let proxy = Larder::before(&origin);
    let server = proxy.address().to_string();
    proxy.ask(&format!("GET /b\nHost: {server}"));
    let path = file.path().display().to_string();
    let words = ["--workload", &path, "--origin", &format!("http://{server}"), "--server", &server];
    let rest = ["--admin", &proxy.admin.to_string(), "--header", "X-All: 1", "--json"];
    let output = larder(&[&words[..], &rest].concat());
    let (said, code) = failure(&output);
    let broken = format!("larder: http://{server}/broken: 503 Service Unavailable\n");
    assert_eq!((said, code), (broken, Some(1)));
    let numbers: Value = serde_json::from_slice(&output.stdout).expect("json");
    let statuses = json!({"200": 2, "201": 3, "204": 1, "404": 1, "503": 1});
    assert_eq!((&numbers["client"]["statuses"], &numbers["client"]["requests"]), (&statuses, &json!(8)));
    assert_eq!((&numbers["client"]["hits"], &numbers["server"]["hits"]), (&json!(1), &json!(1)));
    let (json, none) = (Some("application/json".to_owned()), None::<String>);
    let row = |method: &str, target: &str, body: &str, of: &Option<String>, key: &Option<String>| {
        (method.to_owned(), target.to_owned(), body.to_owned(), of.clone(), key.clone())
    };
    let expected = [
        row("GET", "/b", "", &none, &none),
        row("GET", "/a", "", &none, &none),
        row("POST", "/a", "{\"name\":\"b  c\"}", &json, &Some("7".to_owned())),
        row("PUT", "/a/1", "{}", &json, &none),
        row("PATCH", "/a/1", "{}", &Some("text/plain".to_owned()), &none),
        row("DELETE", "/a/1", "", &none, &none),
        row("GET", "/gone", "", &none, &none),
        row("GET", "/broken", "", &none, &none),
    ];
    assert_eq!(*arrived.lock().unwrap(), expected);
    assert_eq!(origin.last().field("x-all"), Some("1"));
}

#[test]
fn at_a_rate_the_time_counts_from_when_a_request_was_due() {
    // With one connection, one request can be sent at a time, which takes 10 ms, and all are due at once.
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Answer::with_body("200 OK\nCache-Control: no-store", b"page")
    });
    let larder = Larder::start(OPEN);
    let (server, page) = (larder.forward.to_string(), origin.url());
    let words = ["--server", &server, "--admin", "off", "--repeat", "20", "--connections", "1", &page];
    let closed = json(&self::larder(&[&words[..], &["--json"]].concat()));
    let open = self::larder(&[&words[..], &["--rate", "100000", "--json"]].concat());
    let open = &json(&open)["client"];
    let micros = |name: &str| open[name].as_u64().expect("a time");
    assert!(closed["client"]["rate"].is_null() && closed["client"]["service_p50_micros"].is_null());
    assert_eq!((&open["requests"], &open["rate"]), (&json!(20), &json!(100_000.0)));
    assert!(micros("service_p50_micros") >= 10_000, "{open}");
    // The last request waits for all others.
    assert!(micros("max_micros") >= 190_000 && micros("p50_micros") >= 90_000, "{open}");
    let buckets = open["histogram"].as_array().expect("buckets");
    assert_eq!(buckets.iter().map(|bucket| bucket[1].as_u64().expect("a count")).sum::<u64>(), 20);

    let shown = stdout(&self::larder(&[&words[..], &["--rate", "100000"]].concat()));
    for line in [
        "  requests due/s  100000.0",
        "  50% once sent   ",
        "  statuses        200: 20",
        "latency of 20 answers",
    ] {
        assert!(shown.lines().any(|found| found.starts_with(line)), "{line} in\n{shown}");
    }
}

#[test]
fn statistics_can_be_asked_for_alone() {
    let way = WAYS[0];
    let server = Server::by(way);
    server.fetch(way, &["http://a/text"]);
    let requests = |words: &[&str]| json(&server.fetch(way, words))["server"]["requests"].as_u64();
    assert_eq!(requests(&["--stats", "--json"]), Some(1));
    assert_eq!(requests(&["--stats", "--json", "--reset"]), Some(0));
}

#[test]
fn a_proxy_is_asked_in_the_absolute_form() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/page" => Answer::with_body("200 OK\nCache-Control: max-age=100", &binary()),
        "/moved" => Answer::with_body("302 Found\nLocation: /page", b""),
        _ => Answer::with_body("404 Not Found", b""),
    });
    let larder = Larder::start(OPEN);
    let (server, admin) = (larder.forward.to_string(), larder.admin.to_string());
    let fetch = |path: &str, words: &[&str]| {
        let url = origin.url() + path;
        self::larder(&[&["--server", &server, "--admin", &admin, &url], words].concat())
    };
    for path in ["/page", "/moved"] {
        let output = fetch(path, &[]);
        assert!(output.stdout == binary(), "{path}: {:?}", failure(&output));
        larder.settle();
    }
    let expected = format!("larder: {}/none: 404 Not Found\n", origin.url());
    assert_eq!(failure(&fetch("/none", &[])), (expected, Some(1)));

    let before = larder.stat("hits");
    let numbers = json(&fetch("/page", &["--repeat", "20", "--connections", "2", "--json"]));
    assert_eq!(numbers["client"]["requests"], 20);
    assert_eq!(numbers["client"]["bytes"], 20 * binary().len());
    assert_eq!(numbers["server"]["hits"], before + 20);
    assert_eq!(numbers["server"]["policy"], "adaptive");
    let page = origin.url() + "/page";
    let without = json(&self::larder(&["--server", &server, "--admin", "off", "--json", &page]));
    assert_eq!(without["server"], Value::Null);
}

#[test]
fn a_proxy_is_asked_in_http_2() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let larder = Larder::start(OPEN);
    let (server, admin) = (larder.forward.to_string(), larder.admin.to_string());
    let url = origin.url() + "/page";
    let fetch = |words: &[&str]| {
        self::larder(&[&["--http2", "--server", &server, "--admin", &admin, &url], words].concat())
    };
    assert_eq!(stdout(&fetch(&[])), "page");
    assert_eq!(json(&fetch(&["--repeat", "20", "--json"]))["client"]["requests"], 20);
    assert_eq!(larder.stats()["http_versions"]["2"], 21);
    assert_eq!(origin.count(), 1);
    let (told, code) = failure(&self::larder(&["--http2", "--via", "line", &url]));
    assert_eq!(
        (told.as_str(), code),
        ("larder: --http2 goes with --via http only, not with --via line\n", Some(2))
    );
}

#[test]
fn a_refused_tunnel_is_reported_with_the_proxys_reason() {
    let origin = Origin::always("200 OK\n\npage");
    let proxy = Larder::before(&origin);
    let server = proxy.forward.to_string();
    for (url, why) in [
        (
            "https://127.0.0.1:444/",
            "127.0.0.1:444: 403 tunnels to port 444 are not allowed; connect_ports: 443; ",
        ),
        ("https://127.0.0.1/", "127.0.0.1:443: 403 the origin's address is not allowed; allow_private, "),
    ] {
        let (told, code) = failure(&larder(&[url, "--server", &server]));
        assert!(told.contains(&format!("{server} refuses a tunnel to {why}")), "{told}");
        assert_eq!(code, Some(1));
    }
}

#[test]
fn fetch_prints_the_proxys_error_message() {
    let larder = Larder::start(OPEN);
    let output = self::larder(&["--server", &larder.forward.to_string(), "http://127.0.0.1:65535/"]);
    let (said, code) = failure(&output);
    assert!(said.starts_with("larder: http://127.0.0.1:65535/: 502 no connection"), "{said}");
    assert_eq!((said.lines().count(), code), (1, Some(1)));
}
