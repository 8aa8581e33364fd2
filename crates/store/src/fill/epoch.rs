//! The state of purges at the begin of a fetch.

use larder_semantics::purge::Scope;

use super::Fills;
use crate::purges::Generation;

/// How often [`Fills::spoil`] counts its key as cancelled.
const CANCELLED_BY_SPOIL: u64 = 2;

/// A moment, as far as what is stored is concerned: of a key, from [`Fills::now`](Fills::now).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// How often a key of this part of the table was cancelled.
    pub(super) cancelled: u64,
    /// How often something was stored under one.
    pub(super) stored: u64,
    /// How many purges there were of whatever.
    pub(super) generation: Generation,
    /// How many removals of whatever key.
    pub(super) removals: u64,
}

impl Epoch {
    /// The generation in force then.
    pub fn generation(self) -> Generation {
        self.generation
    }

    /// The same, with the purges in force at `began`: what was purged since then is not stored.
    #[must_use]
    pub fn of_fetch(self, began: Self) -> Self {
        Self { generation: began.generation, removals: began.removals, ..self }
    }

    /// The same, after so many further cancellations.
    #[must_use]
    pub fn after(self, cancelled: u64) -> Self {
        Self { cancelled: self.cancelled + cancelled, ..self }
    }

    /// Whether this key, or rarely another, was cancelled after `earlier`.
    pub fn is_cancelled_since(self, earlier: Self) -> bool {
        self.cancelled != earlier.cancelled
    }

    /// Whether nothing was stored or cancelled between the two.
    pub(crate) fn is_like(self, other: Self) -> bool {
        (self.cancelled, self.stored) == (other.cancelled, other.stored)
    }
}

impl Fills {
    /// How many cancellations of the key with this hash it counts as that these URLs were [spoilt](Self::spoil), each
    /// once.
    pub fn cancellations(&self, urls: &[Scope], hash: u64) -> u64 {
        let part = |hash: u64| hash as usize % self.table.len();
        let of = |url: &Scope| match url {
            Scope::Url(key) if part(self.store.memory.hash(key)) == part(hash) => CANCELLED_BY_SPOIL,
            _ => 0,
        };
        urls.iter().map(of).sum()
    }
}
