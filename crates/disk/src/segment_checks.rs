//! Bodies of a segment that were verified recently, and may be sent without being read again.
//!
//! A body counts as verified while two conditions hold: it was read and found correct less than
//! [`trust`](crate::Options::trust) ago, and its segment's file still has the size and the times that it had before that
//! reading began. Writing to the file or truncating it through the file system changes one of them. Damage below the file
//! system changes neither; the time limit covers that.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::files::Stamp;

/// The least number of entries at which expired ones are dropped.
const FEW: usize = 64;

/// A verification of a body while its file had this stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) stamp: Stamp,
    /// The start of the read, in seconds since the store was opened.
    pub(crate) second: u32,
}

/// The checks of one segment. They all have the same stamp: a change of the file invalidates the older ones.
#[derive(Default)]
pub(crate) struct SegmentChecks(Mutex<State>);

#[derive(Default)]
struct State {
    stamp: Option<Stamp>,
    /// The seconds of the checks, by the place of the record in the segment.
    seconds: HashMap<u32, u32>,
    /// The number of entries at which expired ones are dropped next.
    limit: usize,
}

impl SegmentChecks {
    /// Records that the body of the record at `at` was verified. Checks from before the second `oldest` are
    /// dropped from time to time.
    pub(crate) fn note(&self, at: u32, check: Check, oldest: u32) {
        let mut state = self.0.lock();
        if state.stamp != Some(check.stamp) {
            state.seconds.clear();
            state.stamp = Some(check.stamp);
        }
        state.seconds.insert(at, check.second);
        if state.seconds.len() > state.limit.max(FEW) {
            state.seconds.retain(|_, second| *second >= oldest);
            state.limit = state.seconds.len() * 2;
        }
    }

    /// Returns the last check of the body of the record at `at`.
    pub(crate) fn get(&self, at: u32) -> Option<Check> {
        let state = self.0.lock();
        let second = *state.seconds.get(&at)?;
        state.stamp.map(|stamp| Check { stamp, second })
    }

    /// Removes the check of the record at `at`.
    pub(crate) fn forget(&self, at: u32) {
        self.0.lock().seconds.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(changed: i64, second: u32) -> Check {
        Check { stamp: Stamp { size: 1, modified: changed, changed }, second }
    }

    #[test]
    fn a_changed_file_makes_all_checks_void() {
        let checked = SegmentChecks::default();
        checked.note(1, check(1, 5), 0);
        checked.note(2, check(1, 6), 0);
        assert_eq!((checked.get(1), checked.get(2)), (Some(check(1, 5)), Some(check(1, 6))));
        checked.note(3, check(2, 6), 0);
        assert_eq!((checked.get(1), checked.get(2), checked.get(3)), (None, None, Some(check(2, 6))));
        checked.forget(3);
        assert_eq!(checked.get(3), None);
    }

    #[test]
    fn checks_that_are_out_of_date_take_no_memory() {
        let checked = SegmentChecks::default();
        for second in 0..10_000 {
            checked.note(second, check(1, second), second.saturating_sub(100));
            assert!(checked.0.lock().seconds.len() <= 202, "{second}");
        }
        assert_eq!(checked.get(9_999), Some(check(1, 9_999)));
    }
}
