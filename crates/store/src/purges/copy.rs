//! The rules in force, for the next process in an upgrade.
//!
//! | bytes | content                                                                       |
//! |-------|-------------------------------------------------------------------------------|
//! | 8     | the generation in force                                                       |
//! | 4     | the latest second of a purge or a stored response (UNIX)                      |
//! | 32    | each rule: hash, origin, generation (8 each), second (4), length (2), kind, effect |
//!
//! Numbers are little-endian. Hashes of scopes are the same in all processes.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use larder_semantics::purge::Effect;

use super::{Generation, JournalPurge, PurgeKind, Purges};

/// The version of the encoding.
pub const VERSION: u32 = 1;

const RULE: usize = 32;

/// Copied rules.
struct Copied {
    now: Generation,
    latest: u32,
    rules: Vec<(JournalPurge, Generation)>,
}

impl Purges {
    /// Returns all rules, and the generation in force.
    pub fn copy(&self) -> (Generation, Vec<u8>) {
        self.copy_of(|_| true)
    }

    /// Returns the rules later than `since` but for [copied](crate::Fills::order_copied) ones, and the generation in force.
    pub fn copy_since(&self, since: Generation) -> (Generation, Vec<u8>) {
        let repeated = self.repeated.lock();
        self.copy_of(|generation| generation > since && !repeated.contains(&generation))
    }

    fn copy_of(&self, is_copied: impl Fn(Generation) -> bool) -> (Generation, Vec<u8>) {
        // A rule that comes after this number is copied now or the next time, or both.
        let now = self.now();
        let mut bytes = now.0.to_le_bytes().to_vec();
        bytes.extend(self.latest.load(Ordering::Relaxed).to_le_bytes());
        for (rule, generation) in self.marks().into_iter().filter(|(_, generation)| is_copied(*generation)) {
            let JournalPurge { hash, kind, length, effect, second, origin } = rule;
            bytes.extend([hash, origin, generation.0].map(u64::to_le_bytes).as_flattened());
            bytes.extend(second.get().to_le_bytes());
            bytes.extend(length.to_le_bytes());
            bytes.extend([kind as u8, effect as u8]);
        }
        (now, bytes)
    }

    /// Puts copied rules in force with the generations that they had: stored responses were checked up to these. To be
    /// called before this process orders a purge. Returns `None`, and changes nothing, if the copy is malformed.
    pub fn restore_copy(&self, copy: &[u8]) -> Option<()> {
        let Copied { now, latest, rules } = read(copy)?;
        self.note(latest);
        let mut own = self.rules.write();
        rules.iter().for_each(|(rule, generation)| own.add(rule, *generation));
        own.fold();
        let last = rules.iter().map(|(_, generation)| *generation).max().unwrap_or_default();
        self.now.0.fetch_max(now.max(last).0, Ordering::Release);
        Some(())
    }

    /// Puts copied rules in force as a purge that is ordered now. Returns the rules.
    pub(crate) fn repeat_copy(&self, copy: &[u8]) -> Option<Vec<JournalPurge>> {
        let Copied { latest, rules, .. } = read(copy)?;
        self.note(latest);
        let rules: Vec<_> = rules.into_iter().map(|(rule, _)| rule).collect();
        if !rules.is_empty() {
            let mut repeated = self.repeated.lock();
            let mut own = self.rules.write();
            let generation = Generation(self.now().0 + 1);
            repeated.insert(generation);
            rules.iter().for_each(|rule| own.add(rule, generation));
            own.fold();
            self.now.0.store(generation.0, Ordering::Release);
        }
        Some(rules)
    }
}

fn read(copy: &[u8]) -> Option<Copied> {
    let (now, rest) = copy.split_first_chunk()?;
    let (latest, rest) = rest.split_first_chunk()?;
    let (rules, []) = rest.as_chunks::<RULE>() else { return None };
    let rules = rules.iter().map(rule).collect::<Option<_>>()?;
    Some(Copied { now: Generation(u64::from_le_bytes(*now)), latest: u32::from_le_bytes(*latest), rules })
}

fn rule(bytes: &[u8; RULE]) -> Option<(JournalPurge, Generation)> {
    let (numbers, rest) = bytes.split_first_chunk::<24>()?;
    let mut numbers = numbers.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
    let (hash, origin, generation) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let (second, &[low, high, kind, effect]) = rest.split_first_chunk::<4>()? else { return None };
    let rule = JournalPurge {
        hash,
        kind: *PurgeKind::ALL.get(usize::from(kind))?,
        length: u16::from_le_bytes([low, high]),
        effect: *Effect::ALL.get(usize::from(effect))?,
        second: NonZeroU32::new(u32::from_le_bytes(*second))?,
        origin,
    };
    Some((rule, Generation(generation)))
}
