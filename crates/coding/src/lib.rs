//! Encoders and decoders of content codings (RFC 9110 section 8.4.1), all in memory.
//!
//! Functions are not inlined, so that the code of the libraries is compiled here, once.
//!
//! Outside this crate: the choice of a coding (`larder-semantics`), threads, and limits on the work of a process.

mod decoder;
mod encoder;
mod inflater;

pub use decoder::{StreamDecoder, decode, decode_xz, reader};
pub use encoder::{Encoder, encode};
pub use inflater::Inflater;
