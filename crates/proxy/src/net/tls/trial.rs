//! Both ends of a connection in memory, for tests and fuzzing: a client of rustls, and this program's records.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig};

use super::accept::{Handshake, HandshakeStep};
use super::record::{MOST, Opener, Sealer};
use super::records::Records;

/// A connection whose handshake is done.
pub struct Trial {
    client: ClientConnection,
    opener: Opener,
    sealer: Sealer,
}

impl Trial {
    /// A connection of a client and a server, whose certificate is for `localhost`. `server` has to permit the extraction of
    /// secrets.
    ///
    /// # Errors
    /// Why there is none, in words.
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
                        return Err("the handshake stands still".to_owned());
                    }
                    handshake.incoming.extend_from_slice(&flight);
                }
                HandshakeStep::Done => break,
            }
        }
        let (opener, sealer, ..) = handshake.end().map_err(|error| error.to_string())?;
        Ok(Self { client, opener, sealer })
    }

    /// The records in which the client sends `content`.
    pub fn client_sends(&mut self, content: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        // What the client buffers at once is limited.
        for piece in content.chunks(MOST) {
            // Writing to memory does not fail.
            let _ = self.client.writer().write_all(piece);
            sent.extend(flight(&mut self.client));
        }
        sent
    }

    /// The records in which the client replaces its key, and asks for another one of ours.
    pub fn client_replaces_keys(&mut self) -> Vec<u8> {
        // TLS 1.2 has no such message.
        let _ = self.client.refresh_traffic_keys();
        flight(&mut self.client)
    }

    /// The records in which the client says that nothing more follows.
    pub fn client_ends(&mut self) -> Vec<u8> {
        self.client.send_close_notify();
        flight(&mut self.client)
    }

    /// Opens what arrived: its content.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn receive(&mut self, arrived: &[u8]) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        self.opener.make_room().extend_from_slice(arrived);
        self.opener.open(&mut content).map_err(|fault| fault.to_string())?;
        Ok(content)
    }

    /// Whether the client has said that nothing more follows.
    pub fn is_over(&self) -> bool {
        self.opener.is_over()
    }

    /// Both directions let go of what is made again with the next record.
    pub fn doze(&mut self) {
        self.opener.doze();
        self.sealer.doze();
    }

    /// The records with `content`, none with more than `most` bytes of it.
    ///
    /// # Errors
    /// When no further record may be sealed.
    pub fn send(&mut self, content: &[u8], most: usize) -> Result<Vec<u8>, String> {
        let mut records = Records::default();
        self.sealer.seal(&mut records, content, most).map_err(|fault| fault.to_string())?;
        Ok(records.ready().to_vec())
    }

    /// What the client reads of `arrived`.
    ///
    /// # Errors
    /// What it thinks is wrong with it.
    pub fn client_receives(&mut self, arrived: &[u8]) -> Result<Vec<u8>, String> {
        take_in(&mut self.client, arrived).map_err(|error| error.to_string())
    }
}

/// What `client` has to send.
fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut flight = Vec::new();
    while client.wants_write() {
        // Writing to memory does not fail.
        let _ = client.write_tls(&mut flight);
    }
    flight
}

/// Hands `arrived` to `client`: the content in it.
fn take_in(client: &mut ClientConnection, mut arrived: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    let mut content = Vec::new();
    while !arrived.is_empty() {
        // The client takes some of it at once, and nothing behind the end.
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
