//! Recorders and readers against real databases: SQLite, MariaDB and PostgreSQL.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod documented;
mod engines;
mod full;
mod model;
mod outages;
mod scenario;
mod wire;

use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engines::Sqlite;
use larder_stats::{Options, Recorder};
use larder_testkit::databases::Server;
use larder_testkit::{listen, serve};

#[test]
fn sqlite() {
    let sqlite = Sqlite::new();
    scenario::all(&sqlite);
    scenario::the_file_is_for_its_user_alone(&sqlite);
    scenario::a_file_gives_back_what_it_does_not_need(&sqlite);
    scenario::a_file_stays_within_its_size(&sqlite);
    documented::all(&sqlite);
}

#[test]
fn mariadb() {
    let mut server = Server::mariadb();
    scenario::all(&server);
    documented::all(&server);
    outages::all(&mut server);
}

#[test]
fn postgres() {
    let mut server = Server::postgres();
    scenario::all(&server);
    documented::all(&server);
    outages::all(&mut server);
}

#[test]
fn a_server_whose_answers_are_malformed_is_waited_for() {
    let (listener, address) = listen();
    serve(listener, |mut client| {
        // The length of this message does not include itself.
        let _ = client.read(&mut [0; 1024]).and_then(|_| client.write_all(b"R\0\0\0\0"));
    });
    let url = format!("postgres://user@{address}/statistics?sslmode=disable");
    let recorder = Recorder::open(&url, Options::default()).unwrap();
    recorder.record(model::hit(1, "http://a.test/"));
    assert_eq!(recorder.close(Duration::from_millis(100)).dropped, 1);
}

#[test]
fn a_server_that_asks_for_endless_work_does_not_delay_the_end() {
    let (listener, address) = listen();
    let (asks, asked) = mpsc::channel();
    serve(listener, move |mut client| {
        let authentication = |kind: u32, text: &[u8]| {
            [b"R", &(text.len() as u32 + 8).to_be_bytes()[..], &kind.to_be_bytes(), text].concat()
        };
        let mut received = [0; 1024];
        let sasl = authentication(10, b"SCRAM-SHA-256\0\0");
        let _ = client.read(&mut received).and_then(|_| client.write_all(&sasl));
        let length = client.read(&mut received).unwrap_or_default();
        let first = String::from_utf8_lossy(&received[..length]);
        let nonce = first.rsplit_once("r=").map_or("", |(_, nonce)| nonce);
        let challenge = format!("r={nonce}x,s=c2FsdA==,i=4000000000");
        let _ = client.write_all(&authentication(11, challenge.as_bytes()));
        let _ = asks.send(());
        let _ = client.read(&mut received);
    });
    let url = format!("postgres://user:password@{address}/statistics?sslmode=disable");
    let recorder = Recorder::open(&url, Options { opening: Duration::ZERO, ..Options::default() }).unwrap();
    recorder.record(model::hit(1, "http://a.test/"));
    asked.recv_timeout(Duration::from_secs(20)).unwrap();
    let begun = Instant::now();
    assert_eq!(recorder.close(Duration::from_millis(100)).dropped, 1);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
