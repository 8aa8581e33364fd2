//! Origins that send more bytes than announced: none of these bytes answers another request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};

const GOOD: &str = "200 OK\nCache-Control: max-age=100\n\ngood";
const FOREIGN: &[u8] = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 7\r\n\r\nforeign";

/// Starts an origin that answers `/more` with `head` and sends another response behind it; returns it with the count of
/// these responses.
fn talkative(head: &'static str) -> (Origin, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let origin = Origin::speaking(move |peer| {
        while let Some(seen) = peer.request() {
            if seen.target != "/more" {
                peer.answer(GOOD);
                continue;
            }
            peer.send(head.as_bytes());
            peer.send(FOREIGN);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (origin, sent)
}

#[test]
fn bytes_after_an_answer_in_another_segment_answer_no_request() {
    let cases = [
        ("HEAD /more", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("GET /more", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET /more\nIf-None-Match: \"1\"", "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"),
        ("GET /more", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    ];
    for (request, head) in cases {
        let (origin, sent) = talkative(head);
        let larder = Larder::before(&origin);
        let mut client = larder.client();
        for round in 1..=20 {
            client.ask(request);
            eventually("the surplus", || (sent.load(Ordering::SeqCst) == round).then_some(()));
            for stored in [false, true] {
                let answer = client.ask(&format!("GET /{round}"));
                assert_eq!((answer.text(), answer.is_hit()), ("good", stored), "{request:?}, round {round}");
            }
        }
    }
}

#[test]
fn an_origin_that_sent_more_than_its_answer_gets_one_request_for_each_connection() {
    let (origin, sent) = talkative("HTTP/1.1 204 No Content\r\n\r\n");
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.ask("GET /more");
    eventually("the surplus", || (sent.load(Ordering::SeqCst) == 1).then_some(()));
    for number in 1..=5 {
        assert_eq!(client.ask(&format!("GET /{number}")).text(), "good");
    }
    assert_eq!((origin.count(), origin.connections()), (6, 6));
}

/// Starts an origin that sends another response late: when `/late` is requested first, in place of its response, which
/// follows once `gate` is open.
fn late(gate: &Gate) -> Origin {
    let held = gate.clone();
    Origin::speaking(move |peer| {
        while let Some(seen) = peer.request() {
            if seen.target == "/late" && seen.number == 1 {
                peer.send(FOREIGN);
                held.pass();
            }
            peer.answer(GOOD);
        }
    })
}

#[test]
fn late_bytes_do_not_stay_stored_as_the_response_to_another_request() {
    let gate = Gate::default();
    let origin = late(&gate);
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    assert_eq!(client.ask("GET /").text(), "good");
    // Nothing tells these bytes from the response yet.
    assert_eq!(client.ask("GET /late").text(), "foreign");
    gate.open();
    eventually("the true response", || (larder.get("/late").text() == "good").then_some(()));
    assert!(larder.get("/late").is_hit() && larder.get("/").is_hit());
}

#[test]
fn late_bytes_with_the_response_behind_them_are_not_stored() {
    let origin = Origin::speaking(|peer| {
        while let Some(seen) = peer.request() {
            if seen.target == "/late" && seen.number == 1 {
                peer.send(&[FOREIGN, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"].concat());
            } else {
                peer.answer(GOOD);
            }
        }
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.ask("GET /");
    assert_eq!(client.ask("GET /late").text(), "foreign");
    assert_eq!(larder.get("/late").text(), "good");
}

#[test]
fn a_response_on_a_used_connection_to_an_origin_that_proved_careless_is_fetched_again() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::speaking(move |peer| {
        while let Some(seen) = peer.request() {
            match (seen.target.as_str(), seen.number) {
                ("/late", 2) => {
                    held.pass();
                    peer.send(FOREIGN);
                }
                ("/more", _) => peer.send(&[b"HTTP/1.1 204 No Content\r\n\r\n", FOREIGN].concat()),
                _ => peer.answer(GOOD),
            }
        }
    });
    let larder = Larder::start(&format!("threads = 1\n{}", larder_testkit::site(&[&origin], "")));
    let (mut one, mut other) = (larder.client(), larder.client());
    one.ask("GET /1");
    other.ask("GET /2");
    one.send("GET /late");
    origin.wait_for(3);
    assert_eq!(other.ask("GET /more").status, 204);
    gate.open();
    assert_eq!(one.receive("GET").text(), "good");
    assert_eq!(larder.get("/late").text(), "good");
}

#[test]
fn content_behind_its_announced_length_removes_nothing_that_is_stored() {
    let origin = Origin::speaking(|peer| {
        while let Some(seen) = peer.request() {
            peer.answer(GOOD);
            if seen.target == "/longer" {
                peer.send(b" and more");
            }
        }
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for target in ["/1", "/2", "/longer", "/3"] {
        assert_eq!(client.ask(&format!("GET {target}")).text(), "good", "{target}");
    }
    for target in ["/1", "/2", "/longer", "/3"] {
        assert!(client.ask(&format!("GET {target}")).is_hit(), "{target}");
    }
}

#[test]
fn an_answer_whose_end_is_in_doubt_ends_its_connection_and_no_other() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/1" => Answer::raw("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
        "/2" => Answer::raw("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
        "/3" => Answer::raw("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
        _ => Answer::with_body("200 OK", b"good"),
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for (number, status) in [(1, 204), (2, 204), (3, 304), (4, 200), (5, 200), (6, 200)] {
        assert_eq!(client.ask(&format!("GET /{number}\nIf-None-Match: \"1\"")).status, status);
    }
    assert_eq!((origin.count(), origin.connections()), (6, 4));
}

#[test]
fn an_origin_that_says_408_before_it_closes_an_idle_connection_is_not_careless() {
    let (gate, sent) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (held, count) = (gate.clone(), Arc::clone(&sent));
    let origin = Origin::speaking(move |peer| {
        while let Some(seen) = peer.request() {
            peer.answer("200 OK\n\ngood");
            if seen.number == 0 {
                held.pass();
                peer.send(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n");
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    assert_eq!(client.ask("GET /").text(), "good");
    gate.open();
    eventually("the 408", || (sent.load(Ordering::SeqCst) == 1).then_some(()));
    for _ in 0..4 {
        assert_eq!(client.ask("GET /").text(), "good");
    }
    assert_eq!((origin.count(), origin.connections()), (5, 2));
}
