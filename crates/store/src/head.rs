//! The head of a response in progress.

use http::StatusCode;
use larder_semantics::freshness::Freshness;
use larder_semantics::stored_head::StoredHead;

use crate::entry::Parts;
use crate::purges::Generation;
use crate::{Body, Entry, Lines};

/// The head of a response in progress.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status code.
    pub status: StatusCode,
    /// The field lines, in the form of an entry.
    pub fields: Lines,
    /// The request fields that select it; empty without `Vary`.
    pub signature: Vec<u8>,
    /// The time at which it was received, and its lifetime.
    pub freshness: Freshness,
    /// The cost of the fetch so far, in microseconds.
    pub cost: u32,
    /// Bytes of content, if the origin has named their number.
    pub length: Option<u64>,
}

impl Head {
    /// Returns an entry with this head, in the cases in which [`Entry::new`] does.
    pub fn entry(&self, key: &[u8], born: Generation, body: Body) -> Option<Entry> {
        let Self { status, ref fields, ref signature, freshness, cost, .. } = *self;
        Entry::new(Parts { key, signature, status, freshness, cost, born, fields, body })
    }

    /// Returns its encodable form, without a key. `own` are the [own lines](crate::LinesRef::own) of `fields`.
    pub(crate) fn stored_head<'h>(&'h self, own: &'h [u8]) -> StoredHead<'h> {
        StoredHead {
            key: &[],
            signature: &self.signature,
            status: self.status,
            freshness: self.freshness,
            cost: self.cost,
            shared: self.fields.view().shared(),
            own,
        }
    }
}
