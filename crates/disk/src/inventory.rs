//! Looking at everything that is stored: lists, and checks of every byte.

use std::thread;
use std::time::{Duration, Instant};

use crate::body::{Opened, open};
use crate::disk::Disk;
use crate::index::Place;

/// An object, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: Vec<u8>,
    /// What the caller gave beside the body.
    pub meta: Vec<u8>,
    /// Bytes of its body.
    pub len: u64,
    /// Bytes that it takes on the disk.
    pub size: u64,
    /// When it was stored, in seconds since 1970.
    pub stored: u32,
    /// When it was last used, in seconds since 1970.
    pub used: u32,
}

/// What a check of everything came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects that are what was written.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Objects that are not, and are gone.
    pub corrupt: u64,
}

impl Disk {
    /// Shows every object, in no particular order, until `see` says false. Reads the head of each.
    pub fn list(&self, see: &mut dyn FnMut(Listed) -> bool) {
        for (hash, place) in self.places() {
            let Opened::Found(key, object) = open(&self.shared, hash, &place) else { continue };
            let listed = Listed {
                key: key.into(),
                meta: object.meta,
                len: object.body.len(),
                size: place.len(),
                stored: object.stored,
                used: place.used(),
            };
            if !see(listed) {
                return;
            }
        }
    }

    /// Reads everything, at most `rate` bytes a second, and gives up what is not what was written. Goes on
    /// for as long as `go_on` says so, which is asked before each object.
    pub fn verify(&self, rate: u64, go_on: &mut dyn FnMut() -> bool) -> Verified {
        let (mut verified, begin, mut read) = (Verified::default(), Instant::now(), 0_u64);
        for (hash, place) in self.places() {
            if !go_on() {
                break;
            }
            match open(&self.shared, hash, &place) {
                Opened::Found(_, mut object) => match object.body.verify_again() {
                    Ok(()) => {
                        verified.objects += 1;
                        verified.bytes += object.body.len();
                    }
                    Err(_) => verified.corrupt += 1,
                },
                Opened::Damaged => verified.corrupt += 1,
                Opened::Moved => {}
            }
            read += place.len();
            let due = Duration::from_secs_f64(read as f64 / rate.max(1) as f64);
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        verified
    }

    fn places(&self) -> Vec<(u64, Place)> {
        let mut places = Vec::new();
        self.shared.index.for_each(|hash, place| places.push((hash, place.clone())));
        // As they lie on the disk, so that they are read in that order.
        places.sort_unstable_by_key(|(_, place)| (place.location().segment, place.location().at()));
        places
    }
}
