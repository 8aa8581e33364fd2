//! Sockets: streams and their buffers, limits on what runs at the same time, and the addresses that are never called.

pub mod concurrency;
pub(crate) mod deadline;
pub mod guard;
pub(crate) mod input;
pub(crate) mod io;
pub(crate) mod limiter;
pub mod own;
pub(crate) mod pace;
pub mod proxy_protocol;
pub mod stream;
pub mod tls;
