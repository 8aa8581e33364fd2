//! The HTTP/1.1 door: our own server loop on `httparse`.
//!
//! `head` reads a request strictly, `chunked` its content, `io` moves bytes under deadlines, `send`
//! turns a reply into bytes, `connection` is what a client meets, `lobby` where it waits between
//! requests.

pub mod chunked;
mod connection;
pub mod head;
pub(crate) mod input;
pub(crate) mod io;
mod lobby;
pub(crate) mod send;
mod upload;
mod watch;

pub(crate) use connection::Connection;
pub(crate) use lobby::{Lobby, host};
