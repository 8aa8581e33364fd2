//! HTTP/1.1 on the wire (RFC 9112): refusals, the framing of content, connections, and the forwarded fields. The
//! parser's unit tests have more malformed heads; these tests assert that no part of such a head reaches an origin.

mod connections;
mod contents;
mod hops;
mod limits;
mod refusals;
