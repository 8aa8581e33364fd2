//! The responses stored under one key, and their uses.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use crate::charge::allocated;
use crate::{Entry, Extent};

/// The responses stored under one key.
#[derive(Clone, Debug)]
pub enum Resident {
    /// One response.
    One(Entry),
    /// Several responses, selected by their signatures (RFC 9111 section 4.1); the latest first.
    Many(Arc<Vec<Entry>>),
}

impl Resident {
    /// Returns the stored responses, the latest first.
    pub fn variants(&self) -> &[Entry] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Many(entries) => entries,
        }
    }

    /// Returns the first response that `selects` accepts.
    #[inline]
    pub fn into_variant(self, selects: impl Fn(&Entry) -> bool) -> Option<Entry> {
        match self {
            Self::One(entry) => selects(&entry).then_some(entry),
            Self::Many(entries) => entries.iter().find(|entry| selects(entry)).cloned(),
        }
    }

    /// Returns `None` for no variants.
    pub(super) fn of(mut variants: Vec<Entry>) -> Option<Self> {
        match variants.len() {
            0 => None,
            1 => variants.pop().map(Self::One),
            _ => {
                // Equal variants have the same size.
                variants.shrink_to_fit();
                Some(Self::Many(Arc::new(variants)))
            }
        }
    }
}

/// A [`Resident`] and its uses. In the form of these variants it takes no more room than a resident and two numbers.
pub(super) enum UsedResident {
    One(Uses, Entry),
    Many(Uses, Arc<Vec<Entry>>),
    /// Responses of which a pack has everything: the place of the first one's record there, in the bytes beside the tag.
    Packed([u8; 3], Uses, Arc<Extent>),
}

/// The uses of a resident.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    /// The time of the last request for it (UNIX seconds).
    pub(crate) last: Cell<u32>,
    /// The number of hits.
    pub(crate) hits: Cell<u32>,
    /// The number of hits before the latest of its responses was stored or validated.
    pub(crate) earlier: Cell<u32>,
}

impl Uses {
    /// Notes this number of hits, the last one at `now`.
    pub(super) fn note(&self, hits: u32, now: u32) {
        self.last.set(self.last.get().max(now));
        self.hits.set(self.hits.get().saturating_add(hits));
    }

    /// Returns the uses after a response that was received at `received` has been stored, or validated.
    pub(super) fn renewed(self, received: u32) -> Self {
        self.last.set(self.last.get().max(received));
        self.earlier.set(self.hits.get());
        self
    }
}

impl UsedResident {
    pub(super) fn new(resident: Resident, uses: Uses) -> Self {
        match resident {
            Resident::One(entry) => Self::One(uses, entry),
            Resident::Many(entries) => Self::Many(uses, entries),
        }
    }

    /// Returns the same with no more than its place if a pack has everything.
    pub(super) fn packed(resident: Resident, uses: Uses) -> Self {
        if let Some((pack, at)) = Entry::recorded(resident.variants())
            && let [low, middle, high, 0] = at.to_le_bytes()
        {
            return Self::Packed([low, middle, high], uses, Arc::clone(pack));
        }
        Self::new(resident, uses)
    }

    pub(super) fn uses(&self) -> &Uses {
        match self {
            Self::One(uses, _) | Self::Many(uses, _) | Self::Packed(_, uses, _) => uses,
        }
    }

    pub(super) fn resident(&self) -> Resident {
        match self {
            Self::One(_, entry) => Resident::One(entry.clone()),
            Self::Many(_, entries) => Resident::Many(Arc::clone(entries)),
            Self::Packed(at, _, pack) => {
                Resident::of(Entry::of_records((pack, place(*at)))).unwrap_or(Resident::Many(Arc::default()))
            }
        }
    }

    pub(super) fn variants(&self) -> Cow<'_, [Entry]> {
        match self {
            Self::One(_, entry) => std::slice::from_ref(entry).into(),
            Self::Many(_, entries) => entries.as_slice().into(),
            Self::Packed(at, _, pack) => Entry::of_records((pack, place(*at))).into(),
        }
    }

    #[inline]
    pub(super) fn is_for(&self, key: &[u8]) -> bool {
        let first = match self {
            Self::One(_, entry) => Some(entry),
            Self::Many(_, entries) => entries.first(),
            Self::Packed(at, _, pack) => return Entry::is_recorded_for(key, (pack, place(*at))),
        };
        first.is_some_and(|entry| entry.key() == key)
    }

    pub(super) fn cost(&self) -> u32 {
        self.variants().iter().map(Entry::cost).max().unwrap_or(0)
    }

    pub(super) fn charge(&self) -> u64 {
        let list =
            |len| (allocated(size_of::<Vec<Entry>>() + 16) + allocated(len * size_of::<Entry>())) as u64;
        let variants = self.variants();
        let charge = variants.iter().map(Entry::charge).sum();
        if variants.len() > 1 { charge + list(variants.len()) } else { charge }
    }

    pub(super) fn content(&self) -> u64 {
        self.variants().iter().map(Entry::content).sum()
    }
}

fn place([low, middle, high]: [u8; 3]) -> u32 {
    u32::from_le_bytes([low, middle, high, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resident_is_small() {
        assert!(size_of::<UsedResident>() <= 24, "{}", size_of::<UsedResident>());
    }
}
