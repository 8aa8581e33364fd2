//! Session tickets without a session map. They are sealed with keys derived from a secret and the time, so that every
//! worker, process and node that has the secret can open them without distributing keys (RFC 5077, RFC 8446 section
//! 4.6.1).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

use crate::base::clock;

/// Time for which tickets are sealed with one key, in seconds. They are accepted for the same time again.
const EPOCH: u32 = 6 * 3600;
/// Bytes of the epoch number at the beginning of a ticket.
const NUMBER: usize = size_of::<u32>();
/// Bytes of a tag.
const TAG: usize = 16;

/// Seals and opens tickets.
pub(crate) struct Tickets {
    secret: Prk,
    clock: fn() -> u32,
    /// The keys of the last used epochs, at most two.
    keys: Mutex<Vec<(u32, Arc<LessSafeKey>)>>,
}

impl Tickets {
    /// Creates tickets for all processes that have `secret`, which should be 32 random bytes.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self::at(secret, clock::now)
    }

    fn at(secret: &[u8], clock: fn() -> u32) -> Self {
        let secret = Salt::new(HKDF_SHA256, b"larder session tickets").extract(secret);
        Self { secret, clock, keys: Mutex::default() }
    }

    /// Returns the key of an epoch.
    fn key(&self, epoch: u32) -> Option<Arc<LessSafeKey>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, key)) = keys.iter().find(|(of, _)| *of == epoch) {
            return Some(Arc::clone(key));
        }
        let mut bytes = [0; 32];
        let number = epoch.to_be_bytes();
        self.secret.expand(&[&number], Bytes32).ok()?.fill(&mut bytes).ok()?;
        let key = Arc::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?));
        keys.retain(|(of, _)| of.abs_diff(epoch) == 1);
        keys.push((epoch, Arc::clone(&key)));
        Some(key)
    }

    fn epoch(&self) -> u32 {
        (self.clock)() / EPOCH
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        EPOCH
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let epoch = self.epoch();
        let (key, number) = (self.key(epoch)?, epoch.to_be_bytes());
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NUMBER + NONCE_LEN + plain.len() + TAG);
        ticket.extend_from_slice(&number);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let tag = key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(number),
            &mut ticket[NUMBER + NONCE_LEN..],
        );
        ticket.extend_from_slice(tag.ok()?.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (number, rest) = cipher.split_first_chunk::<NUMBER>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let (epoch, now) = (u32::from_be_bytes(*number), self.epoch());
        // Clocks of other nodes may be slightly ahead.
        if epoch.abs_diff(now) > 1 {
            return None;
        }
        let key = self.key(epoch)?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::from(*number), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of logs.
        f.write_str("Tickets")
    }
}

/// The length of a key, for HKDF.
#[derive(Clone, Copy)]
struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_of_the_secret_opens_a_ticket_for_two_epochs() {
        let [first, second, later] = [|| 10 * EPOCH, || 11 * EPOCH + 5, || 12 * EPOCH]
            .map(|clock: fn() -> u32| Tickets::at(b"one secret", clock));
        let stranger = Tickets::at(b"another secret", || 10 * EPOCH);
        let ticket = first.encrypt(b"session").unwrap();
        assert_ne!(ticket, first.encrypt(b"session").unwrap(), "no two tickets are equal");
        assert_eq!(first.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(second.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(later.decrypt(&ticket), None);
        assert_eq!(stranger.decrypt(&ticket), None);
    }

    #[test]
    fn no_other_bytes_are_a_ticket() {
        let tickets = Tickets::at(b"one secret", || 10 * EPOCH);
        let ticket = tickets.encrypt(b"session").unwrap();
        for length in 0..ticket.len() {
            assert_eq!(tickets.decrypt(&ticket[..length]), None, "{length} bytes");
        }
        for at in 0..ticket.len() {
            let mut spoilt = ticket.clone();
            spoilt[at] ^= 1;
            assert_eq!(tickets.decrypt(&spoilt), None, "byte {at}");
        }
    }
}
