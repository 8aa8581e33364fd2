//! The backend and its clients, directly connected, and with a server between them that sends stale answers.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use larder_experiment::services::{Backend, Cost, Options};
use larder_experiment::{Outcome, Plan, drive};
use larder_lab::workload::Crud;
use larder_testkit::{Origin, listen, serve};

/// Starts a backend that runs until the tests end.
fn backend(cost: Cost, etags: bool) -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let backend =
        Backend::bind(any, Options { entities: 10, cost, etags, lifetime: None, filler: 0 }).unwrap();
    let address = backend.address().unwrap();
    thread::spawn(|| backend.run());
    address
}

fn work(to: SocketAddr, clients: u32, requests: u64) -> Outcome {
    let workload = Crud { requests, entities: 10, writes: 0.2, exponent: 0.99 };
    let stop = Arc::default();
    drive(&Plan { to: to.into(), clients, workload, seed: 7, limit: None, stop }).unwrap()
}

#[test]
fn the_backend_itself_is_never_stale() {
    let outcome = work(backend(Cost::default(), false), 16, 4_000);
    assert_eq!((outcome.failed, outcome.stale), (0, 0), "{:?}", outcome.examples);
    assert_eq!(outcome.reads.count() + outcome.writes.count(), 4_000);
    let share = outcome.writes.count() as f64 / 4_000.0;
    assert!((0.15..0.25).contains(&share), "{share}");
    let known: u64 = [200, 201, 404].iter().filter_map(|status| outcome.statuses.get(status)).sum();
    assert_eq!(known, 4_000, "{:?}", outcome.statuses);
}

#[test]
fn an_answer_takes_the_configured_time() {
    for is_busy in [false, true] {
        let time = Duration::from_millis(3);
        let outcome = work(backend(Cost { time, is_busy }, false), 1, 40);
        assert!(outcome.reads.percentile(1.0) >= time && outcome.writes.percentile(1.0) >= time);
    }
}

#[test]
fn a_tag_is_that_of_the_content() {
    let address = backend(Cost::default(), true);
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n").unwrap();
        move |more: &str| {
            write!(stream, "{more}\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        }
    };
    let first = ask("GET /users/1")("");
    let tag = first.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let again = ask("GET /users/1")(&format!("If-None-Match: {tag}\r\n"));
    assert!(again.starts_with("HTTP/1.1 304 "), "{again}");
    ask("DELETE /users/2")("");
    let other = ask("GET /paths/1")(&format!("If-None-Match: {tag}\r\n"));
    assert!(other.starts_with("HTTP/1.1 200 ") && !other.contains(tag), "{other}");
}

#[test]
fn a_server_of_what_is_old_is_found_out() {
    // Writes are answered with version 2 of everything, reads with version 1.
    let origin = Origin::by(|seen| {
        let version = if seen.method == "GET" { 1 } else { 2 };
        format!("200 OK\n\n{{\"versions\":{{\"everything\":{version}}}}}")
    });
    let outcome = work(origin.address, 1, 200);
    assert!(outcome.stale > 100, "{} of {}", outcome.stale, outcome.reads.count());
    let (_, stale) = &outcome.examples[0];
    assert_eq!((stale.resource.as_str(), stale.shown, stale.newest), ("everything", 1, 2));
}

#[test]
fn a_server_without_answers_counts_as_failed() {
    let (listener, address) = listen();
    serve(listener, drop);
    let begun = Instant::now();
    assert_eq!(work(address, 2, 20).failed, 20);
    assert!(begun.elapsed() < Duration::from_secs(10));
}
