//! The HTTP/2 server for clients.
//!
//! A connection is one task ([`connection`]). It answers requests from memory in the turn in which it reads them, and
//! sends the replies of many streams in one write. Each other request is a separate task ([`crate::wire`]), which sends
//! through the connection as flow-control windows and priorities allow ([`sending`], [`stream`]). `larder_http2`
//! encodes and decodes frames and field sections.

mod connection;
mod section;
mod sending;
mod session;
mod stream;

pub(crate) use connection::Connection;

/// Whether `input`, the first bytes from a client, is the beginning of an HTTP/2 connection, as far as it has arrived.
pub(crate) fn begins(input: &[u8]) -> bool {
    input.starts_with(b"PRI ") && larder_http2::Connection::is_preface(input) != Some(false)
}
