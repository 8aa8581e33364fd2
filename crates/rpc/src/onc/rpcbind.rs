//! Calls to rpcbind (RFC 1833), the program that tells clients on which port another program listens.
//!
//! The rpcbind of Linux systems (1.2.6 was asked) takes `SET` and `UNSET` from any user of its machine, root
//! or not, over loopback as well as over its own unix socket ([`SOCKET`]), and from no other machine. What
//! differs is who may take a registration back. Over the unix socket it learns from the kernel who calls:
//! then only that user and root may. Over TCP and UDP it does not know, and anybody on the machine may. The
//! owner that a call names is ignored. Registering the same address again is no error; registering another
//! is, until the old one is unset; and to unset what is not there is none.
//!
//! So register over the unix socket, by [`Request::Set`]: clients that ask by version 2, the portmapper, find
//! that too. [`Request::SetPort`] is for the portmappers that came before rpcbind, over TCP to [`PORT`].
//!
//! All of them speak in records, over the unix socket as over TCP.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};

use super::message::{self, Procedure};
use super::record::Records;
use super::xdr;
use crate::Malformed;
use crate::cursor::{Cursor, Stop, whole};

/// Where rpcbind listens for calls from its own machine.
pub const SOCKET: &str = "/run/rpcbind.sock";
/// The port on which rpcbind and the portmapper listen, TCP and UDP.
pub const PORT: u16 = 111;

const PROGRAM: u32 = 100_000;
const PORTMAPPER: u32 = 2;
const RPCBIND: u32 = 4;
const SET: u32 = 1;
const UNSET: u32 = 2;
const GETADDR: u32 = 3;

/// Bytes of a reply, at most; and of the address in it.
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
    /// The network's identifier: `tcp`, `udp6`, ...
    fn network(self, address: SocketAddr) -> &'static str {
        match (self, address.is_ipv4()) {
            (Self::Tcp, true) => "tcp",
            (Self::Tcp, false) => "tcp6",
            (Self::Udp, true) => "udp",
            (Self::Udp, false) => "udp6",
        }
    }

    /// The number of the protocol within IP.
    fn number(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// What to ask rpcbind. `program` and `version` are those it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Clients find the program at the address. Answered [`Answer::Done`], or `Refused` if it is found
    /// elsewhere.
    Set {
        /// By what.
        transport: Transport,
        /// Where.
        address: SocketAddr,
    },
    /// Clients find the program no longer, at any address.
    Unset,
    /// Where the program is, for clients of `transport` over the address family of `address`. Ask over TCP:
    /// over the unix socket rpcbind knows only of programs on unix sockets, and answers with an empty
    /// address.
    Address {
        /// By what.
        transport: Transport,
        /// Where rpcbind is asked: the answer is an address that the same client can reach.
        address: SocketAddr,
    },
    /// [`Set`](Self::Set) for the portmapper: a port, IPv4 only.
    SetPort {
        /// By what.
        transport: Transport,
        /// Where.
        port: u16,
    },
    /// [`Unset`](Self::Unset) for the portmapper.
    UnsetPort,
}

/// What rpcbind answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// It was not: somebody else's program is registered, or there was nothing to remove.
    Refused,
    /// The universal address: an IP address, then the port in two bytes, all with dots. Empty if not
    /// registered.
    Address(String),
    /// Why rpcbind does not carry out the call.
    Failure(String),
}

/// Makes calls about one program on one connection to rpcbind, one after the other.
#[derive(Debug)]
pub struct Client {
    program: u32,
    version: u32,
    records: Records,
    xid: u32,
    text: bool,
}

impl Client {
    /// For a connection that has just begun, whose calls have the numbers after `xid`.
    #[must_use]
    pub fn new(program: u32, version: u32, xid: u32) -> Self {
        Self { program, version, records: Records::new(REPLY), xid, text: false }
    }

    /// The bytes that ask for `request`.
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

    /// Takes the answer off the front of `buffer`; `None` if it needs more bytes.
    ///
    /// # Errors
    /// Bytes that are no answer to the last call.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed> {
        while let Some(record) = self.records.next(buffer)? {
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

/// An address as rpcbind writes it (RFC 5665): `127.0.0.1.31.144` is port 31 * 256 + 144.
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
