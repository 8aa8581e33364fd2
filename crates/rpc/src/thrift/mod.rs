//! Apache Thrift: the service of [`larder.thrift`](INTERFACE), for clients that its compiler makes.
//!
//! A server finds out from the bytes what a client speaks: framed or buffered transport from the beginning of
//! the connection, binary (with a version or without) or compact protocol from the beginning of each message.
//!
//! The codec is our own. The published library reads from a blocking stream into vectors of its own, while we
//! need to stop where the bytes stop, to know lengths before there is room for them, and to send a page that
//! is not copied. For three methods that is little code.

use bytes::{Buf, Bytes, BytesMut};

use crate::cursor::{Cursor, Stop, whole};
use crate::{
    Answer, Answering, Asked, Call, Calling, Envelope, Failure, Limits, Malformed, Rejected, Replying,
};
use crate::{Statistics, gibberish, one_line};

mod protocol;
mod schema;
mod transport;

pub use protocol::Protocol;
use protocol::{Header, Kind, Reader, STOP, Writer};
use schema::{Method, Outcome, Refusal};
pub use transport::Transport;
use transport::unframe;

/// The interface, for the compiler of Apache Thrift.
pub const INTERFACE: &str = include_str!("../../larder.thrift");

/// Bytes of a reply that are not its page, at most: what is left of the largest length for the page.
const AROUND: usize = 1024;

/// Reads the calls of one connection.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    transport: Option<Transport>,
}

impl Server {
    /// For a connection that has just begun.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, transport: None }
    }
}

impl Answering for Server {
    type Reply = Reply;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Asked<Reply>>, Rejected> {
        self.transport = self.transport.or_else(|| Transport::of(buffer));
        match self.transport {
            None => Ok(None),
            Some(Transport::Framed) => match unframe(buffer, self.limits.message).map_err(gibberish)? {
                Some(frame) => framed_call(&frame).map(Some),
                None => Ok(None),
            },
            Some(Transport::Buffered) => buffered_call(buffer, self.limits.message),
        }
    }
}

/// Reads a call that is all of `frame`. Whatever is wrong with it, the next frame is sound.
fn framed_call(frame: &[u8]) -> Result<Asked<Reply>, Rejected> {
    let protocol = Protocol::of(frame.first().copied().unwrap_or_default());
    let mut reader = Reader::new(protocol, Cursor::whole(frame));
    let header = reader.message().map_err(|stop| gibberish(whole(stop)))?;
    let reply = Reply::to(Transport::Framed, protocol, &reader, &header);
    let arguments = call(&mut reader, &header).map_err(|stop| reply.malformed(whole(stop), false))?;
    if reader.at() < frame.len() {
        let why = Malformed(format!("{} bytes after the call in its frame", frame.len() - reader.at()));
        return Err(reply.malformed(why, false));
    }
    reply.asked(arguments)
}

/// Reads a call off the front of `buffer`. If it cannot be read to its end, nobody knows where the next
/// begins.
fn buffered_call(buffer: &mut BytesMut, limit: usize) -> Result<Option<Asked<Reply>>, Rejected> {
    let Some(&first) = buffer.first() else { return Ok(None) };
    let protocol = Protocol::of(first);
    let mut reader = Reader::new(protocol, Cursor::partial(buffer, limit));
    let header = match reader.message() {
        Ok(header) => header,
        Err(Stop::Short) => return Ok(None),
        Err(Stop::Malformed(why)) => return Err(gibberish(why)),
    };
    let arguments = match call(&mut reader, &header) {
        Err(Stop::Short) => return Ok(None),
        arguments => arguments,
    };
    let reply = Reply::to(Transport::Buffered, protocol, &reader, &header);
    let used = reader.at();
    let arguments = arguments.map_err(|stop| reply.malformed(whole(stop), true))?;
    buffer.advance(used);
    reply.asked(arguments).map(Some)
}

fn call(reader: &mut Reader<'_>, header: &Header) -> Result<Result<Call, Refusal>, Stop> {
    let name = reader.bytes(&header.name);
    let arguments = schema::read_arguments(reader, name)?;
    Ok(match header.kind {
        Kind::Call | Kind::Oneway => arguments,
        kind @ (Kind::Reply | Kind::Exception) => {
            let why = Malformed(format!("a message of type {}, not a call", kind as u8));
            Err(Refusal { code: Some(schema::INVALID_MESSAGE_TYPE), why })
        }
    })
}

/// Encodes the reply to one call, as its client speaks.
#[derive(Debug)]
pub struct Reply {
    transport: Transport,
    protocol: Protocol,
    name: Bytes,
    sequence: i32,
    /// The client does not read replies to this call.
    silent: bool,
}

impl Reply {
    fn to(transport: Transport, protocol: Protocol, reader: &Reader<'_>, header: &Header) -> Self {
        let name = Bytes::copy_from_slice(reader.bytes(&header.name));
        Self { transport, protocol, name, sequence: header.sequence, silent: header.kind == Kind::Oneway }
    }

    fn asked(self, call: Result<Call, Refusal>) -> Result<Asked<Self>, Rejected> {
        match call {
            Ok(call) => Ok(Asked { call, reply: self }),
            Err(Refusal { code, why }) => {
                let reply = match code {
                    Some(code) => self.exception(code, &why.0),
                    None => self.failure(&Failure { what: String::new(), why: why.0.clone(), status: 400 }),
                };
                Err(Rejected { reply, close: false, why })
            }
        }
    }

    fn malformed(&self, why: Malformed, close: bool) -> Rejected {
        Rejected { reply: self.exception(schema::PROTOCOL_ERROR, &why.0), close, why }
    }

    fn exception(&self, code: i32, why: &str) -> Bytes {
        self.finish(schema::write_exception(self.protocol, &self.name, self.sequence, code, why))
    }

    /// A reply whose result struct has the fields that `write` writes.
    fn result(&self, write: impl FnOnce(&mut Writer)) -> Bytes {
        let mut writer = self.begin();
        write(&mut writer);
        writer.stop();
        self.finish(writer.into_bytes())
    }

    fn begin(&self) -> Writer {
        Writer::message(self.protocol, Kind::Reply, &self.name, self.sequence)
    }

    fn finish(&self, message: BytesMut) -> Bytes {
        if self.silent { Bytes::new() } else { self.transport.wrap(&message, message.len()) }
    }
}

impl Replying for Reply {
    /// Lengths are 31 bits. A client that does not read the reply cannot be sent a page.
    fn page(&self, length: usize) -> Option<Envelope> {
        if self.silent || length > i32::MAX as usize - AROUND {
            return None;
        }
        let mut writer = self.begin();
        writer.binary_head(0, length);
        let head = writer.into_bytes();
        let tail = Bytes::from_static(&[STOP]);
        let whole = head.len() + length + tail.len();
        Some(Envelope { head: self.transport.wrap(&head, whole), chunks: false, tail })
    }

    fn failure(&self, failure: &Failure) -> Bytes {
        match Method::named(&self.name) {
            Some(Method::GetData) => self.result(|writer| schema::write_failure(writer, failure)),
            // The other methods declare no exception.
            _ => self.exception(schema::INTERNAL_ERROR, &one_line(&failure.why)),
        }
    }

    fn statistics(&self, statistics: &Statistics) -> Bytes {
        self.result(|writer| schema::write_statistics(writer, statistics))
    }

    fn done(&self) -> Bytes {
        self.result(|_| {})
    }
}

/// Makes calls on one connection.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    protocol: Protocol,
    limits: Limits,
    sequence: i32,
    pending: Option<(Method, Call)>,
}

impl Client {
    /// For a connection that has just begun.
    #[must_use]
    pub fn new(transport: Transport, protocol: Protocol, limits: Limits) -> Self {
        Self { transport, protocol, limits, sequence: 0, pending: None }
    }

    /// Reads the reply that `bytes` begin with: what it says, and how long it is.
    fn read(&self, cursor: Cursor<'_>, method: Method) -> Result<(Outcome, usize), Stop> {
        let mut reader = Reader::new(self.protocol, cursor);
        let header = reader.message()?;
        if header.sequence != self.sequence {
            let (got, wanted) = (header.sequence, self.sequence);
            return Stop::malformed(format!("the reply to call {got} where that to {wanted} was due"));
        }
        let outcome = match header.kind {
            Kind::Reply => schema::read_result(&mut reader, method)?,
            Kind::Exception => {
                let why = schema::read_exception(&mut reader)?;
                Outcome::Failure(Failure { why, ..Failure::default() })
            }
            Kind::Call | Kind::Oneway => return Stop::malformed("a call where a reply was due"),
        };
        Ok((outcome, reader.at()))
    }

    /// Takes a reply off the front of `buffer`: its bytes, and what they say.
    fn take(&self, buffer: &mut BytesMut, method: Method) -> Result<(Bytes, Outcome), Stop> {
        let limit = self.limits.reply();
        match self.transport {
            Transport::Framed => {
                let frame = unframe(buffer, limit).map_err(Stop::Malformed)?.ok_or(Stop::Short)?;
                let (outcome, _) = self.read(Cursor::whole(&frame), method)?;
                Ok((frame, outcome))
            }
            Transport::Buffered => {
                let (outcome, used) = self.read(Cursor::partial(buffer, limit), method)?;
                Ok((buffer.split_to(used).freeze(), outcome))
            }
        }
    }
}

impl Calling for Client {
    fn encode(&mut self, call: &Call) -> Result<Bytes, Malformed> {
        let method = Method::of(call)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.pending = Some((method, call.clone()));
        let message = schema::write_call(self.protocol, method, call, self.sequence);
        Ok(self.transport.wrap(&message, message.len()))
    }

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed> {
        let Some((method, _)) = &self.pending else {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(Malformed("a reply to no call".to_owned()))
            };
        };
        let (bytes, outcome) = match self.take(buffer, *method) {
            Ok(taken) => taken,
            Err(Stop::Short) => return Ok(None),
            Err(Stop::Malformed(why)) => return Err(why),
        };
        let called = self.pending.take();
        Ok(Some(match outcome {
            Outcome::Page(place) if place.len() > self.limits.page => {
                let (length, limit) = (place.len(), self.limits.page);
                return Err(Malformed(format!("a page of {length} bytes, over the limit of {limit}")));
            }
            Outcome::Page(place) => Answer::Page(bytes.slice(place)),
            Outcome::Statistics(statistics) => Answer::Statistics(statistics),
            Outcome::Nothing => Answer::Done,
            Outcome::Failure(mut failure) => {
                if let (true, Some((_, Call::Fetch { url }))) = (failure.what.is_empty(), called) {
                    failure.what = url;
                }
                Answer::Failure(failure)
            }
        }))
    }
}
