//! HTTP/2 for clients and with origins: the same responses as over HTTP/1.1, streams that do not wait for each other,
//! and clients that violate the protocol.

#[path = "../dashboard/browser.rs"]
#[allow(dead_code, reason = "the tests of the dashboard use the rest")]
mod browser;
mod crowd;
mod grpc;
mod hints;
mod hostile;
mod libraries;
mod limits;
mod origins;
mod page;
mod same;
mod server;
mod streams;
mod tools;
mod tunnels;
