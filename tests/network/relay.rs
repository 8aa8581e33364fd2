//! A relay of bytes between the proxy and its clients or origins, and a proxy of SOCKS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use larder_testkit::Origin;

/// Connects to `to`, sends `first`, and forwards the bytes of both connections until they end.
pub(crate) fn pass_on(mut near: TcpStream, to: SocketAddr, first: &[u8]) {
    let Ok(mut far) = TcpStream::connect(to) else { return };
    far.write_all(first).expect("it reads");
    let mut back = (far.try_clone().expect("a descriptor"), near.try_clone().expect("a descriptor"));
    thread::spawn(move || {
        let _ = io::copy(&mut near, &mut far);
        let _ = far.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let _ = io::copy(&mut back.0, &mut back.1);
        let _ = back.1.shutdown(Shutdown::Both);
    });
}

/// Opens tunnels of SOCKS 5 to `address` that a client with the user name `me` and the password `a:b` requests for this name and port.
pub(crate) fn socks_to((name, port): (&'static str, u16), address: SocketAddr) -> Origin {
    Origin::speaking(move |peer| {
        let wanted = [b"\x05\x01\x00\x03", &[name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()];
        for (asked, answer) in [
            (&b"\x05\x02\x00\x02"[..], &b"\x05\x02"[..]),
            (b"\x01\x02me\x03a:b", b"\x01\x00"),
            (&wanted.concat(), b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"),
        ] {
            let mut seen = vec![0; asked.len()];
            peer.stream.read_exact(&mut seen).expect("a message");
            assert_eq!(seen, asked);
            peer.send(answer);
        }
        let near = peer.stream.get_ref().try_clone().expect("a descriptor");
        pass_on(near, address, peer.stream.buffer());
        thread::park();
    })
}
