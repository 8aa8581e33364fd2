//! Session tickets without a session map (RFC 5077, RFC 8446 section 4.6.1). They are sealed with random keys, which all
//! workers share. A key seals tickets for [`PERIOD`], opens them for as long again, and is then erased: from then on,
//! nothing opens a recorded session.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use larder_words::debug_as;
use parking_lot::Mutex;
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use crate::base::clock;

/// Maximum time for which a key seals tickets.
pub const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// Bytes of a key's name, at the beginning of a ticket, and of its secret part.
const NAME: usize = 16;
const KEY: usize = 32;
/// Bytes of a tag.
const TAG: usize = 16;

/// The name of a key, and its secret part.
pub(crate) type TicketSecret = Zeroizing<[u8; NAME + KEY]>;

/// Returns a random secret. Fails when the system has no random numbers.
pub fn random_secret() -> Result<TicketSecret, Unspecified> {
    let mut secret = Zeroizing::new([0; NAME + KEY]);
    rand::fill(&mut *secret)?;
    Ok(secret)
}

/// Seals and opens tickets.
pub struct Tickets {
    keys: Mutex<Keys>,
    /// The milliseconds since some moment.
    clock: fn() -> u64,
}

struct Keys {
    /// The key that seals tickets.
    current: Key,
    /// The key before, which only opens them.
    previous: Option<Key>,
    /// The time since which the current key seals tickets.
    since: u64,
}

#[derive(Clone)]
struct Key {
    name: [u8; NAME],
    key: Arc<LessSafeKey>,
    secret: Arc<TicketSecret>,
}

impl Tickets {
    /// Creates tickets with a random key. Fails when the system has no random numbers.
    pub fn new() -> Result<Self, Unspecified> {
        Self::at(clock::millis)
    }

    fn at(clock: fn() -> u64) -> Result<Self, Unspecified> {
        let keys = Keys { current: Key::new(&random_secret()?)?, previous: None, since: clock() };
        Ok(Self { keys: Mutex::new(keys), clock })
    }

    /// Replaces the current key with a random one if its time is over.
    pub fn renew(&self) {
        let since = self.keys.lock().since;
        if u128::from((self.clock)().saturating_sub(since)) >= PERIOD.as_millis()
            && let Ok(secret) = random_secret()
        {
            self.adopt(&secret);
        }
    }

    /// Seals tickets with the key in `secret` from now on. The key before the current one is erased.
    pub fn adopt(&self, secret: &TicketSecret) {
        let mut keys = self.keys.lock();
        if keys.current.name != secret[..NAME]
            && let Ok(new) = Key::new(secret)
        {
            keys.previous = Some(std::mem::replace(&mut keys.current, new));
            keys.since = (self.clock)();
        }
    }

    /// Returns the secrets of the keys, the one in use last, and its age in milliseconds, for a successor of this process.
    pub fn secrets(&self) -> (Vec<Vec<u8>>, u64) {
        let keys = self.keys.lock();
        let in_order = keys.previous.iter().chain([&keys.current]);
        let secrets = in_order.map(|key| key.secret.to_vec()).collect();
        (secrets, (self.clock)().saturating_sub(keys.since))
    }

    /// Continues with the keys of the process before this one, as [`secrets`](Self::secrets) returned them.
    pub fn inherit(&self, secrets: Vec<Vec<u8>>, age: u64) {
        let known = secrets.into_iter().filter_map(|secret| secret.try_into().ok());
        known.for_each(|secret| self.adopt(&Zeroizing::new(secret)));
        let mut keys = self.keys.lock();
        keys.since = (self.clock)().saturating_sub(age);
    }
}

impl Key {
    fn new(secret: &TicketSecret) -> Result<Self, Unspecified> {
        let (name, key) = secret.split_first_chunk().ok_or(Unspecified)?;
        let secret = Arc::new(secret.clone());
        let key = Arc::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key)?));
        Ok(Self { name: *name, key, secret })
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let Key { name, key, .. } = self.keys.lock().current.clone();
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME + NONCE_LEN + plain.len() + TAG);
        ticket.extend_from_slice(&name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let tag = key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name),
            &mut ticket[NAME + NONCE_LEN..],
        );
        ticket.extend_from_slice(tag.ok()?.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = cipher.split_first_chunk::<NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = {
            let keys = self.keys.lock();
            let mut held = std::iter::once(&keys.current).chain(&keys.previous);
            Arc::clone(&held.find(|held| held.name == *name)?.key)
        };
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::from(*name), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

debug_as!(Tickets, |_| "Tickets");

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_key_is_replaced_daily_and_erased_a_day_later() {
        static HOURS: AtomicU64 = AtomicU64::new(5);
        let tickets = Tickets::at(|| HOURS.load(Ordering::Relaxed) * 3_600_000).expect("random numbers");
        let ticket = tickets.encrypt(b"session").expect("a ticket");
        assert_ne!(ticket, tickets.encrypt(b"session").expect("a ticket"), "no two tickets are equal");
        for (hours, name_stays, opens) in
            [(23, true, true), (1, false, true), (23, false, true), (1, false, false)]
        {
            HOURS.fetch_add(hours, Ordering::Relaxed);
            tickets.renew();
            let other = tickets.encrypt(b"session").expect("a ticket");
            assert_eq!(other[..NAME] == ticket[..NAME], name_stays, "{hours} hours later");
            assert_eq!(tickets.decrypt(&ticket).is_some(), opens, "{hours} hours later");
        }
    }

    #[test]
    fn holders_of_a_shared_key_open_each_others_tickets() {
        let [one, other, stranger] = std::array::from_fn(|_| Tickets::new().expect("random numbers"));
        let secret = random_secret().expect("random numbers");
        for tickets in [&one, &other] {
            tickets.adopt(&secret);
        }
        let ticket = one.encrypt(b"session").expect("a ticket");
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(stranger.decrypt(&ticket), None);
        other.adopt(&secret);
        assert!(other.keys.lock().previous.is_some(), "the same key again replaces nothing");
    }

    #[test]
    fn no_other_bytes_are_a_ticket() {
        let tickets = Tickets::new().expect("random numbers");
        let ticket = tickets.encrypt(b"session").expect("a ticket");
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
