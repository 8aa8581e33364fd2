//! Lookup of an object by its key, with or without waiting for the disk.

use crate::body::Found;
use crate::disk::Disk;
use crate::inventory::Listed;
use crate::open::{Opened, Reading, open};

/// How often a lookup follows an object that is moved meanwhile.
const TURNS: usize = 4;

/// What a lookup that does not wait came to.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each hit")]
pub enum AtOnce {
    /// The object.
    Found(Found),
    /// There is none.
    Absent,
    /// Only the disk can tell: [`Disk::find`] asks it. This lookup counted for nothing.
    Waits,
}

impl Disk {
    /// The object of `key`, which counts as a use of it at `now`, in seconds since 1970. Reads the head of its
    /// record, and with it all of a body that has at most `whole` bytes.
    pub fn find(&self, key: &[u8], now: u32, whole: u64) -> Option<Found> {
        match self.answer(key, now, Reading { whole, at_once: false }) {
            AtOnce::Found(found) => Some(found),
            AtOnce::Absent | AtOnce::Waits => None,
        }
    }

    /// As [`find`](Self::find), if that takes no wait for the disk.
    pub fn find_at_once(&self, key: &[u8], now: u32, whole: u64) -> AtOnce {
        self.answer(key, now, Reading { whole, at_once: true })
    }

    /// As [`find`](Self::find), without counting as anything.
    pub fn peek(&self, key: &[u8], whole: u64) -> Option<Found> {
        match self.look(self.shared.hash(key), key, Reading { whole, at_once: false }) {
            AtOnce::Found(found) => Some(found),
            AtOnce::Absent | AtOnce::Waits => None,
        }
    }

    /// The object that lists show with this `hash`, and its key; counts as nothing. Reads as [`find`](Self::find)
    /// does.
    pub fn named(&self, hash: u64, whole: u64) -> Option<(Box<[u8]>, Found)> {
        match self.seek(hash, Reading { whole, at_once: false }) {
            Opened::Found(record) => Some((record.key().into(), record.into_found())),
            Opened::Damaged | Opened::Moved | Opened::Waits => None,
        }
    }

    /// The object of `key` as lists show it; counts as nothing. Reads its head.
    pub fn listed(&self, key: &[u8]) -> Option<Listed> {
        let hash = self.shared.hash(key);
        match self.seek(hash, Reading::HEAD) {
            Opened::Found(record) if record.key() == key => {
                let place = self.shared.index.peek(hash)?;
                Some(Listed::new(hash, &record, &place))
            }
            _ => None,
        }
    }

    /// Notes a use of the object of `key` at `now`, in seconds since 1970, that was served from elsewhere: it
    /// is no hit, and reads nothing.
    pub fn touch(&self, key: &[u8], now: u32) {
        self.shared.index.touch(self.shared.hash(key), now);
    }

    fn answer(&self, key: &[u8], now: u32, reading: Reading) -> AtOnce {
        let hash = self.shared.hash(key);
        let answer = self.look(hash, key, reading);
        match answer {
            AtOnce::Found(_) => self.shared.counts.hits.add(1),
            AtOnce::Absent => self.shared.counts.misses.add(1),
            AtOnce::Waits => return answer,
        }
        // Only now, so that a lookup that has to wait is not counted twice.
        self.shared.index.touch(hash, now);
        answer
    }

    fn look(&self, hash: u64, key: &[u8], reading: Reading) -> AtOnce {
        match self.seek(hash, reading) {
            Opened::Found(record) if record.key() == key => AtOnce::Found(record.into_found()),
            Opened::Waits => AtOnce::Waits,
            Opened::Found(_) | Opened::Damaged | Opened::Moved => AtOnce::Absent,
        }
    }

    /// Opens what the index has of `hash`, wherever it is moved meanwhile.
    fn seek(&self, hash: u64, reading: Reading) -> Opened {
        for _ in 0..TURNS {
            let Some(place) = self.shared.index.peek(hash) else { break };
            match open(&self.shared, hash, &place, reading) {
                Opened::Moved
                    if self.shared.index.peek(hash).is_some_and(|now| now.location() == place.location()) =>
                {
                    self.shared.index.remove_at(hash, place.location());
                    break;
                }
                Opened::Moved => {}
                opened => return opened,
            }
        }
        Opened::Moved
    }
}
