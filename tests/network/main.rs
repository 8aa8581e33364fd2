//! How connections come and go: PROXY headers of proxies in front, Unix sockets, which of several
//! origins is asked, and where its name leads.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod balance;
mod names;
mod proxy_protocol;
mod relay;
mod sockets;
