//! A client for checks: one persistent connection, GET, bodies by Content-Length. The load is wrk's task.

use anyhow::{Context, Result, bail};
use larder_testkit::{head, limited};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
/// So large that large bodies need few reads.
const BUFFER: usize = 64 << 10;

pub(super) struct Client {
    connection: BufReader<TcpStream>,
    port: u16,
}

impl Client {
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect")?;
        let stream = limited(stream, PATIENCE)?;
        Ok(Self { connection: BufReader::with_capacity(BUFFER, stream), port })
    }

    /// Fetches `path` and returns the number of bytes in the body.
    ///
    /// # Errors
    /// If the status is not 200, or the answer is incomplete.
    pub(super) fn get(&mut self, path: &str) -> Result<u64> {
        self.ask(&[path])?;
        self.answer(path, &mut std::io::sink())
    }

    /// Sends requests for several paths at once; [`Client::answer`] reads the answers, in the same order.
    ///
    /// # Errors
    /// If they cannot be sent.
    pub(super) fn ask(&mut self, paths: &[impl AsRef<str>]) -> Result<()> {
        // The same host as wrk's: a cache may store a separate object for each host.
        let host = format!("HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
        let requests: String = paths.iter().map(|path| format!("GET {} {host}", path.as_ref())).collect();
        Ok(self.connection.get_mut().write_all(requests.as_bytes())?)
    }

    /// Reads the next answer, that for `path`, writes its body to `into`, and returns the number of bytes.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    pub(super) fn answer(&mut self, path: &str, into: &mut impl Write) -> Result<u64> {
        let mut length = None;
        let keep = |name: &str, value: &str| {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<u64>().ok();
            }
        };
        let status = head(&mut self.connection, keep).context("no answer")?;
        let status = status.context("the connection was closed")?;
        if status.split(' ').nth(1) != Some("200") {
            bail!("{path}: answered `{status}`");
        }
        let Some(length) = length else { bail!("{path}: answered without a content-length") };
        let received = std::io::copy(&mut (&mut self.connection).take(length), into)?;
        if received != length {
            bail!("{path}: {received} bytes of {length} came");
        }
        Ok(received)
    }
}
