//! The limit of a store on a disk that is full for other reasons than the store's own size.
//!
//! Where other files take the space, or the disk is smaller than the store's size, a write fails for lack of
//! space. From then on the store stays a little below the size that it had at that moment: it evicts objects
//! to store new ones, as at its configured size, and checks every second whether there is more space again.
//! It does not shrink indefinitely while other programs take the freed space: it keeps three quarters of its
//! data, and stores no new objects rather than evict more.

use std::io;
use std::time::{Duration, Instant};

use crate::files::Space;

/// At most this fraction of the entries is evicted for other programs that take the space, ...
const GIVEN_WAY: u64 = 4;
/// ... within this time.
const WITHIN: Duration = Duration::from_secs(600);
/// How often the free space is checked.
const LOOK: Duration = Duration::from_secs(1);
/// At most this fraction of the disk's data is left free, so that the cleaner can move records.
const LEFT_FREE: u64 = 8;

/// The limit on a disk that may be full.
pub(crate) struct Ceiling {
    /// Bytes that segments may take; `None` if no write has failed for lack of space, or there has been enough since.
    most: Option<u64>,
    /// The time of the first such failure, and the bytes that segments took then.
    begun: Option<(Instant, u64)>,
    /// The time of the last such failure.
    failed: Instant,
    look_at: Instant,
    segment: u64,
    /// The waiting time where the free space is not available.
    pause: Duration,
}

/// Whether `error` means that there is no space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Ceiling {
    /// Returns the limit for a store with segments of `segment` bytes.
    pub(crate) fn new(segment: u64, pause: Duration) -> Self {
        let now = Instant::now();
        Self { most: None, begun: None, failed: now, look_at: now, segment, pause }
    }

    /// Returns the bytes that segments may take on this disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.most.unwrap_or(u64::MAX)
    }

    /// Whether a write has failed for lack of space, and there has not been enough since.
    pub(crate) fn is_low(&self) -> bool {
        self.most.is_some()
    }

    /// Records that a write failed for lack of space, when segments took `taken` bytes.
    pub(crate) fn lower(&mut self, taken: u64, now: Instant) {
        let begun = self.begun.filter(|(since, _)| now.duration_since(*since) < WITHIN);
        let (since, first) = begun.unwrap_or((now, taken));
        self.begun = Some((since, first.max(taken)));
        self.most = Some((taken - self.left_free(taken)).max(first - first / GIVEN_WAY));
        (self.failed, self.look_at) = (now, now + LOOK.min(self.pause));
    }

    /// Whether the next [check](Self::look) for space is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.is_low() && now >= self.look_at
    }

    /// Adjusts the limit to `space`, when segments take `taken` bytes and may take `limit` bytes if the disk
    /// has room for them. Where the space is not available, the limit is lifted after a pause, and the next
    /// write shows whether there is space.
    pub(crate) fn look(&mut self, space: io::Result<Space>, (taken, limit): (u64, u64), now: Instant) {
        self.look_at = now + LOOK.min(self.pause);
        let all = match space {
            Ok(space) => taken.saturating_add(space.free),
            Err(_) if now.duration_since(self.failed) < self.pause => return,
            Err(_) => u64::MAX,
        };
        let most = all - self.left_free(all);
        self.most = (most < limit).then(|| most.max(self.most.unwrap_or(0).min(taken)));
    }

    fn left_free(&self, of: u64) -> u64 {
        (of / LEFT_FREE).min(self.segment / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn ceiling() -> (Ceiling, Instant) {
        (Ceiling::new(2 * MIB, Duration::from_secs(5)), Instant::now())
    }

    fn free(bytes: u64) -> io::Result<Space> {
        Ok(Space { free: bytes, whole: 1 << 40 })
    }

    #[test]
    fn three_quarters_stay_however_often_writes_fail() {
        let (mut ceiling, now) = ceiling();
        assert_eq!((ceiling.bytes(), ceiling.is_low()), (u64::MAX, false));
        ceiling.lower(100 * MIB, now);
        assert_eq!(ceiling.bytes(), 99 * MIB);
        for taken in (0..100).rev() {
            ceiling.lower(taken * MIB, now + WITHIN / 2);
            assert_eq!(ceiling.bytes(), (taken * MIB - (taken * MIB / 8).min(MIB)).max(75 * MIB));
        }
        ceiling.lower(75 * MIB, now + WITHIN);
        assert_eq!(ceiling.bytes(), 74 * MIB, "one that lasts is given way to, slowly");
    }

    #[test]
    fn space_that_comes_back_is_used_within_seconds() {
        let (mut ceiling, now) = ceiling();
        ceiling.lower(100 * MIB, now);
        assert!(!ceiling.is_due(now) && ceiling.is_due(now + LOOK));
        for (free_bytes, most) in [(0, 99 * MIB), (10 * MIB, 109 * MIB), (4_000 * MIB, u64::MAX)] {
            ceiling.look(free(free_bytes), (100 * MIB, 4_000 * MIB), now);
            assert_eq!(ceiling.bytes(), most, "{free_bytes}");
        }
        assert!(!ceiling.is_low());
    }

    #[test]
    fn a_disk_of_unknown_free_space_is_tried_again_after_a_pause() {
        let (mut ceiling, now) = ceiling();
        ceiling.lower(100 * MIB, now);
        for (seconds, is_low) in [(1, true), (4, true), (5, false)] {
            let now = now + Duration::from_secs(seconds);
            ceiling.look(Err(io::ErrorKind::Unsupported.into()), (100 * MIB, 4_000 * MIB), now);
            assert_eq!(ceiling.is_low(), is_low, "{seconds}");
        }
    }
}
