//! Connections of rustls that are kept after their handshake, so that rustls seals and opens their records. It allocates
//! each record and copies its content, which this crate's record layer does not.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, InvalidMessage};

use super::fault::Fault;
use super::record::{HEADER, Opened};
use super::records::Records;

/// Bytes for a record beside its content, and for a key update in front of it.
const BESIDE: usize = 64;

/// A connection with both directions.
pub(crate) struct Kept {
    connection: UnbufferedServerConnection,
    /// Messages of rustls that are sent before the next record.
    waiting: Vec<u8>,
    /// Whether the final alert was sealed, or a record of the client has an error: no more records may follow.
    is_over: bool,
}

/// Locks a connection that both directions share.
pub(super) fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// Keeps `connection`, whose handshake is done.
    pub(super) fn new(connection: UnbufferedServerConnection) -> Self {
        Self { connection, waiting: Vec::new(), is_over: false }
    }

    /// Opens all records in `arrived` that are complete, up to a `close_notify`, and appends their content to `out`.
    ///
    /// # Errors
    /// The error of a record. No record behind it may be opened.
    pub(super) fn open(&mut self, arrived: &mut [u8], out: &mut Vec<u8>) -> Result<Opened, Fault> {
        let opened = self.open_all(arrived, out);
        self.is_over |= opened.is_err();
        opened
    }

    fn open_all(&mut self, arrived: &mut [u8], out: &mut Vec<u8>) -> Result<Opened, Fault> {
        let (mut consumed, mut is_over) = (0, false);
        loop {
            let unread = &mut arrived[consumed..];
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(unread);
            let is_more = match state.map_err(fault)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(fault)?;
                        consumed += record.discard;
                        out.extend_from_slice(record.payload);
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut self.waiting, |room| data.encode(room)).map_err(fault)?;
                    true
                }
                ConnectionState::TransmitTlsData(sent) => {
                    sent.done();
                    true
                }
                ConnectionState::PeerClosed => {
                    is_over = true;
                    true
                }
                ConnectionState::WriteTraffic(_) | ConnectionState::Closed => false,
                _ => return Err(Fault::Internal),
            };
            consumed += discard;
            if !is_more {
                break;
            }
        }
        // rustls remembers a part of a handshake message by its place in the received bytes, and panics if it does not
        // get them again. The other direction does not have them. Clients have no reason to divide their key updates.
        if !is_over && begins_with_record(&arrived[consumed..]) {
            return Err(Fault::UnexpectedMessage);
        }
        Ok(Opened { consumed, is_over })
    }

    /// Appends a record with `content`.
    ///
    /// # Errors
    /// When no further record may be sealed.
    pub(super) fn seal(&mut self, out: &mut Records, content: &[u8]) -> Result<(), Fault> {
        if self.is_over {
            return Err(Fault::Internal);
        }
        self.write(out, content.len() + BESIDE, |traffic, room| traffic.encrypt(content, room))
    }

    /// Appends the `close_notify` alert.
    pub(super) fn close(&mut self, out: &mut Records) {
        if !std::mem::replace(&mut self.is_over, true) {
            // On an error, the connection ends without an alert.
            let _ = self.write(out, BESIDE, |traffic, room| traffic.queue_close_notify(room));
        }
    }

    /// Appends the bytes that `write` makes, some `length`.
    fn write(
        &mut self,
        out: &mut Records,
        mut length: usize,
        write: impl Fn(&mut WriteTraffic<'_, ServerConnectionData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Fault> {
        loop {
            self.tell(out);
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => match write(&mut traffic, out.room(length))
                {
                    Ok(written) => {
                        out.add(written);
                        return Ok(());
                    }
                    Err(EncryptError::InsufficientSize(size)) if size.required_size > length => {
                        length = size.required_size;
                    }
                    Err(_) => return Err(Fault::Internal),
                },
                _ => return Err(Fault::Internal),
            }
        }
    }

    /// Appends the alert for the error of a record, if rustls has one.
    pub(super) fn fail(&mut self, out: &mut Records) {
        self.is_over = true;
        self.tell(out);
    }

    /// Appends the messages that rustls has to send.
    fn tell(&mut self, out: &mut Records) {
        // Without received bytes, rustls may not be called after an error, except for such a message.
        while self.connection.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.connection.process_tls_records(&mut []).state
            && encode(&mut self.waiting, |room| data.encode(room)).is_ok()
        {}
        if !self.waiting.is_empty() {
            out.room(self.waiting.len()).copy_from_slice(&self.waiting);
            out.add(self.waiting.len());
            self.waiting = Vec::new();
        }
    }
}

/// Appends the bytes to `out` that `encode` writes. It names their number before it writes them.
pub(super) fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let (start, mut room) = (out.len(), 0);
    loop {
        out.resize(start + room, 0);
        match encode(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) if needed.required_size > room => {
                room = needed.required_size;
            }
            Err(error) => return Err(Error::General(error.to_string())),
        }
    }
}

/// Whether all of a record has arrived.
fn begins_with_record(arrived: &[u8]) -> bool {
    let header = arrived.first_chunk::<HEADER>();
    header.is_some_and(|[.., high, low]| {
        arrived.len() - HEADER >= usize::from(u16::from_be_bytes([*high, *low]))
    })
}

/// Returns the reason why a client's bytes end its connection. rustls has made an alert for it already.
fn fault(error: Error) -> Fault {
    match error {
        Error::AlertReceived(_) => Fault::Alerted,
        Error::DecryptError => Fault::BadRecordMac,
        Error::PeerSentOversizedRecord | Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
            Fault::RecordOverflow
        }
        Error::InvalidMessage(_) => Fault::Decode,
        Error::General(_) => Fault::Internal,
        _ => Fault::UnexpectedMessage,
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("Kept").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
