//! Calls to rpcbind (RFC 1833), the program that tells clients the port of another program.
//!
//! The rpcbind of Linux systems (tested: 1.2.6) accepts `SET` and `UNSET` from any user of its machine, with or without
//! root, over loopback and over its own unix socket ([`SOCKET`]), and from no other machine. The two differ in the
//! permission to remove a registration. Over the unix socket, the kernel tells rpcbind the caller: then only that user
//! and root may remove it. Over TCP and UDP the caller is unknown, and any user of the machine may remove it. The owner
//! field of a call is ignored. It is no error to register the same address again. It is an error to register another
//! address until the old one is unset. It is no error to unset an absent registration.
//!
//! So register over the unix socket, by [`Request::Set`]: clients of version 2, the portmapper, find that registration,
//! too. [`Request::SetPort`] is for portmappers older than rpcbind, over TCP to [`PORT`].
//!
//! All calls use records, over the unix socket as over TCP.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};

use super::message::{self, Procedure};
use super::record::Records;
use super::xdr;
use crate::Malformed;
use crate::cursor::{Cursor, Stop, whole};

/// The unix socket on which rpcbind listens for calls from its own machine.
pub const SOCKET: &str = "/run/rpcbind.sock";
/// The port on which rpcbind and the portmapper listen, TCP and UDP.
pub const PORT: u16 = 111;

const PROGRAM: u32 = 100_000;
const PORTMAPPER: u32 = 2;
const RPCBIND: u32 = 4;
const SET: u32 = 1;
const UNSET: u32 = 2;
const GETADDR: u32 = 3;

/// The maximum length of a reply, and of the address in it, in bytes.
const REPLY: usize = 1024;
const ADDRESS: usize = 256;

/// The transport protocol over which clients reach a program (RFC 1833).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Returns the network's identifier: `tcp`, `udp6`, ...
    fn network(self, address: SocketAddr) -> &'static str {
        match (self, address.is_ipv4()) {
            (Self::Tcp, true) => "tcp",
            (Self::Tcp, false) => "tcp6",
            (Self::Udp, true) => "udp",
            (Self::Udp, false) => "udp6",
        }
    }

    /// Returns the number of the protocol in IP.
    fn number(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// A request to rpcbind for a `program` and `version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Registers the program at the address. The answer is [`Answer::Done`], or `Refused` if another address is
    /// registered.
    Set {
        /// The transport protocol.
        transport: Transport,
        /// The address.
        address: SocketAddr,
    },
    /// Removes the registrations of the program at all addresses.
    Unset,
    /// Returns the program's address, for clients of `transport` over the address family of `address`. Send it over
    /// TCP: over the unix socket, rpcbind knows only programs on unix sockets, and answers with an empty address.
    Address {
        /// The transport protocol.
        transport: Transport,
        /// The address at which rpcbind is called: the answer is an address that the same client can reach.
        address: SocketAddr,
    },
    /// [`Set`](Self::Set) for the portmapper: a port, IPv4 only.
    SetPort {
        /// The transport protocol.
        transport: Transport,
        /// The port.
        port: u16,
    },
    /// [`Unset`](Self::Unset) for the portmapper.
    UnsetPort,
}

/// The answer of rpcbind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The request was carried out.
    Done,
    /// The request was refused: the program of another user is registered, or there was no registration to remove.
    Refused,
    /// The universal address: an IP address, then the port in two bytes, all with dots. Empty if not
    /// registered.
    Address(String),
    /// rpcbind did not carry out the call, for this reason.
    Failure(String),
}

/// The client's side of a connection to rpcbind, for consecutive calls about one program.
#[derive(Debug)]
pub struct Client {
    program: u32,
    version: u32,
    records: Records,
    xid: u32,
    text: bool,
}

impl Client {
    /// Returns the client's side of a new connection, whose calls have the numbers after `xid`.
    #[must_use]
    pub fn new(program: u32, version: u32, xid: u32) -> Self {
        Self { program, version, records: Records::new(REPLY), xid, text: false }
    }

    /// Returns the bytes of `request`.
    pub fn encode(&mut self, request: Request) -> Bytes {
        self.xid = self.xid.wrapping_add(1);
        self.text = matches!(request, Request::Address { .. });
        let (version, number) = match request {
            Request::Set { .. } => (RPCBIND, SET),
            Request::Unset => (RPCBIND, UNSET),
            Request::Address { .. } => (RPCBIND, GETADDR),
            Request::SetPort { .. } => (PORTMAPPER, SET),
            Request::UnsetPort => (PORTMAPPER, UNSET),
        };
        let mut out = message::write_call(self.xid, Procedure { program: PROGRAM, version, number });
        out.put_u32(self.program);
        out.put_u32(self.version);
        match request {
            Request::Set { transport, address } | Request::Address { transport, address } => {
                put_strings(&mut out, [transport.network(address), &universal(address), ""]);
            }
            Request::Unset => put_strings(&mut out, [""; 3]),
            Request::SetPort { transport, port } => put_words(&mut out, [transport.number(), port.into()]),
            Request::UnsetPort => put_words(&mut out, [0; 2]),
        }
        message::record(&out)
    }

    /// Takes the answer from the front of `buffer`. Returns `None` if it needs more bytes.
    ///
    /// # Errors
    /// Bytes that are no answer to the last call.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed> {
        while let Some(record) = self.records.next(buffer).map_err(whole)? {
            let mut cursor = Cursor::whole(&record);
            match message::read_reply(&mut cursor, self.xid).map_err(whole)? {
                None => {}
                Some(Err(why)) => return Ok(Some(Answer::Failure(why))),
                Some(Ok(())) => return self.result(&mut cursor).map(Some).map_err(whole),
            }
        }
        Ok(None)
    }

    fn result(&self, cursor: &mut Cursor<'_>) -> Result<Answer, Stop> {
        if self.text {
            return message::read_text(cursor, ADDRESS).map(Answer::Address);
        }
        match cursor.u32()? {
            0 => Ok(Answer::Refused),
            1 => Ok(Answer::Done),
            other => Stop::malformed(format!("{other} where 0 or 1 should be")),
        }
    }
}

/// Returns an address in the format of rpcbind (RFC 5665): `127.0.0.1.31.144` is port 31 * 256 + 144.
fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

fn put_strings(out: &mut BytesMut, strings: [&str; 3]) {
    for string in strings {
        xdr::put_opaque(out, string.as_bytes());
    }
}

fn put_words(out: &mut BytesMut, words: [u32; 2]) {
    for word in words {
        out.put_u32(word);
    }
}
