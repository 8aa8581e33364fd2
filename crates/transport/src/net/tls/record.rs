//! Seals and opens TLS records with the keys of a finished handshake (RFC 8446 section 5, RFC 5246 section 6.2.3).
//!
//! rustls makes the handshake and exports its keys. Then this module seals records directly from the content into the
//! send buffer, and opens them in the receive buffer. Both directions are independent, like the two halves of a
//! connection; only requests for a key update go from one to the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::aead::{Aad, Nonce};
use larder_words::debug_as;
use parking_lot::Mutex;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ProtocolVersion, SupportedCipherSuite};

use super::fault::Fault;
pub(super) use super::keys::HEADER;
use super::keys::{Form, Keys, header};
use super::records::Records;

/// Maximum of content bytes in a record.
pub const MOST: usize = 1 << 14;
/// Maximum of bytes in a received record's body: TLS 1.2 permits 2,048 bytes more than the content, TLS 1.3 256.
pub(super) const MOST_SEALED: usize = MOST + 2048;
const MOST_SEALED_13: usize = MOST + 256;
/// Maximum of bytes behind the content of a record that are sealed with it.
const TAIL: usize = 15;
/// Maximum of consecutive records without content before the connection is closed.
const MOST_EMPTY: u32 = 32;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const CONTENT: u8 = 23;
const KEY_UPDATE: u8 = 24;
/// The header of a key update: its type, and the length of its content.
const KEY_UPDATE_HEADER: [u8; 4] = [KEY_UPDATE, 0, 0, 1];
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// State that both directions of a connection share.
pub struct RecordState {
    /// Derives the keys of key updates.
    kernel: Mutex<KernelConnection<ServerConnectionData>>,
    is_v13: bool,
    /// Whether the client has requested a key update of our direction.
    wants_update: AtomicBool,
}

/// Returns the two directions of a connection whose handshake is done.
pub fn halves(
    secrets: rustls::ExtractedSecrets,
    kernel: KernelConnection<ServerConnectionData>,
) -> Result<(Opener, Sealer), Fault> {
    let is_v13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
    let most_records = match kernel.negotiated_cipher_suite() {
        SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
    };
    let (open, seal) = (Keys::new(secrets.rx, is_v13)?, Keys::new(secrets.tx, is_v13)?);
    let wants_update = AtomicBool::new(false);
    // A few records are reserved for the key update itself and the last alert.
    let most_records = most_records.saturating_sub(8);
    let shared = Arc::new(RecordState { kernel: Mutex::new(kernel), is_v13, wants_update });
    let opener = Opener { keys: open, shared: Arc::clone(&shared), empty: 0, begun: ([0; 5], 0) };
    Ok((opener, Sealer { keys: seal, shared, most_records, is_over: false }))
}

/// Seals sent content.
pub struct Sealer {
    keys: Keys,
    shared: Arc<RecordState>,
    /// Number of records after which the key has to be replaced.
    pub(super) most_records: u64,
    /// Whether the final alert was sealed: no more records may follow.
    is_over: bool,
}

impl Sealer {
    /// Appends `content` to `out` in records with at most `most` content bytes each. Fails when no further record may
    /// be sealed with the key.
    pub fn seal(&mut self, out: &mut Records, content: &[u8], most: usize) -> Result<(), Fault> {
        for piece in content.chunks(most.clamp(1, MOST)) {
            self.refresh(out)?;
            self.append(out, CONTENT, piece)?;
        }
        Ok(())
    }

    /// Appends one record. `fill` writes its `length` content bytes, at most [`MOST`]. Errors: the error of `fill`, or
    /// a [`Fault`] when no further record may be sealed with the key.
    pub(crate) fn seal_with(
        &mut self,
        out: &mut Records,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.refresh(out)?;
        let explicit = self.keys.form.explicit();
        let whole = HEADER + explicit + length + self.keys.form.behind();
        let record = out.room(whole);
        fill(&mut record[HEADER + explicit..][..length])?;
        self.finish(record, CONTENT, None, &[])?;
        out.add(whole);
        Ok(())
    }

    /// Appends `content` and a short `tail` in one record; both together have at most [`MOST`] bytes. Fails when no
    /// further record may be sealed with the key.
    pub(crate) fn seal_with_tail(
        &mut self,
        out: &mut Records,
        content: &[u8],
        tail: &[u8],
    ) -> Result<(), Fault> {
        self.refresh(out)?;
        let whole = HEADER + self.keys.form.explicit() + content.len() + tail.len() + self.keys.form.behind();
        self.finish(out.room(whole), CONTENT, Some(content), tail)?;
        out.add(whole);
        Ok(())
    }

    /// Drops the expanded key until the next record.
    pub fn shrink(&mut self) {
        self.keys.shrink();
    }

    /// Appends the `close_notify` alert.
    pub fn close(&mut self, out: &mut Records) {
        self.alert(out, WARNING, CLOSE_NOTIFY);
    }

    /// Appends the alert for `fault`.
    pub fn fail(&mut self, out: &mut Records, fault: Fault) {
        if fault != Fault::Alerted {
            self.alert(out, FATAL, fault as u8);
        }
    }

    fn alert(&mut self, out: &mut Records, level: u8, what: u8) {
        if !std::mem::replace(&mut self.is_over, true) {
            // On an error, the connection ends without an alert.
            let _ = self.append(out, ALERT, &[level, what]);
        }
    }

    /// Replaces the key if the client has requested that, or if it has sealed its maximum of records (RFC 8446 section
    /// 5.5).
    fn refresh(&mut self, out: &mut Records) -> Result<(), Fault> {
        if self.is_over {
            return Err(Fault::Internal);
        }
        let is_worn = self.keys.sequence >= self.most_records;
        if !is_worn && !self.shared.wants_update.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.shared.wants_update.store(false, Ordering::Relaxed);
        if !self.shared.is_v13 {
            return Err(Fault::Internal);
        }
        self.append(out, HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0])?;
        let next = self.shared.kernel.lock().update_tx_secret().map_err(|_| Fault::Internal)?;
        self.keys = Keys::new(next, true)?;
        Ok(())
    }

    /// Appends one record.
    fn append(&mut self, out: &mut Records, kind: u8, content: &[u8]) -> Result<(), Fault> {
        let form = self.keys.form;
        let whole = HEADER + form.explicit() + content.len() + form.behind();
        self.finish(out.room(whole), kind, Some(content), &[])?;
        out.add(whole);
        Ok(())
    }

    /// Seals the record that fills `record`: from `content`, or in place. `tail` follows, at most [`TAIL`] bytes.
    fn finish(
        &mut self,
        record: &mut [u8],
        kind: u8,
        content: Option<&[u8]>,
        tail: &[u8],
    ) -> Result<(), Fault> {
        let (form, nonce) = (self.keys.form, self.keys.nonce());
        let length = record.len() - HEADER - form.explicit() - form.behind();
        // In TLS 1.3, all records have the outer type of content; the real type is behind the content.
        let outer = if form == Form::V13 { CONTENT } else { kind };
        let header = header(outer, record.len() - HEADER);
        record[..HEADER].copy_from_slice(&header);
        record[HEADER..HEADER + form.explicit()].copy_from_slice(&nonce[4..4 + form.explicit()]);
        let additional = self.keys.additional(kind, length);
        let mut inner = [kind; TAIL + 1];
        inner[..tail.len()].copy_from_slice(tail);
        let (head, sealed) = record.split_at_mut(HEADER + form.explicit());
        let (inner, additional): (&[u8], &[u8]) = match form {
            Form::V13 => (&inner[..=tail.len()], &head[..HEADER]),
            Form::Gcm12 | Form::ChaCha12 => (tail, &additional),
        };
        let (sealed, behind) = sealed.split_at_mut(length - tail.len());
        let (nonce, additional) = (Nonce::assume_unique_for_key(nonce), Aad::from(additional));
        let key = self.keys.key()?;
        let done = match content {
            Some(content) => key.seal_out_of_place_scatter(nonce, additional, content, sealed, inner, behind),
            None => key.seal_in_place_scatter(nonce, additional, sealed, inner, behind),
        };
        self.keys.sequence += 1;
        done.map_err(|_| Fault::Internal)
    }
}

/// Opens received records.
pub struct Opener {
    keys: Keys,
    shared: Arc<RecordState>,
    /// Consecutive records without content.
    empty: u32,
    /// The beginning of a handshake message whose end is in a later record, and its length.
    begun: ([u8; 5], usize),
}

/// The result of opening all records that have arrived completely.
pub(super) struct OpenResult {
    /// The number of their bytes.
    pub(super) consumed: usize,
    /// Whether the last of them is the client's `close_notify`.
    pub(super) is_over: bool,
}

impl Opener {
    /// Drops the expanded key until the next record.
    pub(super) fn shrink(&mut self) {
        self.keys.shrink();
    }

    /// Opens all records in `arrived` that are complete, up to a `close_notify`, and appends their content to `out`.
    /// Errors: the error of a record. No record behind it may be opened.
    pub(super) fn open(&mut self, arrived: &mut [u8], out: &mut Vec<u8>) -> Result<OpenResult, Fault> {
        let mut opened = OpenResult { consumed: 0, is_over: false };
        while !opened.is_over {
            let unread = &mut arrived[opened.consumed..];
            let Some(length) = self.whole(unread)? else { break };
            let record = &mut unread[..HEADER + length];
            opened.consumed += record.len();
            opened.is_over = self.open_one(record, out)?;
        }
        Ok(opened)
    }

    /// Returns the length of the next record's body, if all of it has arrived.
    fn whole(&self, unread: &[u8]) -> Result<Option<usize>, Fault> {
        let Some(&[kind, major, minor, high, low]) = unread.first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if !(CHANGE_CIPHER_SPEC..=CONTENT).contains(&kind) {
            return Err(Fault::UnexpectedMessage);
        }
        // The version of a record has no meaning in TLS 1.3.
        if major != 3 || minor != 3 && !self.shared.is_v13 {
            return Err(Fault::ProtocolVersion);
        }
        if length > if self.shared.is_v13 { MOST_SEALED_13 } else { MOST_SEALED } {
            return Err(Fault::RecordOverflow);
        }
        Ok((unread.len() >= HEADER + length).then_some(length))
    }

    /// Opens `record`. Returns whether it is a `close_notify`.
    fn open_one(&mut self, record: &mut [u8], out: &mut Vec<u8>) -> Result<bool, Fault> {
        let (form, length) = (self.keys.form, record.len() - HEADER);
        let mut kind = record[0];
        if form == Form::V13 && kind != CONTENT {
            return Err(Fault::UnexpectedMessage);
        }
        let shortest = form.explicit() + form.behind();
        let plain = length.checked_sub(shortest).ok_or(Fault::BadRecordMac)?;
        let mut nonce = self.keys.nonce();
        let (head, body) = record.split_at_mut(HEADER + form.explicit());
        nonce[12 - form.explicit()..].copy_from_slice(&head[HEADER..]);
        let additional = self.keys.additional(kind, plain);
        let additional: &[u8] = if form == Form::V13 { &head[..HEADER] } else { &additional };
        let (nonce, additional) = (Nonce::assume_unique_for_key(nonce), Aad::from(additional));
        let mut content: &[u8] =
            self.keys.key()?.open_in_place(nonce, additional, body).map_err(|_| Fault::BadRecordMac)?;
        self.keys.sequence = self.keys.sequence.checked_add(1).ok_or(Fault::Internal)?;
        if form == Form::V13 {
            let end = content.iter().rposition(|&byte| byte != 0).ok_or(Fault::UnexpectedMessage)?;
            (content, kind) = (&content[..end], content[end]);
        }
        if content.len() > MOST {
            return Err(Fault::RecordOverflow);
        }
        // RFC 8446 section 5.1: no record interrupts a handshake message.
        if kind != HANDSHAKE && self.begun.1 > 0 {
            return Err(Fault::UnexpectedMessage);
        }
        if kind == CONTENT && !content.is_empty() {
            self.empty = 0;
            out.extend_from_slice(content);
            return Ok(false);
        }
        self.empty += 1;
        if self.empty > MOST_EMPTY {
            return Err(Fault::UnexpectedMessage);
        }
        match (kind, content) {
            (CONTENT, _) | (ALERT, [_, USER_CANCELED]) => Ok(false),
            (ALERT, [_, CLOSE_NOTIFY]) => Ok(true),
            (ALERT, [_, _]) => Err(Fault::Alerted),
            (ALERT | HANDSHAKE, []) => Err(Fault::UnexpectedMessage),
            (ALERT, _) => Err(Fault::Decode),
            (HANDSHAKE, _) if self.shared.is_v13 => {
                let (mut message, begun) = self.begun;
                let room = &mut message[begun..];
                let count = room.len().min(content.len());
                room[..count].copy_from_slice(&content[..count]);
                self.handshake(message, begun + count, count < content.len()).map(|()| false)
            }
            (HANDSHAKE, _) => Err(Fault::NoRenegotiation),
            _ => Err(Fault::UnexpectedMessage),
        }
    }

    /// Handles a handshake message of TLS 1.3, of which `length` bytes have arrived. `is_more`: another one follows it in
    /// its record, although the key changes between two records.
    fn handshake(&mut self, message: [u8; 5], length: usize, is_more: bool) -> Result<(), Fault> {
        let known = length.min(KEY_UPDATE_HEADER.len());
        if message[0] != KEY_UPDATE {
            return Err(Fault::UnexpectedMessage);
        }
        if message[..known] != KEY_UPDATE_HEADER[..known] {
            return Err(Fault::Decode);
        }
        self.begun = (message, length);
        if length < message.len() {
            return Ok(());
        }
        self.begun.1 = 0;
        if is_more { Err(Fault::UnexpectedMessage) } else { self.update(message[4]) }
    }

    /// Replaces the key of received records after the client's key update (RFC 8446 section 4.6.3).
    fn update(&mut self, wants_ours: u8) -> Result<(), Fault> {
        match wants_ours {
            0 => {}
            1 => self.shared.wants_update.store(true, Ordering::Relaxed),
            _ => return Err(Fault::IllegalParameter),
        }
        let next = self.shared.kernel.lock().update_rx_secret().map_err(|_| Fault::Internal)?;
        self.keys = Keys::new(next, true)?;
        Ok(())
    }
}

debug_as!(Sealer, |sealer| "Sealer({:?})", sealer.keys.sequence);

debug_as!(Opener, |opener| "Opener({:?})", opener.keys.sequence);
