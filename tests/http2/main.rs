//! HTTP/2 for clients and with origins: the same responses as over HTTP/1.1, streams that do not wait for each other,
//! and clients that violate the protocol.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod client;
mod crowd;
mod grpc;
mod hints;
mod hostile;
mod limits;
mod origins;
mod same;
mod server;
mod streams;
mod tools;
mod tunnels;
