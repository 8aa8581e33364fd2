//! HTTP/2 for clients.
//!
//! A connection is one task ([`connection`]). It answers what memory has in the turn in which it reads it; replies of many
//! streams leave in one write. Each other request is a task of its own ([`answer`]), which sends through the connection as
//! windows and priorities allow ([`session`], [`stream`]). Frames and field sections are those of `larder_http2`.
//!
//! A stream may leave HTTP for a tunnel ([`tunnel`]).

mod answer;
mod connection;
mod content;
mod request;
mod session;
mod stream;
mod tunnel;

pub(crate) use connection::Connection;

/// Whether `input`, what a client has sent first, is the beginning of an HTTP/2 connection, as far as it goes.
pub(crate) fn begins(input: &[u8]) -> bool {
    input.starts_with(b"PRI ") && larder_http2::Connection::is_preface(input) != Some(false)
}
