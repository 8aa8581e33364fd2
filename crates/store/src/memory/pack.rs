//! Moves small contents and their heads into memory files, which a successor of this process has too, and back.
//!
//! Contents move in the order of their addresses, so that whole pages become free one after the other: at no time both
//! copies of more than a [pack](PACK) take memory. A response that is changed or removed meanwhile stays as it is.

use std::mem;
use std::sync::Arc;
use std::thread;

use super::walk::REST;
use super::{Memory, Resident, UsedResident};
use crate::entry::RECORD;
use crate::lines::PackLines;
use crate::{Arena, Body, Entry, PackedBody, Storage};

/// The bytes of a pack.
const PACK: usize = 4 << 20;
/// Less is not worth a place in a pack.
const LEAST: usize = 64;
/// Slots of a shard that are visited under its lock, and contents that are moved back without a rest.
const SLICE: u32 = 256;
/// The bytes of packs after which freed memory is returned to the system.
const TRIM: usize = 16 << 20;

/// What a pack will have.
#[derive(Default)]
struct PackDraft {
    bytes: Vec<u8>,
    lines: PackLines,
    /// The residents whose contents these are, in this order.
    residents: Vec<(u64, Resident)>,
}

impl Memory {
    /// Sets the function that returns freed memory to the system at once.
    pub fn set_trim(&self, trim: fn()) {
        // It is set once.
        let _ = self.trim.set(trim);
    }

    /// Moves small contents into memory files. Those that the system has no room for stay where they are.
    pub(crate) fn pack(&self, arena: &Arena) {
        let (mut pack, mut untrimmed) = (PackDraft::default(), 0);
        for hash in self.by_address(&|entry, body| parts(entry, body).is_some()) {
            let Some(resident) = self.copy(hash).map(|copied| copied.resident) else { continue };
            let before = pack.bytes.len();
            let variants = resident.variants();
            variants.iter().enumerate().for_each(|(at, entry)| pack.add(entry, at + 1 < variants.len()));
            // It may have been replaced by a large response.
            if pack.bytes.len() > before {
                pack.residents.push((hash, resident));
            }
            if pack.bytes.len() >= PACK {
                untrimmed += pack.bytes.len();
                if self.pack_all(arena, &mut pack).is_none() {
                    return;
                }
            }
            if untrimmed >= TRIM {
                untrimmed = 0;
                self.trim();
            }
        }
        self.pack_all(arena, &mut pack);
        self.trim();
    }

    /// Replaces residents by those with their contents in a pack.
    fn pack_all(&self, arena: &Arena, draft: &mut PackDraft) -> Option<()> {
        let PackDraft { bytes, lines, residents } = draft;
        if bytes.is_empty() {
            return Some(());
        }
        let pack = arena.extent(Some(bytes.len() as u64)).ok()?;
        pack.append(bytes).ok()?;
        bytes.clear();
        pack.set_lines(mem::take(lines));
        let pack = Arc::new(pack);
        let mut from = 0;
        for (hash, resident) in residents.drain(..) {
            let moved = resident.moved(&mut |entry, body| {
                let [before, len, behind] = parts(entry, body)?.lens().map(|len| len as u32);
                from += before + len + behind;
                PackedBody::new(Arc::clone(&pack), from - behind - len, len).map(Body::packed)
            });
            self.exchange_moved(hash, &resident, moved?);
        }
        Some(())
    }

    /// Moves contents back that are in packs, with rests. Ends when an upgrade begins: a successor reads the packs, and would
    /// have a copy of what leaves them.
    pub fn unpack(&self) {
        let all = self.by_address(&|_, body| body.in_pack().is_some());
        for slice in all.chunks(SLICE as usize) {
            if self.changes.are_noted() {
                return;
            }
            for hash in slice {
                let Some(resident) = self.copy(*hash).map(|copied| copied.resident) else { continue };
                if let Some(moved) = resident.moved(&mut |_, body| body.unpacked()) {
                    self.exchange_moved(*hash, &resident, moved);
                }
            }
            thread::sleep(REST);
        }
    }

    /// Returns the hashes of the residents with a content that `is_wanted`, by the address of the first one.
    fn by_address(&self, is_wanted: &dyn Fn(&Entry, &Body) -> bool) -> Vec<u64> {
        self.sorted(&|kept| kept.variants().iter().find_map(|entry| address(entry, is_wanted)))
    }

    /// Replaces `before` by `moved`, the same responses in other places, unless it has changed.
    fn exchange_moved(&self, hash: u64, before: &Resident, moved: Resident) {
        let mut shard = self.shard(hash);
        let dropped = shard.resident_mut(hash).filter(|kept| kept.resident().is(before)).and_then(|kept| {
            let moved = UsedResident::packed(moved, kept.uses().clone());
            let counts = self.budget.counts;
            let is_same = moved.object(hash, counts) == kept.object(hash, counts);
            is_same.then(|| mem::replace(kept, moved))
        });
        // The lock is not held while memory is freed.
        drop(shard);
        drop(dropped);
    }

    fn trim(&self) {
        if let Some(trim) = self.trim.get() {
            trim();
        }
    }
}

impl PackDraft {
    /// Adds the contents of `entry` that go into a pack. Another variant of the response follows if it `is_followed`.
    fn add(&mut self, entry: &Entry, is_followed: bool) {
        entry.moved(&mut |body| {
            let parts = parts(entry, body)?;
            if parts.is_own {
                self.bytes.extend(entry.record(&self.lines, is_followed));
            }
            self.bytes.extend([parts.head, parts.content, &parts.rows].into_iter().flatten());
            None
        });
    }
}

impl Resident {
    /// Returns the same responses after `change` has replaced the storage of some contents; `None` if all stay.
    fn moved(&self, change: &mut dyn FnMut(&Entry, &Body) -> Option<Body>) -> Option<Self> {
        let mut is_moved = false;
        let mut moved = |entry: &Entry| {
            let moved = entry.moved(&mut |body| change(entry, body));
            is_moved |= moved.is_some();
            moved.unwrap_or_else(|| entry.clone())
        };
        let variants = self.variants().iter().map(&mut moved).collect();
        if is_moved { Self::of(variants) } else { None }
    }
}

/// What goes into a pack for a content of an entry.
struct PackParts<'e> {
    /// It is the content as the origin has sent it: a record of the entry comes before, its variable part and rows around it.
    is_own: bool,
    head: &'e [u8],
    content: &'e [u8],
    rows: Vec<u8>,
}

impl PackParts<'_> {
    /// Returns the bytes before the content, of it, and behind it.
    fn lens(&self) -> [usize; 3] {
        let record = if self.is_own { RECORD } else { 0 };
        [record + self.head.len(), self.content.len(), self.rows.len()]
    }
}

/// Returns what goes into a pack for a content of `entry`, if anything does. The forms of a small content follow it.
fn parts<'e>(entry: &'e Entry, body: &'e Body) -> Option<PackParts<'e>> {
    let (content, is_own) = (body.to_pack()?, std::ptr::eq(body, entry.body()));
    let is_small = is_own || entry.body().to_pack().is_some();
    let (head, rows) = if is_own { (entry.variable_part(), entry.rows()) } else { (&[][..], Vec::new()) };
    (is_small || content.len() >= LEAST).then_some(PackParts { is_own, head, content, rows })
}

/// Returns the address of the first content of `entry` that `is_wanted`.
fn address(entry: &Entry, is_wanted: &dyn Fn(&Entry, &Body) -> bool) -> Option<usize> {
    let mut first = None;
    entry.moved(&mut |body| {
        if let Storage::Heap(bytes) = body.place()
            && first.is_none()
            && is_wanted(entry, body)
        {
            first = Some(bytes.as_ptr() as usize);
        }
        None
    });
    first
}
