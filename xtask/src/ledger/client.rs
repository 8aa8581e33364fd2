//! A connection that fetches one URL again and again, in HTTP/1.1 or HTTP/2, from a program that is very slow.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The maximum time of an answer.
const PATIENCE: Duration = Duration::from_secs(600);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types and flags of frames (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    authority: &'static str,
    path: String,
    /// The next stream of HTTP/2.
    next: Option<u32>,
}

impl Connection {
    /// Connects to a port of this machine; `authority` names the site. Fails if nothing listens there.
    pub(super) fn open(port: u16, authority: &'static str, is_http2: bool, path: String) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("cannot connect")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut connection =
            Self { stream: BufReader::new(stream), authority, path, next: is_http2.then_some(1) };
        if is_http2 {
            connection.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat())?;
        }
        Ok(connection)
    }

    /// Fetches the URL. Fails if the answer is not the content.
    pub(super) fn get(&mut self) -> Result<()> {
        match self.next {
            None => self.get_by_http1(),
            Some(stream) => {
                self.next = Some(stream + 2);
                self.get_by_http2(stream)
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes).context("cannot send")
    }

    fn get_by_http1(&mut self) -> Result<()> {
        self.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.path, self.authority).as_bytes())?;
        let (mut line, mut length) = (String::new(), 0);
        self.stream.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 200"), "{}: {}", self.path, line.trim_end());
        while line != "\r\n" {
            line.clear();
            self.stream.read_line(&mut line)?;
            if let Some((name, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().with_context(|| name.to_owned())?;
            }
        }
        self.stream.read_exact(&mut vec![0; length]).context("the answer is incomplete")
    }

    fn get_by_http2(&mut self, stream: u32) -> Result<()> {
        let fields =
            [(":method", "GET"), (":scheme", "http"), (":authority", self.authority), (":path", &self.path)];
        let section: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
        let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, stream, &section);
        // The window for content, of which few requests use much.
        bytes.extend(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0x10, 0]));
        self.send(&bytes)?;
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head)?;
            let [high, middle, low, kind, flags, number @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
            self.stream.read_exact(&mut payload)?;
            let is_own = u32::from_be_bytes(number) == stream;
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(&frame(SETTINGS, ACK, 0, &[]))?,
                DATA if is_own && flags & END_STREAM != 0 => return Ok(()),
                HEADERS if is_own && flags & END_STREAM != 0 => bail!("{}: no content", self.path),
                GOAWAY => bail!("the connection was ended"),
                _ => {}
            }
        }
    }
}

/// Returns a frame (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
    [&[high, middle, low, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Returns a field that enters no table (RFC 7541 section 6.2.2). Names and values are short.
fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}
