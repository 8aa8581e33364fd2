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
