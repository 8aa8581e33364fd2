//! The HTTP/1.1 server for clients.
//!
//! `connection` reads requests and answers hits, `answer` answers all other requests, `idle` holds connections between
//! requests, `upload` reads a request's content, `watch` notices a client that leaves, `tunnel` carries bytes after a
//! connection has left HTTP.

mod answer;
mod connection;
pub(crate) mod idle;
mod tunnel;
mod upload;
mod watch;
