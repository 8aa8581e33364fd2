//! HTTP messages on the wire: heads, field lines, content.

mod authority;
pub mod body;
pub mod chunked;
pub(crate) mod fields;
pub mod head;
mod name_lengths;
pub(crate) mod names;
pub mod response;
