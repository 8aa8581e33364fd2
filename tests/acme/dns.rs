//! A name server that resolves all names to this machine, except the unknown ones.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use larder_testkit::locked;

/// Bytes of a message's header (RFC 1035 section 4.1.1).
const HEADER: usize = 12;
/// The type of a question for an IPv4 address (RFC 1035 section 3.2.2).
const A: [u8; 2] = [0, 1];

/// A name server.
pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    unknown: Arc<Mutex<BTreeSet<String>>>,
}

impl Dns {
    pub(crate) fn start() -> Self {
        // Some resolvers ask over TCP first.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, unknown) = (listener.local_addr().expect("an address"), Arc::default());
        let socket = UdpSocket::bind(address).expect("the same port");
        let names = Arc::clone(&unknown);
        std::thread::spawn(move || serve(&socket, &names));
        let names = Arc::clone(&unknown);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let names = Arc::clone(&names);
                std::thread::spawn(move || serve_stream(stream, &names));
            }
        });
        Self { address, unknown }
    }

    /// Sets whether `name` resolves to this machine from now on.
    pub(crate) fn know(&self, name: &str, is_known: bool) {
        let mut unknown = locked(&self.unknown);
        if is_known {
            unknown.remove(name)
        } else {
            unknown.insert(name.to_owned())
        };
    }
}

fn serve(socket: &UdpSocket, unknown: &Mutex<BTreeSet<String>>) {
    let mut buffer = [0; 512];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        if let Some(answer) = answer(&buffer[..length], unknown) {
            // A failure to send is ignored: a client without a response asks again.
            let _ = socket.send_to(&answer, client);
        }
    }
}

/// Answers the messages of a connection, each behind its length (RFC 1035 section 4.2.2).
fn serve_stream(mut stream: TcpStream, unknown: &Mutex<BTreeSet<String>>) -> Option<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message).ok()?;
        let answer = answer(&message, unknown)?;
        let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
        stream.write_all(&[&length[..], &answer].concat()).ok()?;
    }
}

fn answer(message: &[u8], unknown: &Mutex<BTreeSet<String>>) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (HEADER, Vec::new());
    while let length @ 1.. = usize::from(*message.get(at)?) {
        labels.push(String::from_utf8(message.get(at + 1..=at + length)?.to_vec()).ok()?);
        at += 1 + length;
    }
    let (name, kind) = (labels.join("."), message.get(at + 1..at + 3)?);
    let is_known = !locked(unknown).contains(&name);
    let has_address = is_known && kind == A;
    // The flags of a response, with the code NXDOMAIN for an unknown name; one question; one answer or none.
    let mut out = message.get(..2)?.to_vec();
    out.extend([0x81, if is_known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    out.extend_from_slice(message.get(HEADER..at + 5)?);
    if has_address {
        // A pointer to the name in the question, then type A, class IN, a TTL of one second, and 4 bytes of data.
        out.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(out)
}
