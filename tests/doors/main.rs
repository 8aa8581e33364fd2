//! The doors: programs that speak RPC get pages, over real sockets, by the codecs' own clients.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod caller;

mod calls;
mod clients;
mod datagrams;
mod pages;
mod redirects;
mod told;
