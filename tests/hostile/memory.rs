//! Memory that a client or an origin makes the proxy hold: each byte is inside a budget.

use crate::support::{Gate, Larder, Origin, eventually};

const FRESH: &str = "200 OK\nCache-Control: max-age=1000";
/// A quarter of what a memory of 64 MiB has for responses on their way in.
const LARGE: usize = 2 << 20;

/// An origin whose answers to `/large/..` send a quarter of their content, and the rest byte by byte once `gate` is open.
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

/// Asks for some large answers and leaves once they have begun.
fn ask_and_leave(larder: &Larder, count: usize) {
    for number in 0..count {
        let mut client = larder.client();
        client.send(&format!("GET /large/{number}"));
        client.exactly(LARGE / 8);
    }
}

#[test]
fn large_answers_that_nobody_reads_leave_room_for_others() {
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
fn a_slow_answer_that_nobody_reads_is_given_up() {
    let gate = Gate::default();
    gate.open();
    let origin = trickling(&gate);
    let larder = Larder::with(&origin, "[timeouts]\nstall = '1s'");
    ask_and_leave(&larder, 4);
    eventually("no fill under way", || (larder.stat("fills") == 0).then_some(()));
}

/// MiB of memory that the proxy has.
fn resident(larder: &Larder) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", larder.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes / 1024
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
    let before = resident(&larder);
    for number in (0..3_000).chain((0..3_000).map(|number| number % 800)) {
        client.ask(&format!("GET /{}", number % 3_000));
    }
    let (grown, stored) = (resident(&larder) - before, larder.stat("bytes_stored"));
    assert!(grown < 16 + 16, "{grown} MiB more");
    assert!((4 << 20..16 << 20).contains(&stored), "{stored} bytes accounted for");
}
