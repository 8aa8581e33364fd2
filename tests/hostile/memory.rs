//! The memory that a client or an origin can make the proxy hold: each byte is inside a budget.

use std::io::{Read, Write};

use larder_testkit::{Client, Gate, Larder, Origin, eventually};

const FRESH: &str = "200 OK\nCache-Control: max-age=1000";
/// A quarter of the budget for incoming responses in a memory of 64 MiB.
const LARGE: usize = 2 << 20;

/// Starts an origin whose responses to `/large/..` send a quarter of their content, and more bytes one at a time once
/// `gate` is open.
fn trickling(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::speaking(move |peer| {
        while let Some(seen) = peer.request() {
            if !seen.target.starts_with("/large/") {
                peer.answer(&format!("{FRESH}\n\nsmall"));
                continue;
            }
            peer.send(
                format!("HTTP/1.1 {FRESH}\nContent-Length: {LARGE}\n\n").replace('\n', "\r\n").as_bytes(),
            );
            peer.send(&vec![b'x'; LARGE / 4]);
            gate.pass();
            for _ in 0..3_000 {
                peer.send(b"x");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    })
}

/// Requests `count` large responses, and disconnects once they have begun.
fn ask_and_leave(larder: &Larder, count: usize) {
    for number in 0..count {
        let mut client = larder.client();
        client.send(&format!("GET /large/{number}"));
        client.exactly(LARGE / 8);
    }
}

#[test]
fn large_answers_without_readers_leave_room_for_others() {
    let gate = Gate::default();
    let origin = trickling(&gate);
    let larder = Larder::with(&origin, "[memory]\nsize = '64MiB'");
    ask_and_leave(&larder, 4);
    for path in ["/small", "/large/another"] {
        let mut client = larder.client();
        client.send(&format!("GET {path}"));
        assert!(client.head().cache().contains("; stored"), "{path}");
    }
    eventually("a hit", || larder.client().ask("GET /small").is_hit().then_some(()));
    gate.open();
}

#[test]
fn a_slow_answer_without_readers_is_given_up() {
    let gate = Gate::default();
    gate.open();
    let origin = trickling(&gate);
    let larder = Larder::with(&origin, "[timeouts]\nstall = '1s'");
    ask_and_leave(&larder, 4);
    eventually("no fill under way", || (larder.stat("fills") == 0).then_some(()));
}

#[test]
fn unique_fields_and_validations_stay_within_the_budget() {
    let origin = Origin::by(|seen| {
        let status = if seen.field("if-none-match").is_some() { "304 Not Modified" } else { "200 OK" };
        let long = "x".repeat(12_000);
        format!("{status}\nCache-Control: max-age=0\nETag: \"1\"\nX-Unique: {}{long}\n\n", seen.number)
    });
    let larder = Larder::with(&origin, "[memory]\nsize = '16MiB'");
    let mut client = larder.client();
    client.ask("GET /");
    let before = larder.resident();
    for number in (0..3_000).chain((0..3_000).map(|number| number % 800)) {
        client.ask(&format!("GET /{}", number % 3_000));
    }
    let (grown, stored) = ((larder.resident() - before) >> 20, larder.stat("bytes_stored"));
    assert!(grown < 16 + 16, "{grown} MiB more");
    assert!((4 << 20..16 << 20).contains(&stored), "{stored} bytes accounted for");
}

/// The bytes that the proxy may need in addition to the memory that a scenario causes.
const SLACK: u64 = 8 << 20;

fn heads(count: usize) -> Vec<u8> {
    b"HEAD / HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(count)
}

#[test]
fn replies_to_pipelined_heads_do_not_pile_up_in_memory() {
    let origin =
        Origin::by(|_| format!("200 OK\nCache-Control: max-age=100\nLong: {}\n\nbody", "a".repeat(50 << 10)));
    let larder = Larder::before(&origin);
    larder.get("/");
    let before = larder.resident();
    let mut unread: Vec<Client> = (0..4).map(|_| larder.client()).collect();
    for client in &mut unread {
        client.raw(&heads(1_500));
    }
    // All requests that fit into the kernel's buffers have been read when another client is served.
    larder.wait_for("connections", 4);
    let mut reader = larder.client();
    let last = "HEAD / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    reader.stream.write_all(&[&heads(299), last.as_bytes()].concat()).expect("the proxy reads");
    let mut replies = Vec::new();
    reader.stream.read_to_end(&mut replies).expect("an orderly end");
    let count = replies.windows(13).filter(|window| window == b"HTTP/1.1 200 ").count();
    assert_eq!(count, 300, "each request has its reply");
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < SLACK, "{} KiB for clients that read nothing", grown >> 10);
}

#[test]
fn a_head_too_long_to_be_stored_is_no_answer() {
    let origin = Origin::by(|seen| {
        let length: usize = seen.target[1..].parse().expect("a number");
        format!("200 OK\nCache-Control: max-age=100\nLong: {}\n\nbody", "a".repeat(length))
    });
    let larder = Larder::before(&origin);
    assert_eq!((larder.get("/63000").status, larder.get("/66000").status), (200, 502));
    assert!(larder.get("/63000").is_hit());
}

#[test]
fn revalidations_do_not_let_a_stored_head_grow_without_a_limit() {
    let origin = Origin::by(|seen| {
        let status = if seen.field("if-none-match").is_some() { "304 Not Modified" } else { "200 OK" };
        let (number, long) = (seen.number, "a".repeat(20 << 10));
        format!("{status}\nCache-Control: no-cache\nETag: \"1\"\nLong-{number}: {long}\n\nbody")
    });
    let larder = Larder::before(&origin);
    let lengths: Vec<usize> = (0..8)
        .map(|_| larder.get("/").fields.iter().map(|(name, value)| name.len() + value.len()).sum())
        .collect();
    assert!(lengths.iter().all(|length| *length < 70 << 10), "{lengths:?}");
    // Two of them made the head too long, after which the whole was requested.
    assert_eq!(origin.count(), 8 + 2);
}

/// Returns the number of files that the process has open.
fn open_files(larder: &Larder) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", larder.id())).expect("it runs").count()
}

#[test]
fn silent_connections_to_the_admin_listener_are_few_and_end() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::before(&origin);
    larder.get("/");
    let before = open_files(&larder);
    let mut silent: Vec<Client> = (0..300).map(|_| Client::to(larder.admin)).collect();
    // The connections above the limit are closed when they arrive.
    assert!(silent.last_mut().is_some_and(Client::is_closed));
    let more = open_files(&larder).saturating_sub(before);
    assert!(more < 80, "{more} more files");
    assert!(larder.client().ask("GET /").is_hit());
    let ask = || Client::try_ask(larder.admin, "GET /readyz\nHost: localhost");
    eventually("an answer while the silent ones are there", || ask().filter(|answer| answer.status == 200));
    drop(silent);
}
