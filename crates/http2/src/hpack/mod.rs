//! HPACK (RFC 7541), the encoding of field sections.
//!
//! The decoder maintains the dynamic table of the client's encoder. The encoder has no dynamic table: a block that it
//! writes is the same on every connection, and encoding is little more than copying.

mod decoder;
mod dynamic;
pub mod encoder;
mod huffman;
mod integer;
mod kind;
mod list;
mod malformed;
mod names;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub(crate) use kind::Kind;
pub use list::{Bounds, Fields, List};
pub use malformed::Malformed;
