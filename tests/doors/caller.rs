//! A client of a door (a listener for RPC), and a proxy with all doors.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use larder_rpc::{Answer, Call, ClientProtocol, Failure, Limits, Statistics, line, onc, thrift};
use larder_testkit::{Larder, PATIENCE};

/// The doors of every scenario.
pub(crate) const DOORS: [&str; 3] = ["thrift", "onc", "line"];

const OPEN: &str = "\
[thrift]
listen = '127.0.0.1:0'
[onc]
listen = '127.0.0.1:0'
rpcbind = 'off'
";

/// Starts a proxy with every door, whose clients may reach this machine.
pub(crate) fn open(tables: &str) -> Larder {
    let line = "[line]\nlisten = '127.0.0.1:0'\n";
    Larder::start(&format!("{OPEN}{line}[forward]\nallow_private = true\n{tables}"))
}

/// Starts a proxy like [`open`], but `tables` sets the line listener and the reachable addresses.
pub(crate) fn open_with(tables: &str) -> Larder {
    Larder::start(&format!("{OPEN}{tables}"))
}

pub(crate) fn get(url: &str) -> Call {
    Call::Fetch { url: url.to_owned() }
}

/// A client with one connection.
pub(crate) struct Caller {
    pub(crate) stream: TcpStream,
    codec: Box<dyn ClientProtocol>,
    buffer: BytesMut,
}

impl Caller {
    pub(crate) fn to(larder: &Larder, door: &str) -> Self {
        let limits = Limits::default();
        let codec: Box<dyn ClientProtocol> = match door {
            "thrift" => {
                let (transport, protocol) = (thrift::Transport::Framed, thrift::Protocol::Compact);
                Box::new(thrift::Client::new(transport, protocol, limits))
            }
            "onc" => Box::new(onc::Client::new(7, limits)),
            _ => Box::new(line::Client::new(line::Form::Framed, limits)),
        };
        Self::speaking(larder, door, codec)
    }

    pub(crate) fn speaking(larder: &Larder, door: &str, codec: Box<dyn ClientProtocol>) -> Self {
        let stream = TcpStream::connect(larder.door(door)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, codec, buffer: BytesMut::new() }
    }

    pub(crate) fn encode(&mut self, call: &Call) -> Bytes {
        self.codec.encode(call).expect("a call that the protocol has")
    }

    /// Sends raw bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it reads");
    }

    pub(crate) fn call(&mut self, call: &Call) -> Answer {
        let bytes = self.encode(call);
        self.send(&bytes);
        self.answer().expect("an answer")
    }

    /// Returns the next answer; `None` if the connection was closed before it was complete.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut block = vec![0; 64 << 10];
        loop {
            if let Some(answer) = self.codec.decode(&mut self.buffer).expect("the protocol") {
                return Some(answer);
            }
            match self.stream.read(&mut block) {
                Ok(0) => return self.codec.close().ok(),
                Ok(count) => self.buffer.extend_from_slice(&block[..count]),
                Err(_) => return None,
            }
        }
    }

    pub(crate) fn page(&mut self, url: &str) -> Bytes {
        match self.call(&get(url)) {
            Answer::Page(page) => page,
            other => panic!("no page: {other:?}"),
        }
    }

    pub(crate) fn failure(&mut self, url: &str) -> Failure {
        match self.call(&get(url)) {
            Answer::Failure(failure) => failure,
            other => panic!("no failure: {other:?}"),
        }
    }

    pub(crate) fn statistics(&mut self) -> Statistics {
        match self.call(&Call::Statistics) {
            Answer::Statistics(statistics) => *statistics,
            other => panic!("no statistics: {other:?}"),
        }
    }

    /// Returns all bytes until the connection ends, by a shutdown or a reset.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it stays open");
        }
        rest
    }
}
