//! What policies are made of.

pub(crate) mod by_slot;
pub(crate) mod chunks;
pub(crate) mod list;
