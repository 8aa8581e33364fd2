//! The client of benches and soaks: consecutive requests on a persistent connection, contents by `Content-Length`.
//! Unlike the testkit's client, it returns errors, and is not strict.

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::{connect_from, head, limited};
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The maximum time of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So large that large contents need few reads.
const BUFFER: usize = 64 << 10;

/// A client that connects at its first use, and again after a connection has ended.
pub(crate) struct Client {
    address: Ipv4Addr,
    port: u16,
    connection: Option<BufReader<TcpStream>>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the content is complete; false if the connection ended within it.
    pub(crate) is_whole: bool,
}

impl Answer {
    /// Returns the last field of this name, in lower case: the server next to the client adds its own at the end.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all fields of this name, separated by commas.
    pub(crate) fn joined(&self, name: &str) -> String {
        let values = self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>().join(", ")
    }
}

impl Client {
    /// Returns a client of a port of 127.0.0.1.
    pub(crate) fn to(port: u16) -> Self {
        Self::with_address(Ipv4Addr::LOCALHOST, port)
    }

    /// Returns a client that the proxy distinguishes from those at 127.0.0.1.
    pub(crate) fn with_address(address: Ipv4Addr, port: u16) -> Self {
        Self { address, port, connection: None }
    }

    /// Returns a client that is connected already, so that its first request takes no longer than others. Fails if it
    /// cannot connect.
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let mut client = Self::to(port);
        client.connection = Some(client.open()?);
        Ok(client)
    }

    fn open(&self) -> Result<BufReader<TcpStream>> {
        let to = (Ipv4Addr::LOCALHOST, self.port).into();
        let stream = connect_from(self.address, to).context("cannot connect")?;
        Ok(BufReader::with_capacity(BUFFER, limited(stream, PATIENCE)?))
    }

    /// Sends a request, such as `GET /`, with these field lines, and reads the answer. Fails if no head arrives.
    pub(crate) fn ask(&mut self, request: &str, fields: &str) -> Result<Answer> {
        let length = if request.starts_with("GET") { "" } else { "Content-Length: 0\r\n" };
        let mut connection = self.send(&format!("{request} HTTP/1.1\r\n{length}{fields}\r\n"))?;
        let mut fields = Vec::new();
        let keep = |name: &str, value: &str| fields.push((name.to_ascii_lowercase(), value.to_owned()));
        let status = status(&mut connection, keep)?;
        let mut answer = Answer { status, fields, body: Vec::new(), is_whole: true };
        if !matches!(status, 204 | 304) {
            let length = answer.field("content-length").context("no content-length")?.parse()?;
            // The bytes before the end of a connection are kept, and checked, too.
            let _ = connection.by_ref().take(length).read_to_end(&mut answer.body);
            answer.is_whole = answer.body.len() as u64 == length;
        }
        if answer.is_whole && answer.field("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    /// Fetches a page and returns the number of bytes in its content. Fails if the status is not 200, or the answer is
    /// incomplete.
    pub(crate) fn get(&mut self, path: &str) -> Result<u64> {
        self.request(&[path])?;
        self.answer(path, &mut std::io::sink())
    }

    /// Sends requests for several paths at once; [`Client::answer`] reads the answers, in the same order.
    pub(crate) fn request(&mut self, paths: &[impl AsRef<str>]) -> Result<()> {
        // The same host as wrk's: a cache may store a separate object for each host.
        let host = format!("HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
        let requests: String = paths.iter().map(|path| format!("GET {} {host}", path.as_ref())).collect();
        self.connection = Some(self.send(&requests)?);
        Ok(())
    }

    /// Reads the next answer, that for `path`, writes its content to `into`, and returns the number of bytes.
    pub(crate) fn answer(&mut self, path: &str, into: &mut impl Write) -> Result<u64> {
        let connection = self.connection.as_mut().context("not connected")?;
        let mut length = None;
        let keep = |name: &str, value: &str| {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<u64>().ok();
            }
        };
        let status = status(connection, keep)?;
        ensure!(status == 200, "{path}: answered {status}");
        let Some(length) = length else { bail!("{path}: answered without a content-length") };
        let received = std::io::copy(&mut connection.take(length), into)?;
        ensure!(received == length, "{path}: {received} bytes of {length} came");
        Ok(received)
    }

    fn send(&mut self, requests: &str) -> Result<BufReader<TcpStream>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        connection.get_mut().write_all(requests.as_bytes()).context("cannot send")?;
        Ok(connection)
    }
}

/// Reads a head: returns its status, and passes its fields to `keep`.
fn status(connection: &mut BufReader<TcpStream>, keep: impl FnMut(&str, &str)) -> Result<u16> {
    let line = head(connection, keep).context("no answer")?.context("the connection was closed")?;
    let status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
    status.with_context(|| format!("answered `{line}`"))
}

#[cfg(test)]
mod tests {
    use super::Client;
    use larder_testkit::{listen, serve};
    use std::io::{Read, Write};

    /// Returns a client of a server that sends this text once on each connection, and closes it.
    fn client(text: &'static str) -> Client {
        let (listener, address) = listen();
        serve(listener, move |mut stream| {
            let _ = stream.read(&mut [0; 1 << 10]);
            let _ = stream.write_all(text.as_bytes());
        });
        Client::to(address.port())
    }

    #[test]
    fn a_truncated_response_is_distinguished_from_a_whole_one() {
        for (text, is_whole) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: 1\r\na: 2\r\n\r\nabc", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: 1\r\na: 2\r\n\r\nab", false),
        ] {
            let answer = client(text).ask("GET /", "").unwrap();
            assert_eq!((answer.status, answer.is_whole), (200, is_whole));
            assert!(text.as_bytes().ends_with(&answer.body));
            assert_eq!((answer.field("a"), answer.joined("a").as_str()), (Some("2"), "1, 2"));
            assert_eq!(client(text).get("/").is_ok(), is_whole);
        }
        let unchanged = "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(client(unchanged).ask("GET /", "").unwrap().status, 304);
        assert_eq!(client(unchanged).get("/a").unwrap_err().to_string(), "/a: answered 304");
        assert!(client("HTTP/1.1 200 OK\r\n").ask("GET /", "").is_err());
    }
}
