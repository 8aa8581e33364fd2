//! Requests to origins that speak HTTP/2 (RFC 9113), such as servers of gRPC.
//!
//! The `h2` library implements the protocol. Each connection has a task that reads and writes its frames; a request is
//! a stream of the connection. A separate task sends the content of a request, so that neither direction waits for the
//! other. Flow control limits a response to the window of its stream, which grows as the content is read.

mod connection;
mod exchange;
mod message;
mod places;
mod sending;

pub(super) use self::exchange::Exchange;
pub(super) use self::message::message;
pub(super) use self::places::{Choice, Places};
