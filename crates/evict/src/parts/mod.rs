//! What policies are made of.

pub(crate) mod chunks;
pub(crate) mod list;
