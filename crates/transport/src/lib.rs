//! What the proxy stands on: settings as data, sockets and TLS, HTTP/1.1 messages, counters, and the client of origins.
//!
//! Each folder is a layer of `larder-proxy`, which imports them as its own: `base`, `net`, `http`, `counts`, `origin`, each
//! only from those before it. They are a crate of their own so that both halves of the proxy are compiled at once.

pub mod base;
pub mod counts;
pub mod http;
pub mod net;
pub mod origin;
