//! Slots by their number of requests, in constant time.
//!
//! A list of buckets, one for each frequency that occurs, in ascending order; each bucket has a list of slots. A hit
//! moves its slot to the next bucket. This takes 12 bytes for each object, and 24 for each bucket.

use crate::parts::by_slot::BySlot;
use crate::parts::list::{Links, List};
use crate::policy::{NONE, Residents, Slot};

struct Bucket {
    frequency: u64,
    slots: List,
    lower: u32,
    /// The next bucket; for an unused bucket, the next unused one.
    higher: u32,
}

/// Slots in ascending order of frequency and, among equals, least recently requested first.
pub(crate) struct Frequencies {
    links: Links,
    /// The bucket of each slot.
    homes: BySlot<u32>,
    buckets: Vec<Bucket>,
    lowest: u32,
    unused: u32,
}

impl Frequencies {
    pub(crate) const fn new() -> Self {
        Self { links: Links::new(), homes: BySlot::new(), buckets: Vec::new(), lowest: NONE, unused: NONE }
    }

    /// Adds `slot`, which must be absent, with one request.
    #[inline]
    pub(crate) fn insert(&mut self, slot: Slot) {
        let home = match self.buckets.get(self.lowest as usize) {
            Some(bucket) if bucket.frequency == 1 => self.lowest,
            _ => self.open(1, NONE, self.lowest),
        };
        self.move_in(slot, home);
    }

    /// Counts another request for `slot`, which must be present.
    #[inline]
    pub(crate) fn hit(&mut self, slot: Slot) {
        let home = self.homes[slot];
        let Bucket { frequency, ref slots, higher, .. } = self.buckets[home as usize];
        let more = frequency + 1;
        let is_alone = slots.is_single();
        let next = match self.buckets.get(higher as usize) {
            Some(bucket) if bucket.frequency == more => higher,
            _ if is_alone => {
                self.buckets[home as usize].frequency = more;
                return;
            }
            _ => self.open(more, home, higher),
        };
        self.move_out(slot, home);
        self.move_in(slot, next);
    }

    /// Returns the slot with the fewest requests and, among equals, the least recently requested one.
    #[inline]
    pub(crate) fn first(&self) -> Option<Slot> {
        self.buckets.get(self.lowest as usize)?.slots.back()
    }

    /// Removes `slot`, which must be present.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.move_out(slot, self.homes[slot]);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let buckets = self.buckets.capacity() * size_of::<Bucket>();
        self.links.heap_bytes() + self.homes.heap_bytes() + buckets
    }

    /// Checks that buckets ascend and are not empty, and that every resident is in its bucket.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        let (mut lower, mut at, mut frequency, mut len) = (NONE, self.lowest, 0, 0);
        while let Some(bucket) = self.buckets.get(at as usize) {
            if bucket.lower != lower || bucket.frequency <= frequency || bucket.slots.is_empty() {
                let Bucket { frequency, lower, .. } = bucket;
                return Err(format!("bucket {at} of frequency {frequency} points back to {lower}"));
            }
            len += bucket.slots.validate(&self.links, residents)?;
            if let Some(slot) = bucket.slots.iter(&self.links).find(|&slot| self.homes[slot] != at) {
                return Err(format!("slot {slot} is in bucket {at} and calls {} home", self.homes[slot]));
            }
            (lower, at, frequency) = (at, bucket.higher, bucket.frequency);
        }
        match len == residents.len() {
            true => Ok(()),
            false => Err(format!("{len} slots in buckets of {} residents", residents.len())),
        }
    }

    #[inline]
    fn move_in(&mut self, slot: Slot, home: u32) {
        self.buckets[home as usize].slots.push_front(&mut self.links, slot);
        self.homes.put(slot, home);
    }

    /// Removes `slot` from the bucket `home`, and closes the bucket if it becomes empty.
    #[inline]
    fn move_out(&mut self, slot: Slot, home: u32) {
        let bucket = &mut self.buckets[home as usize];
        bucket.slots.remove(&mut self.links, slot);
        if !bucket.slots.is_empty() {
            return;
        }
        let Bucket { lower, higher, .. } = *bucket;
        bucket.higher = std::mem::replace(&mut self.unused, home);
        self.join(lower, higher);
    }

    /// Opens an empty bucket between two others, and returns it.
    fn open(&mut self, frequency: u64, lower: u32, higher: u32) -> u32 {
        let bucket = Bucket { frequency, slots: List::new(), lower: NONE, higher: NONE };
        let at = match self.buckets.get(self.unused as usize) {
            Some(unused) => {
                let at = std::mem::replace(&mut self.unused, unused.higher);
                self.buckets[at as usize] = bucket;
                at
            }
            None => {
                self.buckets.push(bucket);
                (self.buckets.len() - 1) as u32
            }
        };
        self.join(lower, at);
        self.join(at, higher);
        at
    }

    fn join(&mut self, lower: u32, higher: u32) {
        match self.buckets.get_mut(lower as usize) {
            Some(bucket) => bucket.higher = higher,
            None => self.lowest = higher,
        }
        if let Some(bucket) = self.buckets.get_mut(higher as usize) {
            bucket.lower = lower;
        }
    }
}
