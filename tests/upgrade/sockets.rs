//! The sockets of an upgrade: all kinds, with other numbers of workers, and other listeners.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;

use larder_rpc::{Call, ClientProtocol, Limits, onc};
use larder_testkit::{Client, Larder, Origin, PATIENCE, programs, site};
use rustix::process::Signal;

use super::{script, serves, start};

#[test]
fn connections_that_wait_to_be_accepted_are_not_lost() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let address = larder.address();
    // The kernel completes the connections, and nobody accepts them.
    larder.signal(Signal::STOP);
    let mut waiting: Vec<_> = (0..20).map(|_| Client::to(address)).collect();
    larder.signal(Signal::CONT);
    larder.upgrade(&[]).unwrap();
    for client in &mut waiting {
        assert_eq!(client.ask("GET /page").status, 200, "by either process");
    }
}

#[test]
fn fewer_and_more_workers_take_over_all_queues() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    for threads in [1, 4, 3] {
        // In place of the words `serve --threads NUMBER`.
        let lines =
            format!("shift 3; exec {} serve --threads {threads} \"$@\"", programs::larder().display());
        let program = script(folder.path(), &lines).display().to_string();
        larder.upgrade(&["--binary", &program]).unwrap();
        // The kernel divides connections among all queues.
        for _ in 0..40 {
            assert!(serves(&larder));
        }
        larder.wait_for_predecessor();
    }
}

#[test]
fn unix_sockets_and_rpc_listeners_are_handed_over() {
    let (origin, folder) = (Origin::always("200 OK\n\na page"), tempfile::tempdir().unwrap());
    let path = folder.path().join("a.sock");
    let listen = format!("[reverse]\nlisten = 'unix:{}'\n", path.display());
    let doors = "[line]\nlisten = '127.0.0.1:0'\n[onc]\nlisten = '127.0.0.1:0'\nrpcbind = 'off'\n";
    let mut larder = Larder::start(&format!("{listen}{doors}{}", site(&[&origin], "")));
    let file = std::fs::metadata(&path).unwrap().ino();
    larder.upgrade(&[]).unwrap();
    larder.wait_for_predecessor();
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), file, "the same socket");
    assert_eq!(Client::at(&path).ask("GET /page").status, 200);
    let mut line = Client::to(larder.door("line"));
    line.raw(format!("{}/\n", origin.url()).as_bytes());
    assert!(!line.rest_of(1).is_empty());
    assert!(ping(larder.door("onc")), "over UDP");
}

/// Whether an ONC RPC listener answers a call of its first procedure in a datagram.
fn ping(address: SocketAddr) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = onc::Client::new(9, Limits::default());
    // Without the mark of a record.
    socket.send_to(&client.encode(&Call::Ping).unwrap()[4..], address).unwrap();
    socket.recv(&mut [0; 512]).is_ok()
}
