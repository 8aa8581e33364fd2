//! Clients that begin a TLS handshake and disconnect: they are counted, hold no resources, and do not delay other
//! clients.
//!
//! `LARDER_HANDSHAKES=100000` sets the number of handshakes, and `LARDER_CONNECTIONS=10000` the number of idle
//! connections.

use std::env::var;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use larder_testkit::{Larder, Origin, eventually, raise_open_files, site};
use rustix::net::sockopt::set_socket_linger;

use super::wild::{Wild, hello, suites};
use super::{Authority, LISTEN, TLS};

const PAGE: &str = "200 OK\nCache-Control: max-age=100\n\nbody";
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n";

/// The most bytes that an idle connection holds.
const IDLE: u64 = 2_500;

fn number(name: &str, default: u64) -> u64 {
    var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn larder(authority: &Authority, origin: &Origin, more: &str) -> Larder {
    let table = authority.pair("site", &["site.test"]).table();
    Larder::start(&format!("{LISTEN}{more}{table}{}", site(&[origin], "")))
}

fn failed(larder: &Larder, how: &str) -> u64 {
    larder.stats()["tls"]["handshakes"][how].as_u64().expect("a number")
}

/// Connects, sends `bytes`, and disconnects: with a reset if `hard`.
fn leave(address: SocketAddr, bytes: &[u8], hard: bool) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    // The proxy may have stopped reading.
    let _ = stream.write_all(bytes);
    if hard {
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("an option");
    }
}

#[test]
fn abandoned_handshakes_keep_nothing_and_do_not_delay_others() {
    let count = number("LARDER_HANDSHAKES", 3_000);
    let (origin, authority) = (Origin::always(PAGE), Authority::new());
    let larder = larder(&authority, &origin, "");
    let (address, hello) = (larder.door(TLS), hello(&authority));
    let half = hello.len() / 2;
    let crowd = |count: u64| {
        for number in 0..count {
            let bytes: &[u8] = [&hello[..], &hello[..half], &hello[..3], b""][number as usize % 4];
            leave(address, bytes, number % 8 < 4);
            if number % 500 == 0 {
                let mut client = Wild::to(address, &authority, suites()[0]);
                client.send(23, GET);
                assert!(client.answer("body").starts_with("HTTP/1.1 200"));
            }
        }
        larder.wait_for("connections", 0);
    };
    crowd(count / 3);
    let before = larder.resident();
    crowd(count - count / 3);
    let more = larder.resident().saturating_sub(before);
    println!("{count} handshakes: {more} bytes more");
    assert!(more < 16 << 20, "{more} bytes more");
    let ends = || {
        let handshakes = larder.stats()["tls"]["handshakes"].clone();
        let of = |how: &str| handshakes[how].as_u64().expect("a number");
        (of("left") + of("malformed") + of("alert") >= count * 3 / 4).then_some(())
    };
    eventually("each that began to be counted", ends);
}

#[test]
fn silent_handshakes_end_and_others_go_on_meanwhile() {
    let (origin, authority) = (Origin::always(PAGE), Authority::new());
    let larder = larder(&authority, &origin, "[timeouts]\nhead = '1s'\n");
    let (address, hello) = (larder.door(TLS), hello(&authority));
    let begin = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(bytes).expect("it reads");
        stream
    };
    let _silent: Vec<_> = (0..200).map(|number| begin(&hello[..number % hello.len()])).collect();
    let mut client = Wild::to(address, &authority, suites()[0]);
    client.send(23, GET);
    assert!(client.answer("body").starts_with("HTTP/1.1 200"));
    eventually("200 of them to be given up", || (failed(&larder, "timeout") == 200).then_some(()));
}

#[test]
fn failed_handshakes_are_in_the_log_by_reason() {
    let (origin, authority) = (Origin::always(PAGE), Authority::new());
    let larder = larder(&authority, &origin, "");
    leave(larder.door(TLS), GET, false);
    larder.wait_for_log("TLS handshakes of clients failed: 1 plain-http");
}

#[test]
fn idle_connections_over_tls_hold_little() {
    // With few connections, the allocator's unused pages would count for much.
    let wanted = number("LARDER_CONNECTIONS", 4_000);
    let count = wanted.min(raise_open_files() / 2);
    let (origin, authority) = (Origin::always(PAGE), Authority::new());
    let larder = larder(&authority, &origin, "[timeouts]\nidle = '1h'\n");
    let address = larder.door(TLS);
    let connect = || {
        let mut client = Wild::to(address, &authority, suites()[0]);
        client.send(23, GET);
        assert!(client.answer("body").starts_with("HTTP/1.1 200"));
        client
    };
    // Memory that is allocated only once is allocated before the measurement.
    drop((0..100).map(|_| connect()).collect::<Vec<_>>());
    larder.wait_for("connections", 0);
    let before = larder.resident();
    let mut idle: Vec<_> = (0..count).map(|_| connect()).collect();
    larder.wait_for("connections", count);
    // After half a second, idle connections release the memory that can be rebuilt quickly.
    let each = || larder.resident().saturating_sub(before) / count;
    eventually("little for each", || (each() < IDLE).then_some(()));
    std::thread::sleep(Duration::from_secs(number("LARDER_SETTLE", 0)));
    println!("{} bytes for each of {count}", each());
    for client in idle.iter_mut().step_by(50) {
        client.send(23, GET);
        assert!(client.answer("body").starts_with("HTTP/1.1 200"), "keys are made again");
    }
}
