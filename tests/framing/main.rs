//! HTTP/1.1 on the wire (RFC 9112): refusals, the framing of content, connections, and the forwarded fields. The
//! parser's unit tests have more malformed heads; these tests assert that no part of such a head reaches an origin.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod connections;
mod contents;
mod hops;
mod limits;
mod refusals;
