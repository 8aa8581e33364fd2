//! HTTP/2 (RFC 9113) for a server, without sockets, clocks or tasks: bytes in, events and frames out.
//!
//! [`Connection::next`] reads one frame from the bytes of the client and says what it means. Replies are written as frames
//! behind each other into a buffer, which leaves whenever its owner likes: [`Connection::head`], [`Connection::data`],
//! [`Connection::trailers`]. What the windows do not allow stays with its owner, until
//! [`Connection::next_to_send`] names the stream whose turn it is.
//!
//! A request's head is decoded into memory that all connections of a thread share, and is borrowed from there. A connection
//! keeps some 60 bytes of each open stream, its windows, and the dynamic table of its client, and nothing of a request.
//! What a client can make it do has limits ([`Limits`]); beyond them the connection ends with `ENHANCE_YOUR_CALM`.
//!
//! There is no server push, no `Upgrade: h2c`, no extended `CONNECT` (RFC 8441), and no use of the priorities of RFC 7540.

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
pub use limits::Limits;
pub use priority::Priority;
