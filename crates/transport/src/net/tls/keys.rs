//! The key of one direction of a TLS connection.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use rustls::ConnectionTrafficSecrets;

use super::fault::Fault;

/// Bytes of a record's header.
pub(super) const HEADER: usize = 5;
/// Bytes of a tag; the same for all suites.
const TAG: usize = 16;
/// Bytes of the explicit part of a nonce, which TLS 1.2 sends with AES-GCM (RFC 5288 section 3).
const EXPLICIT: usize = 8;

/// The layout of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// TLS 1.3, with any cipher.
    V13,
    /// TLS 1.2 with AES-GCM: records contain the explicit part of the nonce.
    Gcm12,
    /// TLS 1.2 with ChaCha20-Poly1305 (RFC 7905).
    ChaCha12,
}

impl Form {
    /// Returns the number of bytes between the header and the content.
    pub(super) fn explicit(self) -> usize {
        if self == Self::Gcm12 { EXPLICIT } else { 0 }
    }

    /// Returns the number of bytes behind the content.
    pub(super) fn behind(self) -> usize {
        if self == Self::V13 { 1 + TAG } else { TAG }
    }
}

/// The key of one direction, and the sequence number of its next record.
pub(super) struct Keys {
    secrets: ConnectionTrafficSecrets,
    /// The expanded key, of some 600 bytes; `None` until the next use expands it from the secrets.
    key: Option<LessSafeKey>,
    iv: [u8; 12],
    pub(super) sequence: u64,
    pub(super) form: Form,
}

impl Keys {
    pub(super) fn new(
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
        is_v13: bool,
    ) -> Result<Self, Fault> {
        let form = match (is_v13, &secrets) {
            (true, _) => Form::V13,
            (false, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => Form::ChaCha12,
            (false, _) => Form::Gcm12,
        };
        let (key, iv) = prepare(&secrets)?;
        Ok(Self { key: Some(key), iv, sequence, form, secrets })
    }

    /// Drops the expanded key until the next use.
    pub(super) fn shrink(&mut self) {
        self.key = None;
    }

    /// Returns the expanded key.
    pub(super) fn key(&mut self) -> Result<&LessSafeKey, Fault> {
        if self.key.is_none() {
            self.key = Some(prepare(&self.secrets)?.0);
        }
        self.key.as_ref().ok_or(Fault::Internal)
    }

    /// Returns the nonce of the next record.
    pub(super) fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// Returns the additional data of a record of TLS 1.2 (RFC 5246 section 6.2.3.3).
    pub(super) fn additional(&self, kind: u8, length: usize) -> [u8; 13] {
        let mut additional = [0; 13];
        additional[..8].copy_from_slice(&self.sequence.to_be_bytes());
        additional[8..].copy_from_slice(&header(kind, length));
        additional
    }
}

/// Returns the expanded key, and the implicit part of nonces, which is not sent.
fn prepare(secrets: &ConnectionTrafficSecrets) -> Result<(LessSafeKey, [u8; 12]), Fault> {
    let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
        _ => return Err(Fault::Internal),
    };
    let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| Fault::Internal)?;
    let iv = iv.as_ref().try_into().map_err(|_| Fault::Internal)?;
    Ok((LessSafeKey::new(key), iv))
}

/// Returns the header of a record. In TLS 1.3, it contains the version of TLS 1.2 as well.
pub(super) fn header(kind: u8, length: usize) -> [u8; HEADER] {
    let [high, low] = (length as u16).to_be_bytes();
    [kind, 3, 3, high, low]
}
