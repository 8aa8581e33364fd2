//! HTTP messages on the wire: heads, field lines, content.

mod authority;
pub mod body;
pub mod chunked;
mod connection_fields;
mod edits;
pub mod fields;
pub mod head;
mod name_lengths;
pub mod names;
mod refusal;
pub mod response;
