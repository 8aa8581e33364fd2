//! HTTP/2 for clients and with origins: the same answers as over HTTP/1.1, streams that do not wait for each other, and clients that break rules.

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
