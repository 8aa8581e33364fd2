//! A client of a server of pages over an RPC protocol.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use larder_rpc::line::Form;
use larder_rpc::thrift::{Protocol, Transport};
use larder_rpc::{Answer, Call, ClientProtocol, Limits, line, onc, thrift};

use super::client::{PageClient, Problem, describe};

/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// An RPC protocol, with its form.
#[derive(Clone, Copy, Debug)]
pub(super) enum RpcProtocol {
    Thrift(Transport, Protocol),
    Onc,
    Line(Form),
}

impl RpcProtocol {
    fn codec(self) -> Box<dyn ClientProtocol> {
        let limits = Limits::default();
        match self {
            Self::Thrift(transport, protocol) => Box::new(thrift::Client::new(transport, protocol, limits)),
            Self::Onc => Box::new(onc::Client::new(std::process::id(), limits)),
            Self::Line(form) => Box::new(line::Client::new(form, limits)),
        }
    }
}

/// A client of an RPC server.
pub(super) struct RpcClient {
    server: String,
    protocol: RpcProtocol,
    patience: Duration,
    connection: Option<Connection>,
}

impl RpcClient {
    /// Creates a client of `server`, a host and a port, whose answers may take at most `patience`.
    pub(super) fn new(server: &str, protocol: RpcProtocol, patience: Duration) -> Self {
        Self { server: server.to_owned(), protocol, patience, connection: None }
    }

    fn connect(&self) -> Result<Connection, Problem> {
        let failed = |error: io::Error| {
            let why = if is_timeout(&error) { self.silence() } else { describe(&error) };
            Problem::Failed(format!("cannot connect to {}: {why}", self.server))
        };
        let mut outcome = Err(io::Error::other("no such address"));
        for address in self.server.to_socket_addrs().map_err(failed)? {
            outcome = TcpStream::connect_timeout(&address, self.patience);
            if outcome.is_ok() {
                break;
            }
        }
        let stream = outcome.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Connection { stream, codec: self.protocol.codec(), buffer: BytesMut::new(), read: vec![0; READ] })
    }

    /// Whether the server reports failures by a reset.
    fn fails_by_reset(&self) -> bool {
        matches!(self.protocol, RpcProtocol::Line(Form::Bare))
    }

    fn silence(&self) -> String {
        format!("no answer in {}", crate::cli::units::show_duration(self.patience))
    }

    fn explain(&self, stop: Stop) -> Problem {
        match stop {
            Stop::Io(error) if is_timeout(&error) => Problem::Failed(self.silence()),
            Stop::Io(error) if self.fails_by_reset() && error.kind() == ErrorKind::ConnectionReset => {
                Problem::Failed(
                    "no page: the server reset the connection, which means a failure in bare lines"
                        .to_owned(),
                )
            }
            Stop::Io(error) => Problem::Broken(format!("the connection broke: {}", describe(&error))),
            Stop::Closed(why) => Problem::Broken(why),
            Stop::Nonsense(why) => Problem::Failed(why),
        }
    }
}

impl PageClient for RpcClient {
    fn ask(&mut self, call: &Call) -> Result<Answer, Problem> {
        let deadline = Instant::now() + self.patience;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let (answer, is_open) = connection.ask(call, deadline).map_err(|stop| self.explain(stop))?;
        self.connection = is_open.then_some(connection);
        Ok(answer)
    }
}

struct Connection {
    stream: TcpStream,
    codec: Box<dyn ClientProtocol>,
    buffer: BytesMut,
    /// The buffer for reads from the system.
    read: Vec<u8>,
}

/// The reason why a connection is not usable any more.
enum Stop {
    Io(io::Error),
    /// The server closed it in the middle of an answer.
    Closed(String),
    /// Data that was to be sent, or was received, violates the protocol.
    Nonsense(String),
}

impl Connection {
    /// Returns the answer, and whether the connection is still open.
    fn ask(&mut self, call: &Call, deadline: Instant) -> Result<(Answer, bool), Stop> {
        let nonsense = |why: larder_rpc::Malformed| Stop::Nonsense(why.0);
        let request = self.codec.encode(call).map_err(nonsense)?;
        self.stream.set_write_timeout(Some(left(deadline)?)).map_err(Stop::Io)?;
        self.stream.write_all(&request).map_err(Stop::Io)?;
        loop {
            if let Some(answer) = self.codec.decode(&mut self.buffer).map_err(nonsense)? {
                return Ok((answer, true));
            }
            self.stream.set_read_timeout(Some(left(deadline)?)).map_err(Stop::Io)?;
            match self.stream.read(&mut self.read) {
                Ok(0) => {
                    let answer = self.codec.close().map_err(|why| Stop::Closed(why.0))?;
                    return Ok((answer, false));
                }
                Ok(read) => self.buffer.extend_from_slice(&self.read[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Io(error)),
            }
        }
    }
}

/// Returns the time until `deadline`; an error after it.
fn left(deadline: Instant) -> Result<Duration, Stop> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Stop::Io(ErrorKind::TimedOut.into())) } else { Ok(left) }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
