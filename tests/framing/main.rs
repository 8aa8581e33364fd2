//! HTTP/1.1 on the wire (RFC 9112): what is refused, how contents and connections are carried, and
//! what travels on. The parser's own tests know more malformed heads; here it counts that nothing of
//! them reaches an origin.

mod connections;
mod contents;
mod hops;
mod limits;
mod refusals;
