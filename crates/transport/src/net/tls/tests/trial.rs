//! Both ends of a connection in memory, for fuzzing: a rustls client, and this crate's record layer.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig};

use super::accept::{Handshake, HandshakeStep};
use super::halves::{Opener, Sealer};
use super::record::MOST;
use super::records::Records;

/// A connection whose handshake is done.
pub struct Trial {
    client: ClientConnection,
    opener: Opener,
    sealer: Sealer,
}

impl Trial {
    /// Connects a client and a server with a certificate for `localhost`. `server` permits the extraction of secrets.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn new(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Result<Self, String> {
        let failed = |error: rustls::Error| error.to_string();
        let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
        let mut client = ClientConnection::new(client, name).map_err(failed)?;
        let mut handshake = Handshake::new(server).map_err(failed)?;
        loop {
            match handshake.step().map_err(failed)? {
                HandshakeStep::Again => {}
                HandshakeStep::Send => {
                    take_in(&mut client, &handshake.outgoing).map_err(failed)?;
                    handshake.outgoing.clear();
                }
                HandshakeStep::Receive => {
                    let flight = flight(&mut client);
                    if flight.is_empty() {
                        return Err("the handshake made no progress".to_owned());
                    }
                    handshake.incoming.extend_from_slice(&flight);
                }
                HandshakeStep::Done => break,
            }
        }
        let (opener, sealer, ..) = handshake.end().map_err(|error| error.to_string())?;
        Ok(Self { client, opener, sealer })
    }

    /// Returns the records in which the client sends `content`.
    pub fn client_sends(&mut self, content: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        // The client's buffer is limited.
        for piece in content.chunks(MOST) {
            // Writing to memory does not fail.
            let _ = self.client.writer().write_all(piece);
            sent.extend(flight(&mut self.client));
        }
        sent
    }

    /// Returns the records in which the client updates its key and requests an update of the server's key.
    pub fn client_replaces_keys(&mut self) -> Vec<u8> {
        // TLS 1.2 has no key update.
        let _ = self.client.refresh_traffic_keys();
        flight(&mut self.client)
    }

    /// Returns the records in which the client sends `close_notify`.
    pub fn client_ends(&mut self) -> Vec<u8> {
        self.client.send_close_notify();
        flight(&mut self.client)
    }

    /// Opens the records in `arrived`. Returns their content.
    ///
    /// # Errors
    /// The error of a record.
    pub fn receive(&mut self, arrived: &[u8]) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        self.opener.make_room().extend_from_slice(arrived);
        self.opener.open(&mut content).map_err(|fault| fault.to_string())?;
        Ok(content)
    }

    /// Whether the client has sent `close_notify`.
    pub fn is_over(&self) -> bool {
        self.opener.is_over()
    }

    /// Drops the expanded keys of both directions until their next records.
    pub fn shrink(&mut self) {
        self.opener.shrink();
        self.sealer.shrink();
    }

    /// Returns records of `content` with at most `most` content bytes each.
    ///
    /// # Errors
    /// When no further record may be sealed with the key.
    pub fn send(&mut self, content: &[u8], most: usize) -> Result<Vec<u8>, String> {
        let mut records = Records::default();
        self.sealer.seal(&mut records, content, most).map_err(|fault| fault.to_string())?;
        Ok(records.ready().to_vec())
    }

    /// Passes `arrived` to the client. Returns the content that the client reads.
    ///
    /// # Errors
    /// The client's error.
    pub fn client_receives(&mut self, arrived: &[u8]) -> Result<Vec<u8>, String> {
        take_in(&mut self.client, arrived).map_err(|error| error.to_string())
    }
}

/// Returns the bytes that `client` has to send.
fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut flight = Vec::new();
    while client.wants_write() {
        // Writing to memory does not fail.
        let _ = client.write_tls(&mut flight);
    }
    flight
}

/// Passes `arrived` to `client`. Returns the content in it.
fn take_in(client: &mut ClientConnection, mut arrived: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    let mut content = Vec::new();
    while !arrived.is_empty() {
        // The client reads a part of it at once, and no bytes behind the end of the stream.
        if client.read_tls(&mut arrived).is_ok_and(|count| count == 0) {
            break;
        }
        client.process_new_packets()?;
        let mut bytes = [0; 4 << 10];
        while let Ok(count @ 1..) = client.reader().read(&mut bytes) {
            content.extend_from_slice(&bytes[..count]);
        }
    }
    Ok(content)
}
