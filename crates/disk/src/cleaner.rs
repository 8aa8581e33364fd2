//! Makes room: frees the emptiest segments after moving their live records.
//!
//! A segment is freed only if at most a third of it has to move, so that cleaning writes at most half a byte for each byte
//! freed. If no segment is that empty, the policy evicts until one is. Moved records keep their serials and checksums.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::Engine;
use crate::files::read_all;
use crate::full::is_full;
use crate::index::Location;
use crate::log::{Class, OpenSegment};
use crate::record::{ALIGN, RecordKind, RecordPrefix};
use crate::scan::scan;
use crate::segment::{HEADER, Segment};

/// The largest part of a segment that may have to move; fuller segments are not cleaned.
const MOST_KEPT: (u64, u64) = (1, 3);
/// The divisor for the part of the size that marks of removals may take; beyond it, the oldest segment is
/// freed with its objects.
const MARKS_SHARE: u64 = 16;
/// The divisor for the part of the size that readers of freed segments may hold.
const HELD_SHARE: u64 = 8;
/// With fewer segments than this, a full disk evicts none: one segment would be too large a part of the store.
const FEWEST_TO_EVICT: usize = 8;
/// Bytes moved at once.
const PIECE: u64 = 1 << 20;
/// The limit of steps in the search for a victim.
const TURNS: usize = 256;

/// The fate of the live objects of a segment that is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveObjects {
    /// They are copied to another segment.
    Move,
    /// They are removed from the store.
    Remove,
}

impl Engine {
    /// Makes room for `bytes` more. Returns false if that fails: readers hold too much, or no segment can be freed.
    pub(crate) fn make_room(&mut self, bytes: u64) -> bool {
        let shared = Arc::clone(&self.shared);
        let (segments, size) = (&shared.segments, shared.size());
        let limit = shared.limit().min(self.ceiling.bytes());
        self.merge();
        for _ in 0..TURNS {
            let (occupied, held) = (segments.occupied(), segments.held());
            if occupied.saturating_sub(held) + bytes <= limit {
                return occupied + bytes <= size + size / HELD_SHARE;
            }
            match self.victim() {
                Some((victim, live)) if self.empty(&victim, live) => {}
                _ => break,
            }
        }
        if self.ceiling.is_low() {
            self.lacks_space();
        }
        false
    }

    /// Merges the shortest segment into another, since many starts leave many short segments.
    fn merge(&mut self) {
        let all = self.shared.segments.all();
        if all.len() as u64 <= self.shared.size() / self.shared.segment * 2 {
            return;
        }
        let shortest = all.into_iter().filter(is_idle).min_by_key(|segment| segment.end());
        if let Some(shortest) = shortest.filter(|shortest| shortest.end() < self.shared.segment / 2) {
            self.empty(&shortest, LiveObjects::Move);
        }
    }

    /// Returns the next segment to free.
    fn victim(&mut self) -> Option<(Arc<Segment>, LiveObjects)> {
        for _ in 0..TURNS {
            let all = self.shared.segments.all();
            let count = all.len();
            let marks: u64 = all.iter().map(|segment| segment.marks.load(Ordering::Relaxed)).sum();
            if marks > self.shared.size() / MARKS_SHARE {
                let oldest = all.into_iter().filter(is_idle).min_by_key(|segment| segment.oldest());
                return oldest.map(|oldest| (oldest, LiveObjects::Remove));
            }
            let share = |segment: &Arc<Segment>| (segment.kept() as f64 / segment.end() as f64).to_bits();
            let Some(emptiest) = all.into_iter().filter(is_idle).min_by_key(share) else {
                self.seal_idle()?;
                continue;
            };
            let is_empty_enough = emptiest.kept() * MOST_KEPT.1 <= emptiest.end() * MOST_KEPT.0;
            if is_empty_enough || self.shared.index.is_empty() {
                return Some((emptiest, LiveObjects::Move));
            }
            if self.ceiling.is_low() && count < FEWEST_TO_EVICT {
                return None;
            }
            self.shared.index.squeeze(self.shared.segment / 4);
        }
        None
    }

    fn seal_idle(&mut self) -> Option<()> {
        let had = self.log.published().next().is_some();
        let sealed = self.log.seal_idle();
        if sealed.is_err() {
            self.note("segment", &sealed);
        }
        had.then_some(())
    }

    /// Frees `victim`. Returns false if it stays, at least for now.
    fn empty(&mut self, victim: &Arc<Segment>, live: LiveObjects) -> bool {
        // A removed segment or mark must not be needed by a segment that reappears after a crash.
        if !self.sync_log() {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let (mut outcome, mut marks) = (Ok(()), BTreeMap::new());
        let range = (HEADER, victim.end());
        scan(&*victim.file, range, &shared.secret, &mut |at, fixed| {
            if fixed.kind != RecordKind::Object {
                marks.insert(fixed.serial, *fixed);
                return ControlFlow::Continue(());
            }
            let live = if outcome.is_ok() { live } else { LiveObjects::Remove };
            let moved = self.empty_object(victim, at, fixed, live);
            outcome = std::mem::replace(&mut outcome, Ok(())).and(moved);
            match &outcome {
                Err(error) if !is_full(error) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        // If the disk is full for other reasons, the objects that could not be moved are lost, so that room is gained.
        if outcome.is_err_and(|error| !is_full(&error)) {
            return false;
        }
        // The copies have to be durable before the originals are removed.
        if !self.move_marks(victim, &marks) || !self.sync_log() {
            return false;
        }
        let gone = self.log.retire(victim);
        if gone.is_err() {
            self.note(&victim.name, &gone);
        }
        gone.is_ok()
    }

    /// Writes the marks of `victim` again that an object elsewhere may still need.
    fn move_marks(&mut self, victim: &Segment, marks: &BTreeMap<u64, RecordPrefix>) -> bool {
        if (marks.len() as u64) * 2 * ALIGN < victim.marks.load(Ordering::Relaxed) {
            // Some marks are unreadable at the moment. The segment stays, so that the next start can try again.
            victim.known.store(false, Ordering::Release);
            return false;
        }
        let oldest = self.oldest_beside(victim);
        let needed: Vec<RecordPrefix> =
            marks.range(oldest.saturating_add(1)..).map(|(_, mark)| *mark).collect();
        needed.is_empty() || self.append_marks(Class::Moved, &needed)
    }

    /// Returns the lowest serial of the objects in other segments: older marks are not needed.
    fn oldest_beside(&self, victim: &Segment) -> u64 {
        let others = self.shared.segments.all();
        let others = others.iter().filter(|segment| segment.number != victim.number);
        others.map(|segment| segment.oldest()).min().unwrap_or(u64::MAX)
    }

    /// Moves or removes an object of `victim`, if it is live.
    fn empty_object(
        &mut self,
        victim: &Segment,
        at: u64,
        fixed: &RecordPrefix,
        live: LiveObjects,
    ) -> io::Result<()> {
        let Some(from) = Location::new(victim.number, at) else { return Ok(()) };
        if self.shared.index.peek(fixed.hash).is_none_or(|place| place.location() != from) {
            return Ok(());
        }
        if live == LiveObjects::Remove {
            self.shared.index.remove_at(fixed.hash, from);
            return Ok(());
        }
        let mut open = self.log.take(Class::Moved)?;
        open.segment.holds(fixed.serial);
        let copied = self.copy(victim, at, fixed.len(), &open);
        if copied.is_err() {
            self.shared.index.remove_at(fixed.hash, from);
        }
        if !self.wrote(&open, &copied) {
            return copied;
        }
        if let Some(to) = Location::new(open.segment.number, open.at) {
            self.shared.index.relocate(fixed.hash, from, to);
        }
        open.at += fixed.len();
        self.give_back(open);
        Ok(())
    }

    fn copy(&mut self, victim: &Segment, at: u64, len: u64, open: &OpenSegment) -> io::Result<()> {
        let mut bytes = vec![0; len.min(PIECE) as usize];
        let mut done = 0;
        while done < len {
            let piece = &mut bytes[..(len - done).min(PIECE) as usize];
            read_all(&*victim.file, piece, at + done)?;
            self.log.write(open, piece, open.at + done)?;
            done += piece.len() as u64;
        }
        Ok(())
    }
}

/// Whether the segment has no writer and its contents are known.
fn is_idle(segment: &Arc<Segment>) -> bool {
    segment.is_sealed() && segment.known.load(Ordering::Acquire)
}
