//! Fetches that end early: a client or the origin disconnects, a purge arrives, or memory is full.

use std::sync::atomic::{AtomicUsize, Ordering};

use larder_testkit::{Answer, Client, Gate, Larder, Origin};

/// Starts an origin whose response, with this head, stops after five of ten digits until the gate opens.
fn halting(head: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::answering(move |seen| match seen.method.as_str() {
        "GET" => Answer::raw(head).then("01234").then_wait(&gate).then("56789"),
        _ => Answer::with_body("200 OK", b""),
    })
}

/// Returns a client that has received the head of its answer.
fn reading(larder: &Larder) -> Client {
    let mut client = larder.client();
    client.send("GET /");
    client.head();
    client
}

const TEN: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 10\r\n\r\n";

#[test]
fn the_first_client_may_leave_while_others_read() {
    let gate = Gate::default();
    let origin = halting(TEN, &gate);
    let larder = Larder::before(&origin);
    let [mut leader, mut follower] = [larder.client(), larder.client()];
    for client in [&mut leader, &mut follower] {
        client.send("GET /");
        client.head();
        assert_eq!(client.exactly(5), b"01234");
    }
    drop(leader);
    gate.open();
    assert_eq!(follower.exactly(5), b"56789");
    larder.settle();
    assert!(larder.get("/").is_hit());
    assert_eq!(origin.count(), 1);
}

#[test]
fn section_3_3_a_truncated_body_is_never_a_complete_body() {
    let counted = "Content-Length: 10\r\n\r\n01234";
    let chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n";
    for (framing, version) in [(counted, "1.1"), (chunked, "1.1"), (counted, "1.0"), (chunked, "1.0")] {
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n{framing}");
        let (gate, origin) = Origin::gated(move |_, held| Answer::raw(&*head).then_wait(held).then_close());
        let larder = Larder::before(&origin);
        let mut clients = [larder.client(), larder.client()];
        for client in &mut clients {
            client.send(&format!("GET / HTTP/{version}\nHost: site.test"));
            client.head();
        }
        gate.open();
        for client in &mut clients {
            // With a length or chunks, the client recognizes an orderly close as early; without them, the connection
            // must be reset.
            let early = match client.rest() {
                None => true,
                Some(rest) if framing == counted => rest.len() < 10,
                Some(rest) => version == "1.1" && !rest.ends_with(b"0\r\n\r\n"),
            };
            assert!(early, "{framing:?} {version}");
        }
        larder.settle();
        assert_eq!((larder.stat("objects"), origin.count()), (0, 1));
        larder.client().send("GET /");
        origin.wait_for(2);
    }
}

#[test]
fn a_slow_reader_gets_all_that_has_come_of_a_truncated_response() {
    let content = "x".repeat(400_000);
    let counted = format!("Content-Length: 500000\r\n\r\n{content}");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{content}\r\n", content.len());
    for (framing, stored) in
        [(&counted, "max-age=9"), (&chunked, "max-age=9"), (&counted, "no-store"), (&chunked, "no-store")]
    {
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: {stored}\r\n{framing}");
        let origin = Origin::answering(move |_| Answer::raw(&*head).then_close());
        let larder = Larder::before(&origin);
        let mut client = larder.client();
        client.send("GET /");
        larder.wait_for("requests", 1);
        client.head();
        let rest = client.rest().expect("an orderly end");
        let came = rest.iter().filter(|byte| **byte == b'x').count();
        assert_eq!((came, rest.ends_with(b"0\r\n\r\n")), (content.len(), false));
    }
}

#[test]
fn section_4_4_an_unsafe_request_wins_over_a_fetch_under_way() {
    let gate = Gate::default();
    let origin = halting(TEN, &gate);
    let larder = Larder::before(&origin);
    let mut early = reading(&larder);
    assert_eq!(larder.client().ask("POST /\n\nnew").status, 200);
    // A request after the POST must get a response from after the POST.
    let mut late = larder.client();
    late.send("GET /");
    origin.wait_for(3);
    gate.open();
    assert_eq!((early.exactly(10), late.receive("GET").text()), (b"0123456789".to_vec(), "0123456789"));
}

#[test]
fn section_4_4_a_response_requested_before_a_delete_is_not_stored() {
    let gate = Gate::default();
    let origin = halting(TEN, &gate);
    let larder = Larder::before(&origin);
    let mut early = reading(&larder);
    larder.client().ask("DELETE /");
    gate.open();
    assert_eq!(early.exactly(10), b"0123456789");
    larder.settle();
    assert_eq!(larder.ask("GET /\nCache-Control: only-if-cached").status, 504);
}

#[test]
fn section_4_4_updates_by_head_do_not_survive_an_unsafe_request() {
    for between in ["OPTIONS /", "POST /"] {
        let (gate, origin) = Origin::gated(|seen, held| match seen.method.as_str() {
            "HEAD" => Answer::default().then_wait(held).then(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\n",
            ),
            "GET" => Answer::with_body("200 OK\nCache-Control: max-age=100\nAge: 100\nETag: \"1\"", b"body"),
            _ => Answer::with_body("200 OK", b""),
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        let mut head = larder.client();
        head.send("HEAD /");
        origin.wait_for(2);
        assert_eq!(larder.client().ask(between).status, 200);
        gate.open();
        assert_eq!(head.receive("HEAD").status, 200);
        larder.settle();
        let stored = larder.ask("GET /\nCache-Control: only-if-cached").is_hit();
        assert_eq!(stored, between == "OPTIONS /", "{between}");
    }
}

#[test]
fn a_body_that_no_memory_file_takes_is_streamed_and_not_stored() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let origin = Origin::answering(move |seen| match seen.target.as_str() {
        "/small" => Answer::with_body("200 OK\nCache-Control: max-age=100", b"small"),
        _ => Answer::with_body("200 OK\nCache-Control: max-age=100", &sent),
    });
    let limit = ["prlimit", "--fsize=1000000"];
    let larder = Larder::start_behind(&limit, &format!("[[site]]\norigin = '{}'", origin.url()));
    assert!(!larder.get("/small").is_hit());
    // These responses exceed the capacity of all memory files.
    for n in 0..12 {
        let response = larder.get(&format!("/{n}"));
        assert!(response.body == body && !response.is_hit(), "{n}");
        let part = larder.ask(&format!("GET /{n}\nRange: bytes=2000000-2000009"));
        assert!(part.body == body[2_000_000..2_000_010], "{n}");
    }
    assert!(larder.get("/small").is_hit());
    larder.settle();
    assert!(larder.stat("memory_file_refusals") >= 12);
    assert_eq!(larder.stat("objects"), 1);
    larder.wait_for_log("not kept in memory");
}

#[test]
fn a_body_larger_than_max_object_is_streamed_and_not_stored() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let origin = Origin::answering(move |seen| match seen.target.as_str() {
        "/counted" => Answer::with_body("200 OK\nCache-Control: max-age=100", &sent),
        _ => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n";
            Answer::raw(format!("{head}{:x}\r\n", sent.len())).then(&sent[..]).then("\r\n0\r\n\r\n")
        }
    });
    let larder = Larder::with(&origin, "[memory]\nmax_object = '100KiB'");
    for path in ["/counted", "/chunked"] {
        for _ in 0..2 {
            let response = larder.get(path);
            assert!(response.body == body && !response.is_hit(), "{path}");
        }
    }
    assert_eq!((larder.stat("objects"), origin.count()), (0, 4));
}

#[test]
fn a_full_memory_makes_room_and_never_fails_a_request() {
    let origin = Origin::answering(|seen| {
        Answer::with_body("200 OK\nCache-Control: max-age=100", seen.target.repeat(20_000).as_bytes())
    });
    let larder = Larder::with(&origin, "[memory]\nsize = '1MiB'");
    for number in 0..40 {
        let path = format!("/{number}");
        assert!(larder.get(&path).text() == path.repeat(20_000), "{path}");
    }
    assert!(larder.stat("bytes_stored") <= 1 << 20);
    assert!(larder.stat("evictions") > 0);
    assert!(larder.get("/39").is_hit());
}

#[test]
fn an_origin_that_stops_in_the_middle_is_given_up() {
    let gate = Gate::default();
    let origin = halting(TEN, &gate);
    let larder = Larder::with(&origin, "[timeouts]\norigin_idle = '200ms'");
    let mut client = larder.client();
    client.send("GET /");
    client.head();
    assert!(client.rest().is_none_or(|rest| rest == b"01234"));
    larder.settle();
    assert_eq!((larder.stat("objects"), larder.stat("in_flight")), (0, 0));
    gate.open();
}

/// The first response is stored, the second ends incomplete after the purge, and the third is an error.
#[test]
fn a_purged_response_is_not_served_stale_on_later_errors() {
    const STALE: &str =
        "200 OK\nCache-Control: max-age=10, stale-if-error=100\nAge: 50\nCache-Tag: t\nETag: \"1\"";
    let gates = [Gate::default(), Gate::default()];
    let [first, second] = gates.clone();
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::with_body(STALE, b"old"),
        1 => Answer::raw("").then_wait(&first).then("no answer\r\n\r\n"),
        _ => Answer::raw("").then_wait(&second).then("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
    });
    let larder = Larder::with_site(&[&origin], "retries = 0");
    larder.get("/");
    let [mut before, mut next, mut after] = [larder.client(), larder.client(), larder.client()];
    before.send("GET /");
    origin.wait_for(2);
    next.send("GET /");
    assert_eq!(larder.ask_admin("POST /purge?tag=t&hard\nLarder-Admin: 1").status, 200);
    gates[0].open();
    before.receive("GET");
    origin.wait_for(3);
    after.send("GET /");
    gates[1].open();
    assert_eq!([next.receive("GET").status, after.receive("GET").status], [503, 503]);
}
