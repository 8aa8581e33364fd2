//! A relay of bytes between the proxy and its clients or origins.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

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
