//! Access to all stored objects: lists, verification of every byte, and removal before eviction.

use std::thread;
use std::time::{Duration, Instant};

use crate::body::Damage;
use crate::disk::Disk;
use crate::index::ObjectLocation;
use crate::open::{OpenResult, ReadMode, Record, open};

/// An object, as an element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSummary {
    /// The hash of its key in this directory, the same after restarts: the name that [`Disk::named`] finds it by.
    pub hash: u64,
    /// The serial number, as in [`Found::serial`](crate::StoredObject::serial).
    pub serial: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The caller's metadata beside the body.
    pub meta: Vec<u8>,
    /// Bytes of the body.
    pub len: u64,
    /// Bytes that it takes on the disk.
    pub size: u64,
    /// The time at which it was stored, in seconds since 1970.
    pub stored: u32,
    /// The time of its last use, in seconds since 1970.
    pub used: u32,
}

impl ObjectSummary {
    pub(crate) fn new(hash: u64, record: &Record, place: &ObjectLocation) -> Self {
        Self {
            hash,
            serial: record.body.fixed.serial,
            key: record.key().to_vec(),
            meta: record.meta().to_vec(),
            len: record.body.len(),
            size: place.len(),
            stored: record.body.fixed.stored,
            used: place.used(),
        }
    }
}

/// The result of pruning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Objects examined.
    pub looked: u64,
    /// Objects removed.
    pub objects: u64,
    /// Bytes that the removed objects took on the disk.
    pub bytes: u64,
}

/// The result of a verification of all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyResult {
    /// Objects without damage.
    pub objects: u64,
    /// Bytes of bodies without damage.
    pub bytes: u64,
    /// Damaged objects, which were removed.
    pub corrupt: u64,
}

impl Disk {
    /// Passes every object to `see`, in the order on the disk, until `see` returns false. Reads the head of each.
    pub fn list(&self, see: &mut dyn FnMut(ObjectSummary) -> bool) {
        for (hash, place) in self.places() {
            let OpenResult::Found(record) = open(&self.shared, hash, &place, ReadMode::HEAD) else {
                continue;
            };
            if !see(ObjectSummary::new(hash, &record, &place)) {
                return;
            }
        }
    }

    /// Reads all objects, at most `rate` bytes a second, and removes those whose bytes differ from the written ones.
    /// Continues while `go_on` returns true; it receives the progress before each object and after each block.
    pub fn verify(&self, rate: u64, go_on: &mut dyn FnMut(&VerifyResult) -> bool) -> VerifyResult {
        let (mut verified, mut pace) = (VerifyResult::default(), Pace::new(rate));
        for (hash, place) in self.places() {
            if !go_on(&verified) {
                break;
            }
            match open(&self.shared, hash, &place, ReadMode::HEAD) {
                OpenResult::Found(record) => {
                    let before = verified.bytes;
                    let checked = record.body.read_through(&mut |block| {
                        verified.bytes += block;
                        pace.wait(block);
                        go_on(&verified)
                    });
                    match checked {
                        Ok(true) => verified.objects += 1,
                        Ok(false) => break,
                        Err(Damage) => {
                            (verified.corrupt, verified.bytes) = (verified.corrupt + 1, before);
                        }
                    }
                    pace.wait(place.len() - record.body.len());
                }
                OpenResult::Damaged => verified.corrupt += 1,
                OpenResult::Moved | OpenResult::Waits => {}
            }
        }
        verified
    }

    /// Passes every object to `dies`, in the order on the disk and at most `rate` a second, and removes those
    /// for which it returns true. Continues while `go_on`, which is called before each object, returns true.
    /// Reads the head of each object. Writes no marks: after a crash some of the objects may be there again,
    /// until they are pruned again.
    pub fn prune(
        &self,
        rate: u64,
        dies: &mut dyn FnMut(&ObjectSummary) -> bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> PruneResult {
        let (mut pruned, mut pace) = (PruneResult::default(), Pace::new(rate));
        for (hash, place) in self.places() {
            if !go_on() {
                break;
            }
            if let OpenResult::Found(record) = open(&self.shared, hash, &place, ReadMode::HEAD) {
                pruned.looked += 1;
                let listed = ObjectSummary::new(hash, &record, &place);
                if dies(&listed) && self.shared.index.remove_at(hash, place.location()) {
                    pruned.objects += 1;
                    pruned.bytes += place.len();
                }
            }
            pace.wait(1);
        }
        pruned
    }

    /// Removes the objects that were last used before `before`, in seconds since 1970. Does not read the
    /// disk, and like [`prune`](Self::prune) writes no marks.
    pub fn prune_unused(&self, before: u32) -> PruneResult {
        let (mut pruned, mut unused) = (PruneResult::default(), Vec::new());
        self.shared.index.for_each(|hash, place| {
            pruned.looked += 1;
            if place.used() < before {
                unused.push((hash, place.len()));
            }
        });
        for (hash, len) in unused {
            // It may have been used, or replaced, meanwhile.
            if self.shared.index.remove_if(hash, |place| place.used() < before && place.len() == len) {
                pruned.objects += 1;
                pruned.bytes += len;
            }
        }
        pruned
    }

    fn places(&self) -> Vec<(u64, ObjectLocation)> {
        let mut places = Vec::new();
        self.shared.index.for_each(|hash, place| places.push((hash, place.clone())));
        // In the order on the disk, so that reads are sequential.
        places.sort_unstable_by_key(|(_, place)| (place.location().segment, place.location().at()));
        places
    }
}

/// Limits work to `rate` units a second.
struct Pace {
    begin: Instant,
    rate: u64,
    done: u64,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Self { begin: Instant::now(), rate: rate.max(1), done: 0 }
    }

    /// Waits until `more` units may be done.
    fn wait(&mut self, more: u64) {
        self.done += more;
        let due = Duration::from_secs_f64(self.done as f64 / self.rate as f64);
        thread::sleep(due.saturating_sub(self.begin.elapsed()));
    }
}
