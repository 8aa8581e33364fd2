//! A connection over TLS with at most one request in progress.

use anyhow::{Context, Result, bail, ensure};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The longest wait for a handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns a config that trusts the certificate in a file. Fails if the file contains none.
pub(crate) fn config(certificate: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).context("the certificate")?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    tls: ClientConnection,
    answer: Answer,
}

impl Connection {
    /// Connects and completes the handshake. Fails if the server does not accept the connection, or the certificate is
    /// not for `localhost`.
    pub(crate) fn open(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<Self> {
        let mut stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut tls = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost")?)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).context("the handshake")?;
        }
        stream.set_nonblocking(true)?;
        Ok(Self { stream, tls, answer: Answer::default() })
    }

    /// Returns the suite that the server has chosen.
    pub(crate) fn suite(&self) -> Result<CipherSuite> {
        Ok(self.tls.negotiated_cipher_suite().context("no suite")?.suite())
    }

    /// Sends a request. Fails if the server does not read.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.tls.writer().write_all(request)?;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream).context("sending")?;
        }
        Ok(())
    }

    /// Reads the bytes that have arrived. Returns whether an answer is complete. Fails if the server ends the
    /// connection, or answers without success.
    pub(crate) fn read(&mut self) -> Result<bool> {
        match self.tls.read_tls(&mut self.stream) {
            Ok(0) => bail!("the server ended a connection"),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("receiving"),
        }
        let mut left = self.tls.process_new_packets()?.plaintext_bytes_to_read();
        let (mut buffer, mut is_complete) = ([0; 1 << 14], false);
        while left > 0 {
            let length = self.tls.reader().read(&mut buffer)?;
            is_complete |= self.answer.take(&buffer[..length])?;
            left = left.saturating_sub(length);
        }
        Ok(is_complete)
    }
}

/// The received part of an answer.
#[derive(Default)]
struct Answer {
    /// The head, until it is complete.
    head: Vec<u8>,
    /// The missing bytes of the content, after the head.
    left: Option<usize>,
}

impl Answer {
    /// Takes the next bytes. Returns whether the answer is complete.
    fn take(&mut self, bytes: &[u8]) -> Result<bool> {
        let (left, content) = match self.left {
            Some(left) => (left, bytes.len()),
            None => {
                self.head.extend_from_slice(bytes);
                let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else {
                    return Ok(false);
                };
                (length(&self.head[..end])?, self.head.len() - end - 4)
            }
        };
        ensure!(content <= left, "an answer longer than its length");
        self.head.clear();
        self.left = (content < left).then_some(left - content);
        Ok(self.left.is_none())
    }
}

/// Returns the length of the content after a head.
fn length(head: &[u8]) -> Result<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    ensure!(head.starts_with("http/1.1 200"), "the answer {:?}", head.lines().next());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse().ok()).context("an answer without a length")
}

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn an_answer_is_complete_with_its_last_byte() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        for size in [1, 2, 7, 100] {
            let mut answer = Answer::default();
            for _ in 0..2 {
                let taken: Vec<_> =
                    text.chunks(size).map(|piece| answer.take(piece).expect("an answer")).collect();
                let (last, earlier) = taken.split_last().expect("pieces");
                assert!(*last && !earlier.contains(&true), "{size}: {taken:?}");
            }
        }
        assert!(Answer::default().take(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("an answer"));
    }

    #[test]
    fn an_answer_without_success_or_length_is_an_error() {
        for text in [
            "HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        ] {
            assert!(Answer::default().take(text.as_bytes()).is_err(), "{text}");
        }
    }
}
