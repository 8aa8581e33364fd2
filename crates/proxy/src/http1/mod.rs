//! The HTTP/1.1 door: our own server loop on `httparse`.
//!
//! `head` reads a request strictly, `chunked` its content, `io` moves bytes under deadlines, `send`
//! turns a reply into bytes, `connection` is the loop that a client meets.

pub mod chunked;
mod connection;
pub mod head;
mod input;
mod io;
mod send;
mod upload;

pub(crate) use connection::Connection;
