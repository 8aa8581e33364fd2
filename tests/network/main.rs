//! How connections come and go: PROXY headers of proxies in front, Unix sockets, which of several
//! origins is asked.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod balance;
mod proxy_protocol;
mod relay;
mod sockets;
