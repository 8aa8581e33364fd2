//! Limits for the sizes and the durations of requests: each limit has a separate status.

use larder_testkit::{Answer, Client, Larder, Origin};

const SIZES: &str = "[limits]\nhead = '1KiB'\nfields = 10\nuri = '100B'\nbody = '1KiB'";
const TIMES: &str = "[timeouts]\nhead = '300ms'\nstall = '300ms'\nidle = '2s'";

fn limited(limits: &str) -> (Origin, Larder) {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::with(&origin, limits);
    (origin, larder)
}

#[test]
fn requests_beyond_the_size_limits_are_refused_and_others_served() {
    let (origin, larder) = limited(SIZES);
    let long = |length: usize| "a".repeat(length);
    let fields = |count| format!("GET /{}", "\nA: b".repeat(count));
    for (request, status) in [
        (format!("GET /{}", long(99)), 200),
        (format!("GET /{}", long(100)), 414),
        (fields(9), 200),
        (fields(10), 431),
        (format!("GET /\nA: {}", long(900)), 200),
        (format!("GET /\nA: {}", long(1100)), 431),
        (format!("POST /\n\n{}", long(1024)), 200),
        (format!("POST /\n\n{}", long(1025)), 413),
    ] {
        let before = origin.count();
        let mut client = larder.client();
        let response = client.ask(&request);
        assert_eq!(response.status, status, "{request}");
        assert_eq!(origin.count() - before, usize::from(status == 200), "{request}");
        assert!(status == 200 || client.is_closed(), "{request}");
    }
}

#[test]
fn fields_of_responses_are_limited_by_their_bytes_only() {
    let origin = Origin::answering(|seen| {
        let fields = "A: b\r\n".repeat(seen.target[1..].parse().expect("a number"));
        Answer::raw(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\nContent-Length: 0\r\n{fields}\r\n"
        ))
    });
    let larder = Larder::before(&origin);
    for hit in [false, true] {
        let response = larder.get("/5000");
        let count = response.fields.iter().filter(|(name, _)| name == "A").count();
        assert_eq!((count, response.is_hit()), (5000, hit));
        larder.settle();
    }
    assert_eq!(larder.get("/11000").status, 502);
}

#[test]
fn a_head_without_end_is_refused_before_it_ends() {
    let (_origin, larder) = limited(SIZES);
    for (bytes, status) in
        [("a".repeat(2000), 414), (format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(2000)), 431)]
    {
        let mut client = larder.client();
        client.raw(bytes.as_bytes());
        assert_eq!(client.receive("GET").status, status);
    }
}

#[test]
fn chunked_content_is_counted_as_it_comes() {
    let (origin, larder) = limited(SIZES);
    let mut client = larder.client();
    client.send("POST /\nTransfer-Encoding: chunked");
    client.raw(format!("400\r\n{}\r\n1\r\nb\r\n", "a".repeat(1024)).as_bytes());
    assert_eq!(client.receive("POST").status, 413);
    assert!(client.is_closed());
    assert_eq!(origin.count(), 0);
    assert!(larder.stat("bytes_served") > 0, "a refusal has bytes, too");
}

#[test]
fn a_client_that_takes_too_long_gets_408() {
    let (origin, larder) = limited(TIMES);
    for begun in [
        "G",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
    ] {
        let mut client = larder.client();
        client.raw(begun.as_bytes());
        assert_eq!(client.receive("GET").status, 408, "{begun:?}");
        assert!(client.is_closed(), "{begun:?}");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let (_origin, larder) = limited(TIMES);
    let mut client = larder.client();
    assert!(client.is_closed());
    let mut client = larder.client();
    assert_eq!(client.ask("GET /").status, 200);
    assert!(client.is_closed());
}

#[test]
fn beyond_the_limit_connections_are_closed_on_arrival() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::with(&origin, "[limits]\nconnections = 1");
    let mut first = larder.client();
    assert_eq!(first.ask("GET /").text(), "body");
    assert!(Client::to(larder.address()).is_closed());
    assert_eq!(first.ask("GET /").text(), "body");
    drop(first);
    larder.wait_for("connections", 0);
    assert_eq!(larder.get("/").text(), "body");
}
