//! Connections: the PROXY protocol, Unix sockets, balancing between origins, and the resolution of their names.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod balance;
mod names;
mod proxy_protocol;
mod relay;
mod sockets;
