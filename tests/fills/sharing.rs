//! RFC 9111 section 4: concurrent requests share one fetch, and no client gets a private response of another client.

use larder_testkit::{Answer, Client, Gate, Larder, Origin, raise_open_files, site};

const CACHED: &str = "200 OK\nCache-Control: max-age=100";

#[test]
fn a_thousand_followers_of_one_slow_fetch_get_every_byte() {
    raise_open_files();
    let gate = Gate::default();
    let body: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let (held, sent) = (gate.clone(), body.clone());
    let origin = Origin::answering(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: {}\r\n\r\n",
            sent.len()
        );
        Answer::raw(head).then(&sent[..100]).then_wait(&held).then(&sent[100..])
    });
    let larder = Larder::before(&origin);
    let mut clients: Vec<Client> = (0..1000).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET /");
    }
    // A client that has the beginning of the content before the origin has sent the end reads as the content arrives.
    for client in &mut clients {
        assert_eq!(client.head().field("content-length"), Some("100000"));
        assert!(client.exactly(100) == body[..100]);
    }
    gate.open();
    for client in &mut clients {
        assert!(client.exactly(body.len() - 100) == body[100..]);
    }
    assert_eq!(origin.count(), 1);
    larder.settle();
    assert!(larder.get("/").is_hit());
}

/// Asserts that the second of two requests shares the fetch of the first, which ends behind `gate`.
fn share(larder: &Larder, gate: &Gate) {
    let [mut leader, mut follower] = [larder.client(), larder.client()];
    leader.send("GET /");
    assert_eq!(leader.head().cache(), "fwd=uri-miss; fwd-status=200; stored");
    follower.send("GET /");
    assert_eq!(follower.head().cache(), "fwd=uri-miss; collapsed");
    gate.open();
    assert_eq!((leader.exactly(4), follower.exactly(4)), (b"body".to_vec(), b"body".to_vec()));
}

#[test]
fn followers_say_so() {
    let (gate, origin) = Origin::gated(|_, held| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 4\r\n\r\n";
        Answer::raw(head).then_wait(held).then("body")
    });
    let larder = Larder::before(&origin);
    share(&larder, &gate);
}

#[test]
fn a_request_for_several_ranges_does_not_end_the_sharing() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.field("range") {
        Some(_) => Answer::with_body(
            "206 Partial Content\nCache-Control: max-age=100\nContent-Type: multipart/byteranges; boundary=B",
            b"--B--\r\n",
        ),
        None => Answer::with_body(&format!("{CACHED}\nContent-Length: 4"), b"").then_wait(held).then("body"),
    });
    let larder = Larder::before(&origin);
    assert_eq!(larder.ask("GET /\nRange: bytes=0-0,2-2").text(), "--B--\r\n");
    share(&larder, &gate);
}

#[test]
fn clients_share_fetches_again_five_seconds_after_an_error() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.number {
        0 => Answer::with_body("500 Oops", b"oops"),
        _ => Answer::with_body(&format!("{CACHED}\nContent-Length: 4"), b"").then_wait(held).then("body"),
    });
    let folder = tempfile::tempdir().expect("a folder");
    let clock = folder.path().join("clock");
    let larder = Larder::start_in(&site(&[&origin], ""), &[("LARDER_CLOCK_SKEW", &clock)]);
    assert_eq!(larder.get("/").status, 500);
    std::fs::write(&clock, "6").expect("written");
    share(&larder, &gate);
}

#[test]
fn a_private_response_releases_all_followers_at_once_and_is_remembered() {
    let gates: [Gate; 3] = Default::default();
    let held = gates.clone();
    let origin = Origin::answering(move |seen| {
        let round = [0, 1, 1, 1, 1, 1].get(seen.number).copied().unwrap_or(2);
        held[round].pass();
        Answer::with_body("200 OK\nCache-Control: private", seen.field("cookie").unwrap_or("?").as_bytes())
    });
    let larder = Larder::before(&origin);
    let ask = |user: usize| {
        let mut client = larder.client();
        client.send(&format!("GET /\nCookie: {user}"));
        client
    };
    let mut clients = vec![ask(0)];
    origin.wait_for(1);
    clients.extend((1..6).map(ask));
    gates[0].open();
    // The other requests are sent concurrently: no client waits for the response of another one.
    origin.wait_for(6);
    gates[1].open();
    clients.extend((6..11).map(ask));
    origin.wait_for(11);
    gates[2].open();
    for (user, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.receive("GET").text(), user.to_string());
    }
}

#[test]
fn section_4_1_requests_for_another_variant_do_not_wait() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let colour = seen.field("colour").unwrap_or("none").to_owned();
        let head = format!("{CACHED}\nVary: Colour\nContent-Length: {}", colour.len());
        let answer = Answer::with_body(&head, b"");
        if colour == "red" { answer.then_wait(held).then(colour) } else { answer.then(colour) }
    });
    let larder = Larder::before(&origin);
    let mut red = larder.client();
    red.send("GET /\nColour: red");
    origin.wait_for(1);
    assert_eq!(larder.client().ask("GET /\nColour: blue").text(), "blue");
    assert_eq!(larder.client().ask("GET /\nColour: green").text(), "green");
    gate.open();
    assert_eq!(red.receive("GET").text(), "red");
    larder.settle();
    for colour in ["red", "blue", "green"] {
        let stored = larder.ask(&format!("GET /\nColour: {colour}"));
        assert_eq!((stored.text(), stored.is_hit()), (colour, true));
    }
}

#[test]
fn section_4_3_many_requests_for_a_stale_response_cause_one_validation() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.number {
        0 => Answer::with_body(&format!("{CACHED}\nAge: 100\nETag: \"1\""), b"body"),
        _ => Answer::default().then_wait(held).then("HTTP/1.1 304 Not Modified\r\nAge: 0\r\n\r\n"),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET /");
    }
    origin.wait_for(2);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.receive("GET").text(), "body");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn section_5_2_2_4_responses_requiring_validation_have_no_followers() {
    for fields in ["ETag: \"1\"", "Cache-Control: no-cache\nETag: \"1\""] {
        let (gate, origin) = Origin::gated(move |seen, held| {
            let cookie = seen.field("cookie").unwrap_or("?").to_owned();
            let head = format!("200 OK\n{fields}\nContent-Length: {}", cookie.len());
            Answer::with_body(&head, b"").then_wait(held).then(cookie)
        });
        let larder = Larder::before(&origin);
        let [mut first, mut second] = [larder.client(), larder.client()];
        first.send("GET /\nCookie: one");
        first.head();
        second.send("GET /\nCookie: other");
        origin.wait_for(2);
        gate.open();
        assert_eq!((first.exactly(3), second.receive("GET").text()), (b"one".to_vec(), "other"), "{fields}");
        assert_eq!(origin.count(), 2, "{fields}");
    }
}

#[test]
fn requests_with_credentials_wait_for_no_other_request_and_share_nothing() {
    let (gate, origin) = Origin::gated(|seen, held| {
        held.pass();
        Answer::with_body(CACHED, seen.field("authorization").unwrap_or("no user").as_bytes())
    });
    let larder = Larder::before(&origin);
    let mut clients: Vec<Client> = (0..3).map(|_| larder.client()).collect();
    for (user, client) in clients.iter_mut().enumerate() {
        client.send(&format!("GET /\nAuthorization: Basic {user}"));
    }
    origin.wait_for(3);
    gate.open();
    for (user, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.receive("GET").text(), format!("Basic {user}"));
    }
    assert_eq!(larder.get("/").text(), "no user");
}

#[test]
fn ranges_near_what_has_arrived_are_read_from_the_running_fetch() {
    let body: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let (gate, origin) = Origin::gated(move |_, held| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nETag: \"a\"\r\nContent-Length: 100000\r\n\r\n";
        Answer::raw(head).then(&sent[..50_000]).then_wait(held).then(&sent[50_000..])
    });
    let larder = Larder::before(&origin);
    let mut whole = larder.client();
    whole.send("GET /");
    assert_eq!(whole.head().status, 200);
    let ranges: Vec<_> = (0..7).map(|n| n * 14_000..n * 14_000 + 10_000).collect();
    let mut clients: Vec<_> = ranges.iter().map(|_| larder.client()).collect();
    for (client, range) in clients.iter_mut().zip(&ranges) {
        client.send(&format!("GET /\nRange: bytes={}-{}\nIf-Range: \"a\"", range.start, range.end - 1));
        let head = client.head();
        assert_eq!((head.status, head.cache().as_str()), (206, "fwd=uri-miss; collapsed"));
        let place = format!("bytes {}-{}/100000", range.start, range.end - 1);
        assert_eq!(head.field("content-range"), Some(&*place));
    }
    assert!(clients[0].exactly(10_000) == body[..10_000], "these bytes have arrived");
    gate.open();
    for (client, range) in clients[1..].iter_mut().zip(&ranges[1..]) {
        assert!(client.exactly(range.len()) == body[range.clone()], "{range:?}");
    }
    assert!(whole.exactly(body.len()) == body);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_range_that_no_running_fetch_brings_soon_is_fetched_by_itself() {
    let body = vec![b'x'; 3 << 20];
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::answering(move |seen| match seen.field("range") {
        Some(_) => Answer::file(seen, "\"a\"", "Cache-Control: max-age=100", &body),
        None => {
            let head = format!("{CACHED}\nETag: \"a\"\nContent-Length: {}", body.len());
            Answer::with_body(&head, b"").then(&body[..100]).then_wait(&held).then(&body[100..])
        }
    });
    let larder = Larder::before(&origin);
    let mut whole = larder.client();
    whole.send("GET /");
    assert_eq!(whole.head().status, 200);
    for (number, asked) in ["Range: bytes=2500000-2500009", "Range: bytes=5-9, 50-59"].iter().enumerate() {
        let status = larder.client().ask(&format!("GET /\n{asked}")).status;
        assert!(matches!(status, 200 | 206), "{asked}: {status}");
        assert_eq!(origin.count(), number + 2, "{asked}");
    }
    let other = larder.client().ask("GET /\nRange: bytes=0-9\nIf-Range: \"b\"");
    assert_eq!((other.status, other.body.len()), (200, 3 << 20), "the client has a part of another one");
    gate.open();
    assert_eq!(whole.exactly(3 << 20).len(), 3 << 20);
}

#[test]
fn ranges_that_may_be_far_do_not_wait_for_a_running_fetch() {
    let body: Vec<u8> = (0..1_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let (gate, origin) = Origin::gated(move |seen, held| match seen.field("range") {
        Some("bytes=-10") => {
            let head = "206 Partial Content\nETag: \"a\"\nContent-Range: bytes 990-999/1000";
            Answer::with_body(head, &sent[990..])
        }
        Some(_) => Answer::file(seen, "\"a\"", "Cache-Control: max-age=100", &sent),
        None => {
            held.pass();
            Answer::with_body("200 OK\nCache-Control: max-age=100\nETag: \"a\"", &sent)
        }
    });
    let larder = Larder::before(&origin);
    let mut whole = larder.client();
    whole.send("GET /");
    origin.wait_for(1);
    let end = larder.client().ask("GET /\nRange: bytes=-10");
    assert_eq!((end.status, end.field("content-range")), (206, Some("bytes 990-999/1000")));
    assert_eq!(end.body, body[990..]);
    for (range, statuses) in [("0-9, 50-59", [200, 206]), ("2000000-2000009", [416; 2])] {
        let answer = larder.client().ask(&format!("GET /\nRange: bytes={range}"));
        assert!(statuses.contains(&answer.status), "{range}: {}", answer.status);
    }
    gate.open();
    assert_eq!(whole.receive("GET").body.len(), 1_000);
}
