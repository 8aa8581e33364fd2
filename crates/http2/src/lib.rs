//! HTTP/2 (RFC 9113) for a server, without sockets, clocks or tasks: it reads bytes, and produces events and frames.
//!
//! [`Connection::next`] reads one frame from the client's bytes and returns its meaning. Responses are written as
//! consecutive frames into a buffer, and its owner decides when to send it: [`Connection::head`], [`Connection::data`],
//! [`Connection::trailers`]. The owner keeps the content that the windows do not allow, until
//! [`Connection::next_to_send`] returns the stream that may send next.
//!
//! A request's head is decoded into a buffer that all connections of a thread share, and is borrowed from there. A
//! connection stores about 60 bytes for each open stream, its windows, and the dynamic table of its client, but no part
//! of a request. The work that a client can cause has limits ([`Limits`]); beyond them the connection ends with
//! `ENHANCE_YOUR_CALM`.
//!
//! There is no server push, no `Upgrade: h2c`, and no use of the priorities of RFC 7540. Extended `CONNECT` (RFC 8441)
//! is supported.

mod budget;
mod connection;
mod error;
mod frame;
mod head;
pub mod hpack;
mod limits;
mod priority;
mod receive;
mod send;
mod streams;

pub use connection::{Connection, Event, Scratch};
pub use error::{Code, Failure};
pub use frame::{DATA_PAYLOAD, HEADER, PREFACE};
pub use head::Head;
pub use hpack::Fields;
pub use limits::{LINGER, Limits};
pub use priority::Priority;
