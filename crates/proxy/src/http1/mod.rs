//! HTTP/1.1 towards clients: our own server loop.
//!
//! `connection` reads requests and answers them, `idle` is where connections wait between requests, `answer` goes the long way, `upload` reads a
//! request's content, `send` turns a reply into bytes, `watch` notices a client that leaves, `tunnel` carries bytes once a
//! connection has left HTTP.

mod answer;
mod connection;
pub(crate) mod idle;
mod tunnel;
mod upload;
mod watch;

pub(crate) use connection::Connection;
pub(crate) use idle::host;
