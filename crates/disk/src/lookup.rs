//! Lookup of an object by its key, with or without waiting for the disk.

use crate::body::StoredObject;
use crate::disk::Disk;
use crate::inventory::ObjectSummary;
use crate::open::{OpenResult, ReadMode, open};

/// The number of times that a lookup follows an object which the cleaner moves meanwhile.
const TURNS: usize = 4;

/// The result of a lookup that does not wait.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each hit")]
pub enum AtOnce<T = StoredObject> {
    /// The object was found.
    Found(T),
    /// There is no such object.
    Absent,
    /// The lookup has to read the disk: the caller uses one that waits ([`Disk::find`]). This lookup counted neither as
    /// a hit nor as a miss.
    Waits,
}

impl<T> AtOnce<T> {
    /// Returns the object, if it was found.
    pub fn found(self) -> Option<T> {
        if let Self::Found(found) = self { Some(found) } else { None }
    }
}

impl Disk {
    /// Finds the object of `key`, and counts a use at `now`, in seconds since 1970. Reads the head of its
    /// record, and with it the whole body if it has at most `whole` bytes.
    pub fn find(&self, key: &[u8], now: u32, whole: u64) -> Option<StoredObject> {
        self.answer(key, now, ReadMode { whole, at_once: false }).found()
    }

    /// Finds a record as [`find`](Self::find) does, if that need not wait for the disk.
    pub fn find_at_once(&self, key: &[u8], now: u32, whole: u64) -> AtOnce {
        self.answer(key, now, ReadMode { whole, at_once: true })
    }

    /// Finds a record as [`find`](Self::find) does, without counting a use.
    pub fn peek(&self, key: &[u8], whole: u64) -> Option<StoredObject> {
        self.look(self.shared.hash(key), key, ReadMode { whole, at_once: false }).found()
    }

    /// Finds the object with this `hash`, as in lists, and its key, without counting a use. Reads as
    /// [`find`](Self::find) does.
    pub fn named(&self, hash: u64, whole: u64) -> Option<(Box<[u8]>, StoredObject)> {
        match self.seek(hash, ReadMode { whole, at_once: false }) {
            OpenResult::Found(record) => Some((record.key().into(), record.into_found())),
            OpenResult::Damaged | OpenResult::Moved | OpenResult::Waits => None,
        }
    }

    /// Returns the object of `key` as lists show it, without counting a use. Reads its head.
    pub fn listed(&self, key: &[u8]) -> Option<ObjectSummary> {
        let hash = self.shared.hash(key);
        match self.seek(hash, ReadMode::HEAD) {
            OpenResult::Found(record) if record.key() == key => {
                let place = self.shared.index.peek(hash)?;
                Some(ObjectSummary::new(hash, &record, &place))
            }
            _ => None,
        }
    }

    /// Counts a use of the object of `key` at `now`, in seconds since 1970, that another tier served. It
    /// counts no hit, and reads nothing.
    pub fn touch(&self, key: &[u8], now: u32) {
        self.shared.index.touch(self.shared.hash(key), now);
    }

    fn answer(&self, key: &[u8], now: u32, reading: ReadMode) -> AtOnce {
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

    fn look(&self, hash: u64, key: &[u8], reading: ReadMode) -> AtOnce {
        match self.seek(hash, reading) {
            OpenResult::Found(record) if record.key() == key => AtOnce::Found(record.into_found()),
            OpenResult::Waits => AtOnce::Waits,
            OpenResult::Found(_) | OpenResult::Damaged | OpenResult::Moved => AtOnce::Absent,
        }
    }

    /// Opens the record of `hash`, and follows it if the cleaner moves it meanwhile.
    fn seek(&self, hash: u64, reading: ReadMode) -> OpenResult {
        for _ in 0..TURNS {
            let Some(place) = self.shared.index.peek(hash) else { break };
            match open(&self.shared, hash, &place, reading) {
                OpenResult::Moved
                    if self.shared.index.peek(hash).is_some_and(|now| now.location() == place.location()) =>
                {
                    self.shared.index.remove_at(hash, place.location());
                    break;
                }
                OpenResult::Moved => {}
                opened => return opened,
            }
        }
        OpenResult::Moved
    }
}
