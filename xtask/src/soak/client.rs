//! A client: consecutive requests on a persistent connection, contents by `Content-Length`.

use anyhow::{Context, Result};
use larder_testkit::{connect_from, head, limited};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The maximum time of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client that connects at its first use, and again after a connection has ended.
pub(super) struct Client {
    address: Ipv4Addr,
    port: u16,
    connection: Option<BufReader<TcpStream>>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether the content is complete; false if the connection ended within it.
    pub(super) is_whole: bool,
}

impl Answer {
    /// Returns the last field of this name, in lower case: the server next to the client adds its own at the end.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all fields of this name, separated by commas.
    pub(super) fn joined(&self, name: &str) -> String {
        let values = self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>().join(", ")
    }
}

impl Client {
    pub(super) fn to(port: u16) -> Self {
        Self::with_address(Ipv4Addr::LOCALHOST, port)
    }

    /// Returns a client that the proxy distinguishes from those at 127.0.0.1.
    pub(super) fn with_address(address: Ipv4Addr, port: u16) -> Self {
        Self { address, port, connection: None }
    }

    /// Sends a request, such as `GET /`, with these field lines, and reads the answer.
    ///
    /// # Errors
    /// If no head arrives.
    pub(super) fn ask(&mut self, request: &str, fields: &str) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address, self.port)?,
        };
        let length = if request.starts_with("GET") { "" } else { "Content-Length: 0\r\n" };
        let bytes = format!("{request} HTTP/1.1\r\n{length}{fields}\r\n");
        connection.get_mut().write_all(bytes.as_bytes()).context("cannot send")?;
        let answer = read(&mut connection)?;
        if answer.is_whole && answer.field("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

fn connect(from: Ipv4Addr, port: u16) -> Result<BufReader<TcpStream>> {
    let stream = connect_from(from, (Ipv4Addr::LOCALHOST, port).into()).context("cannot connect")?;
    Ok(BufReader::new(limited(stream, PATIENCE)?))
}

fn read(reader: &mut impl BufRead) -> Result<Answer> {
    let mut fields = Vec::new();
    let keep = |name: &str, value: &str| fields.push((name.to_ascii_lowercase(), value.to_owned()));
    let line = head(reader, keep).context("no answer")?.context("the connection was closed")?;
    let status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
    let status: u16 = status.with_context(|| format!("answered `{line}`"))?;
    let mut answer = Answer { status, fields, body: Vec::new(), is_whole: true };
    if !matches!(status, 204 | 304) {
        let length = answer.field("content-length").context("no content-length")?.parse()?;
        // The bytes before the end of a connection are kept, and checked, too.
        let _ = reader.take(length).read_to_end(&mut answer.body);
        answer.is_whole = answer.body.len() as u64 == length;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_truncated_response_is_distinguished_from_a_whole_one() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: 1\r\na: 2\r\n\r\n";
        for (body, is_whole) in [("abc", true), ("ab", false)] {
            let answer = read(&mut format!("{head}{body}").as_bytes()).unwrap();
            assert_eq!((answer.status, answer.is_whole), (200, is_whole));
            assert_eq!(answer.body, body.as_bytes());
            assert_eq!((answer.field("a"), answer.joined("a").as_str()), (Some("2"), "1, 2"));
        }
        assert_eq!(
            read(&mut &b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n"[..]).unwrap().status,
            304
        );
        assert!(read(&mut &b"HTTP/1.1 200 OK\r\n"[..]).is_err());
    }
}
