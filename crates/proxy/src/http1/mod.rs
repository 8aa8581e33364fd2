//! HTTP/1.1 towards clients: our own server loop.
//!
//! `connection` reads requests and answers hits, `answer` answers all else, `idle` holds connections between requests,
//! `upload` reads a request's content, `watch` notices a client that leaves, `tunnel` carries bytes once a connection has
//! left HTTP.

mod answer;
mod connection;
pub(crate) mod idle;
mod tunnel;
mod upload;
mod watch;

pub(crate) use connection::Connection;
