//! ONC RPC over UDP, and the rpcbind that tells clients the door's port.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;

use bytes::BytesMut;
use larder_rpc::{Answer, Call, ClientProtocol, Limits, onc};
use larder_testkit::{Larder, Origin, PATIENCE};
use rustix::process::Signal;

use crate::caller::{get, open};

/// Sends a call in a datagram. Calls and answers in datagrams have the form of records without the record mark.
fn ask(larder: &Larder, call: &Call) -> Answer {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut client = onc::Client::new(9, Limits::default());
    let message = client.encode(call).expect("a call");
    socket.send_to(&message[4..], larder.door("onc")).expect("sent");
    let mut datagram = vec![0; 64 << 10];
    let length = socket.recv(&mut datagram).expect("an answer");
    let mark = 0x8000_0000 | length as u32;
    let mut record = BytesMut::from(&mark.to_be_bytes()[..]);
    record.extend_from_slice(&datagram[..length]);
    client.decode(&mut record).expect("the protocol").expect("a whole answer")
}

#[test]
fn small_pages_fit_into_datagrams_and_large_ones_do_not() {
    let origin = Origin::by(|seen| {
        let length = seen.target[1..].parse().expect("a length");
        format!("200 OK\nCache-Control: max-age=100\n\n{}", "x".repeat(length))
    });
    let larder = open("");
    assert_eq!(ask(&larder, &Call::Ping), Answer::Done);
    for _ in 0..2 {
        let page = ask(&larder, &get(&format!("{}/8000", origin.url())));
        assert_eq!(page, Answer::Page("x".repeat(8000).into()));
        let failure = ask(&larder, &get(&format!("{}/9000", origin.url())));
        assert!(matches!(failure, Answer::Failure(failure) if failure.why.contains("system error")));
    }
    assert_eq!(origin.count(), 2);
    assert_eq!(larder.stats()["doors"]["onc"]["requests"], 4);
}

#[test]
fn the_onc_door_registers_with_rpcbind_and_deregisters_on_exit() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("rpcbind.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let (sender, asked) = mpsc::channel();
    // Accepts every call, and reports its procedure.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut mark = [0; 4];
            while stream.read_exact(&mut mark).is_ok() {
                let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
                stream.read_exact(&mut call).expect("a whole record");
                let _ = sender.send(call[23]);
                let accepted = [&[0x80, 0, 0, 28], &call[..4], &[0, 0, 0, 1], &[0; 16], &[0, 0, 0, 1]];
                let _ = stream.write_all(&accepted.concat());
            }
        }
    });
    let config = format!("[onc]\nlisten = '127.0.0.1:0'\nrpcbind = '{}'\n", path.display());
    let mut larder = Larder::start(&config);
    let next = || asked.recv_timeout(PATIENCE).expect("a call");
    let (set, unset) = (1, 2);
    assert_eq!([next(), next(), next()], [unset, set, set]);
    larder.wait_for_log("registered with rpcbind");
    larder.signal(Signal::TERM);
    assert_eq!(next(), unset);
    assert!(larder.ended().success());
}

#[test]
fn an_rpcbind_that_fails_is_a_line_in_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("rpcbind.sock");
    drop(UnixListener::bind(&path).expect("a socket"));
    let larder = Larder::start(&format!("[onc]\nlisten = '127.0.0.1:0'\nrpcbind = '{}'\n", path.display()));
    larder.wait_for_log("not registered with rpcbind at");
    assert_eq!(ask(&larder, &Call::Ping), Answer::Done);
}
