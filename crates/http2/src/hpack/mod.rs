//! HPACK (RFC 7541): field sections as bytes.
//!
//! The decoder keeps the dynamic table that the client's encoder expects. The encoder has none: every block that it
//! writes is the same on every connection, and writing it is little more than copying.

mod decoder;
mod dynamic;
pub mod encoder;
mod huffman;
mod integer;
mod list;
mod malformed;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use list::{Bounds, Fields, List};
pub use malformed::Malformed;
