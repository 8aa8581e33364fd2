//! Checks whether an answer was out of date when its request was sent. The code is pure: tests plant errors and check
//! that it finds them.
//!
//! All data of the services has a version, which each write raises; an answer contains the versions of its data. It is
//! *stale* if one of them had been superseded by a write that was acknowledged before the request was sent. A write in
//! progress may be visible or not.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

/// The data of an answer, such as `users/7`, with their versions.
pub type Versions = BTreeMap<String, u64>;

/// The times at which versions of data were acknowledged. All calls must use the same time scale.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Times and versions, both ascending.
    acknowledged: HashMap<String, Vec<(Duration, u64)>>,
}

/// The error in a stale answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleError {
    /// The data of which the answer shows an old version.
    pub resource: String,
    /// The version shown.
    pub shown: u64,
    /// The latest version that was acknowledged when the request was sent.
    pub newest: u64,
    /// The time between the acknowledgement of the next version and the request.
    pub by: Duration,
}

impl Ledger {
    /// Records that at `at` a client received the acknowledgement of these versions, which its write has created.
    pub fn acknowledge(&mut self, made: &Versions, at: Duration) {
        for (resource, &version) in made {
            let known = match self.acknowledged.get_mut(resource) {
                Some(known) => known,
                None => self.acknowledged.entry(resource.clone()).or_default(),
            };
            match known.last() {
                // Two writes may be acknowledged in a different order from their execution.
                Some(&(_, latest)) if latest >= version => {}
                Some(&(before, _)) => known.push((at.max(before), version)),
                None => known.push((at, version)),
            }
        }
    }

    /// Returns the stale part of an answer with these versions to a request sent at `sent`; of several, the one
    /// superseded for the longest time.
    pub fn judge(&self, shown: &Versions, sent: Duration) -> Option<StaleError> {
        let stale = |(resource, &shown): (&String, &u64)| {
            let known = self.acknowledged.get(resource)?;
            let before = &known[..known.partition_point(|&(at, _)| at < sent)];
            let &(_, newest) = before.last()?;
            let &(superseded, _) = before.get(before.partition_point(|&(_, version)| version <= shown))?;
            Some(StaleError { resource: resource.clone(), shown, newest, by: sent - superseded })
        };
        shown.iter().filter_map(stale).max_by_key(|stale| stale.by)
    }
}

impl fmt::Display for StaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, shown, newest, by } = self;
        write!(f, "{resource} of version {shown}, {newest} known, superseded {} us before", by.as_micros())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn versions(of: &[(&str, u64)]) -> Versions {
        of.iter().map(|&(name, version)| (name.to_owned(), version)).collect()
    }

    fn ledger(acknowledged: &[(&str, u64, u32)]) -> Ledger {
        let mut ledger = Ledger::default();
        for &(name, version, at) in acknowledged {
            ledger.acknowledge(&versions(&[(name, version)]), at * US);
        }
        ledger
    }

    #[test]
    fn a_planted_stale_answer_is_found() {
        let ledger = ledger(&[("users/1", 2, 10), ("users/1", 3, 20), ("paths/1", 9, 15)]);
        for (shown, sent, newest_and_by) in [
            (&[("users/1", 1)][..], 11, Some((2, 1))),
            (&[("users/1", 1)], 25, Some((3, 15))),
            (&[("users/1", 2)], 25, Some((3, 5))),
            (&[("users/1", 2), ("paths/1", 8)], 25, Some((9, 10))),
            // Before the first acknowledgement, or at the same moment; a version newer than all known ones; data that
            // were never written.
            (&[("users/1", 1)], 9, None),
            (&[("users/1", 1)], 10, None),
            (&[("users/1", 2)], 20, None),
            (&[("users/1", 4)], 25, None),
            (&[("skills/1", 1)], 25, None),
            (&[], 25, None),
        ] {
            let found = ledger.judge(&versions(shown), sent * US).map(|stale| (stale.newest, stale.by));
            let expected = newest_and_by.map(|(newest, by)| (newest, by * US));
            assert_eq!(found, expected, "{shown:?} sent at {sent}");
        }
    }

    #[test]
    fn acknowledgements_out_of_order_take_nothing_back() {
        let ledger = ledger(&[("users/1", 3, 20), ("users/1", 2, 21), ("users/1", 4, 19)]);
        assert_eq!(ledger.judge(&versions(&[("users/1", 3)]), 20 * US), None);
        let stale = ledger.judge(&versions(&[("users/1", 3)]), 22 * US).unwrap();
        assert_eq!(stale.to_string(), "users/1 of version 3, 4 known, superseded 2 us before");
    }

    proptest! {
        /// Checks the definition literally.
        #[test]
        fn the_ledger_judges_staleness_by_its_definition(
            writes in proptest::collection::vec(1_u32..5, 0..20),
            shown in 0_u64..25,
            sent in 0_u32..60,
        ) {
            let mut at = 0;
            let history: Vec<_> = (1..).zip(&writes).map(|(version, gap)| { at += gap; (version, at) }).collect();
            let acknowledged: Vec<_> = history.iter().map(|&(version, at)| ("users/1", version, at)).collect();
            let found = ledger(&acknowledged).judge(&versions(&[("users/1", shown)]), sent * US).is_some();
            prop_assert_eq!(found, history.iter().any(|&(version, at)| version > shown && at < sent));
        }
    }
}
