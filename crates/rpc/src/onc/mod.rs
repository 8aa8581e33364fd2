//! ONC RPC (RFC 5531), also called Sun RPC: the program of [`webpage.x`](INTERFACE), for clients that
//! `rpcgen` makes.
//!
//! Over TCP, messages are records ([`Server`], [`Client`]). Over UDP, each datagram is a message
//! ([`datagram`]). Credentials are none or of the system's kind, and not judged: who may call is for the
//! listener's address to say. [`rpcbind`] tells clients where the program is.

use bytes::{BufMut, Bytes, BytesMut};

use crate::cursor::{Cursor, whole};
use crate::{
    Answer, Answering, Asked, Call, Calling, Envelope, Failure, Limits, Malformed, Rejected, Replying,
};
use crate::{Statistics, gibberish, url};

mod message;
mod record;
pub mod rpcbind;
mod xdr;

use message::{Heard, Procedure, Refusal};
use record::Records;

/// The interface, for `rpcgen`.
pub const INTERFACE: &str = include_str!("../../webpage.x");

/// The number of our program.
pub const PROGRAM: u32 = 0x2345_1111;
/// Its only version.
pub const VERSION: u32 = 1;
/// Bytes of a page, at most.
pub const LONGEST_PAGE: usize = 20_971_520;

/// Procedures: one that does nothing, as every program has, and the one that fetches.
const NULL: u32 = 0;
const FETCH: u32 = 1;

/// Bytes of a reply in a datagram, at most: the buffer size of libtirpc's clients. It also limits the answer to a forged
/// sender address.
const DATAGRAM: usize = 8800;

/// Reads the calls of one TCP connection.
#[derive(Debug)]
pub struct Server {
    records: Records,
}

impl Server {
    /// For a connection that has just begun.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { records: Records::new(limits.message) }
    }
}

impl Answering for Server {
    type Reply = Reply;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Asked<Reply>>, Rejected> {
        match self.records.next(buffer).map_err(gibberish)? {
            Some(record) => decode(&record, Transport::Stream).map(Some),
            None => Ok(None),
        }
    }
}

/// Reads the call that is in one datagram. There is no connection that a [`Rejected`] could want closed.
///
/// # Errors
/// A message that asks for nothing we have, or is none.
pub fn datagram(bytes: &[u8]) -> Result<Asked<Reply>, Rejected> {
    decode(bytes, Transport::Datagram)
}

fn decode(bytes: &[u8], transport: Transport) -> Result<Asked<Reply>, Rejected> {
    let mut cursor = Cursor::whole(bytes);
    let (xid, heard) = message::read_call(&mut cursor).map_err(|stop| gibberish(whole(stop)))?;
    let reply = Reply { xid, transport };
    let outcome = match heard {
        Heard::Call(procedure) => call(&mut cursor, procedure),
        Heard::Refused(refusal, why) => Err((refusal, why)),
    };
    match outcome {
        Ok(call) => Ok(Asked { call, reply }),
        Err((refusal, why)) => Err(Rejected { reply: reply.refuse(refusal), close: false, why }),
    }
}

fn call(cursor: &mut Cursor<'_>, procedure: Procedure) -> Result<Call, (Refusal, Malformed)> {
    let Procedure { program, version, number } = procedure;
    let refused = |refusal, why: String| Err((refusal, Malformed(why)));
    if program != PROGRAM {
        return refused(Refusal::ProgramUnavailable, format!("program {program:#x}, not {PROGRAM:#x}"));
    }
    if version != VERSION {
        return refused(
            Refusal::ProgramMismatch(VERSION, VERSION),
            format!("version {version}, not {VERSION}"),
        );
    }
    let garbage = |why| (Refusal::GarbageArguments, why);
    let call = match number {
        NULL => Call::Ping,
        FETCH => {
            let most = cursor.room();
            let place = xdr::opaque(cursor, most).map_err(|stop| garbage(whole(stop)))?;
            Call::Fetch { url: url(cursor.bytes(&place)).map_err(garbage)? }
        }
        other => return refused(Refusal::ProcedureUnavailable, format!("procedure {other}, not 0 or 1")),
    };
    match cursor.room() {
        0 => Ok(call),
        more => refused(Refusal::GarbageArguments, format!("{more} bytes after the arguments")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stream,
    Datagram,
}

/// Encodes the reply to one call.
#[derive(Debug)]
pub struct Reply {
    xid: u32,
    transport: Transport,
}

impl Reply {
    fn refuse(&self, refusal: Refusal) -> Bytes {
        self.send(&message::write_refusal(self.xid, refusal))
    }

    fn send(&self, message: &[u8]) -> Bytes {
        match self.transport {
            Transport::Stream => message::record(message),
            Transport::Datagram => Bytes::copy_from_slice(message),
        }
    }
}

impl Replying for Reply {
    fn page(&self, length: usize) -> Option<Envelope> {
        if length > LONGEST_PAGE {
            return None;
        }
        let mut message = message::write_success(self.xid);
        message.put_u32(length as u32);
        let padding = xdr::padding(length);
        let whole = message.len() + length + padding;
        let head = match self.transport {
            Transport::Stream => [&record::mark(whole)[..], &message].concat().into(),
            Transport::Datagram if whole > DATAGRAM => return None,
            Transport::Datagram => message.freeze(),
        };
        Some(Envelope { head, chunks: false, tail: Bytes::from_static(&[0; 3][..padding]) })
    }

    /// The protocol has no words for the reason, but three kinds of errors: arguments that cannot be used, a caller that is
    /// not permitted, and all else.
    fn failure(&self, failure: &Failure) -> Bytes {
        self.refuse(match failure.status {
            400 | 414 => Refusal::GarbageArguments,
            401 | 403 | 407 => Refusal::Auth(message::AUTH_TOOWEAK),
            _ => Refusal::SystemError,
        })
    }

    /// The program has no procedure for it, so that nobody asks.
    fn statistics(&self, _: &Statistics) -> Bytes {
        self.refuse(Refusal::ProcedureUnavailable)
    }

    fn done(&self) -> Bytes {
        self.send(&message::write_success(self.xid))
    }
}

/// Makes calls on one TCP connection.
#[derive(Debug)]
pub struct Client {
    records: Records,
    longest_page: usize,
    xid: u32,
    pending: Option<Call>,
}

impl Client {
    /// For a connection that has just begun, whose first call has the number `xid`.
    #[must_use]
    pub fn new(xid: u32, limits: Limits) -> Self {
        let longest_page = limits.page.min(LONGEST_PAGE);
        let records = Records::new(longest_page.saturating_add(limits.message));
        Self { records, longest_page, xid, pending: None }
    }
}

impl Calling for Client {
    fn encode(&mut self, call: &Call) -> Result<Bytes, Malformed> {
        let number = match call {
            Call::Ping => NULL,
            Call::Fetch { .. } => FETCH,
            Call::Statistics => return Err(Malformed("onc rpc has no call for statistics".to_owned())),
            Call::Reset => return Err(Malformed("onc rpc has no call to reset statistics".to_owned())),
        };
        self.xid = self.xid.wrapping_add(u32::from(self.pending.replace(call.clone()).is_some()));
        let mut message =
            message::write_call(self.xid, Procedure { program: PROGRAM, version: VERSION, number });
        if let Call::Fetch { url } = call {
            xdr::put_opaque(&mut message, url.as_bytes());
        }
        Ok(message::record(&message))
    }

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed> {
        while let Some(record) = self.records.next(buffer)? {
            let Some(call) = &self.pending else { return Err(Malformed("a reply to no call".to_owned())) };
            let mut cursor = Cursor::whole(&record);
            let answer = match message::read_reply(&mut cursor, self.xid).map_err(whole)? {
                // The late answer to a call that has ended.
                None => continue,
                Some(Ok(())) if *call == Call::Ping => Answer::Done,
                Some(Ok(())) => {
                    let place = xdr::opaque(&mut cursor, self.longest_page).map_err(whole)?;
                    Answer::Page(record.slice(place))
                }
                Some(Err(why)) => {
                    let what = if let Call::Fetch { url } = call { url.clone() } else { String::new() };
                    Answer::Failure(Failure { what, why, status: 0 })
                }
            };
            self.pending = None;
            self.xid = self.xid.wrapping_add(1);
            return Ok(Some(answer));
        }
        Ok(None)
    }
}
