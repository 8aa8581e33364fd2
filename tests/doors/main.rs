//! The doors: programs that speak RPC get pages, over real sockets, by the codecs' own clients.

mod caller;

mod calls;
mod clients;
mod datagrams;
mod pages;
mod redirects;
mod told;
