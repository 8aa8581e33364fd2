//! The doors: listeners for programs that fetch pages by RPC, tested over real sockets with the codecs' clients.

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
