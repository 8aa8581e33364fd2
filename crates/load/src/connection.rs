//! A client's connection to the server, for any of the protocols.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use larder_rpc::line::Form;
use larder_rpc::thrift::{Protocol, Transport};
use larder_rpc::{Answer, Call, ClientProtocol, Limits, line, onc, thrift};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::{self, Fault};
use crate::http2;
use crate::reply::Reply;
use crate::requests::SentRequest;

/// The number of bytes in one read.
const READ: usize = 64 << 10;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// HTTP/1.1, as to a forward proxy.
    Http,
    /// HTTP/2 in clear, as to a forward proxy. All clients share a connection.
    Http2,
    /// Thrift.
    Thrift,
    /// ONC RPC over TCP.
    Onc,
    /// The line protocol.
    Line,
}

/// The forms of protocols that have several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialect {
    /// The transport of Thrift.
    pub transport: Transport,
    /// The encoding of Thrift.
    pub protocol: Protocol,
    /// The form of the line protocol.
    pub form: Form,
}

/// A client with separate connections, for URLs that the client here does not support.
pub trait ForeignClient {
    /// Returns the answer to a request, with its content if `wants` is set; or the reason why there is none, in one
    /// line.
    fn ask<'f>(
        &'f mut self,
        sent: SentRequest<'f>,
        wants: bool,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, String>> + 'f>>;
}

/// An open connection.
pub struct Connection(Wire);

enum Wire {
    Http(http::Connection),
    Http2(http2::Connection),
    Rpc(Box<Rpc>),
}

struct Rpc {
    stream: TcpStream,
    codec: Box<dyn ClientProtocol>,
    buffer: BytesMut,
}

impl Connection {
    /// Connects to `to`.
    ///
    /// # Errors
    /// If it does not accept connections, or does not speak the protocol.
    pub async fn open(via: Via, dialect: Dialect, to: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(to).await;
        let stream = stream.map_err(|error| format!("cannot connect to {to}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let limits = Limits::default();
        let codec: Box<dyn ClientProtocol> = match via {
            Via::Http => return Ok(Self(Wire::Http(http::Connection::new(stream, to)))),
            Via::Http2 => {
                let connection = http2::Connection::new(stream, to).await;
                return connection.map(|shared| Self(Wire::Http2(shared))).map_err(|fault| fault.why);
            }
            Via::Thrift => Box::new(thrift::Client::new(dialect.transport, dialect.protocol, limits)),
            Via::Onc => Box::new(onc::Client::new(std::process::id(), limits)),
            Via::Line => Box::new(line::Client::new(dialect.form, limits)),
        };
        Ok(Self(Wire::Rpc(Box::new(Rpc { stream, codec, buffer: BytesMut::new() }))))
    }

    /// Returns the same connection for another client, if several clients can use it at once.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.0 {
            Wire::Http2(connection) => Some(Self(Wire::Http2(connection.clone()))),
            Wire::Http(_) | Wire::Rpc(_) => None,
        }
    }

    /// Returns the answer, with its content if `wants` is set, and whether the connection can be reused.
    ///
    /// # Errors
    /// If there is no answer, or only a part of it. The connection must not be used again.
    pub async fn ask(&mut self, sent: SentRequest<'_>, wants: bool) -> Result<(Reply, bool), Fault> {
        match &mut self.0 {
            Wire::Http(connection) => connection.ask(sent, wants).await,
            Wire::Http2(connection) => connection.ask(sent, wants).await,
            Wire::Rpc(rpc) => rpc.ask(sent.url, wants).await,
        }
    }
}

impl Rpc {
    async fn ask(&mut self, url: &str, wants: bool) -> Result<(Reply, bool), Fault> {
        let call = self.codec.encode(&Call::Fetch { url: url.to_owned() }).map_err(|error| error.0)?;
        let closed = |error: std::io::Error| Fault { why: error.to_string(), is_closed: true };
        self.stream.write_all(&call).await.map_err(closed)?;
        let mut came = false;
        let (answer, is_kept) = loop {
            if let Some(answer) = self.codec.decode(&mut self.buffer).map_err(|error| error.0)? {
                break (answer, true);
            }
            self.buffer.reserve(READ);
            let fault = |why| Fault { why, is_closed: !came };
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => break (self.codec.close().map_err(|error| fault(error.0))?, false),
                Ok(_) => came = true,
                Err(error) => return Err(fault(error.to_string())),
            }
        };
        let reply = match answer {
            Answer::Page(page) => {
                let bytes = page.len() as u64;
                let content = if wants { page } else { Bytes::new() };
                Reply { status: 200, bytes, content, ..Reply::default() }
            }
            Answer::Failure(failure) if failure.status > 0 => {
                Reply { status: failure.status, reason: failure.why, ..Reply::default() }
            }
            Answer::Failure(failure) => return Err(failure.why.into()),
            Answer::Statistics(_) | Answer::Done => return Err("an answer to another call".into()),
        };
        Ok((reply, is_kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_what_the_first_cache_says() {
        let reply = |lines: &[&str]| Reply {
            cache: lines.iter().map(|line| (*line).to_owned()).collect(),
            ..Reply::default()
        };
        for (lines, expected) in [
            (&[][..], None),
            (&["Larder; hit; ttl=300"], Some(true)),
            (&["Larder;hit"], Some(true)),
            (&["Larder; fwd=uri-miss; fwd-status=200; stored; ttl=354", "Larder; hit"], Some(false)),
            (&["\"hits\"; fwd=stale; detail=hit-or-miss"], Some(false)),
        ] {
            assert_eq!(reply(lines).is_hit(), expected, "{lines:?}");
        }
    }
}
