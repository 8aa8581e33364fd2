//! HTTP/1.1 on the wire (RFC 9112): what is refused, how contents and connections are carried, and
//! what travels on. The parser's own tests know more malformed heads; here it counts that nothing of
//! them reaches an origin.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod connections;
mod contents;
mod hops;
mod limits;
mod refusals;
