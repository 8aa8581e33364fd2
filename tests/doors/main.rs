//! The doors: listeners for programs that fetch pages by RPC, tested over real sockets with the codecs' clients.

mod caller;

mod calls;
mod clients;
mod datagrams;
mod pages;
mod redirects;
mod told;
