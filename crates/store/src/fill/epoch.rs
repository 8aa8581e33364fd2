//! The state of purges at the start of a fetch.

use larder_semantics::purge::Scope;

use super::Fills;
use crate::purges::Generation;

/// The number of times that [`Fills::spoil`] counts its key as cancelled.
const CANCELLED_BY_SPOIL: u64 = 2;

/// The state of the store for one key at one moment, from [`Fills::now`](Fills::now).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The cancellations of keys in this part of the table.
    pub(super) cancelled: u64,
    /// The responses stored under these keys.
    pub(super) stored: u64,
    /// The generation of purges.
    pub(super) generation: Generation,
    /// The removals of all keys.
    pub(super) removals: u64,
}

impl Epoch {
    /// Returns the generation in force then.
    pub fn generation(self) -> Generation {
        self.generation
    }

    /// Returns the same epoch with the purges in force at `began`: a response purged since then is not stored.
    #[must_use]
    pub fn of_fetch(self, began: Self) -> Self {
        Self { generation: began.generation, removals: began.removals, ..self }
    }

    /// Returns the epoch after this number of further cancellations.
    #[must_use]
    pub fn after(self, cancelled: u64) -> Self {
        Self { cancelled: self.cancelled + cancelled, ..self }
    }

    /// Whether this key, or rarely another, was cancelled after `earlier`.
    pub fn is_cancelled_since(self, earlier: Self) -> bool {
        self.cancelled != earlier.cancelled
    }

    /// Whether no response was stored or cancelled between the two epochs.
    pub(crate) fn is_like(self, other: Self) -> bool {
        (self.cancelled, self.stored) == (other.cancelled, other.stored)
    }
}

impl Fills {
    /// Returns the number of cancellations that the key with this hash counts when each of these URLs is
    /// [spoilt](Self::spoil) once.
    pub fn cancellations(&self, urls: &[Scope], hash: u64) -> u64 {
        let part = |hash: u64| hash as usize % self.table.len();
        let of = |url: &Scope| match url {
            Scope::Url(key) if part(self.store.memory.hash(key)) == part(hash) => CANCELLED_BY_SPOIL,
            _ => 0,
        };
        urls.iter().map(of).sum()
    }
}
