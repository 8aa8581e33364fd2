//! Sockets: streams and their buffers, limits on concurrency, and the addresses that the proxy never connects to.

pub(crate) mod byte_budget;
pub mod concurrency;
pub(crate) mod content;
pub(crate) mod deadline;
pub(crate) mod farewell;
pub(crate) mod frames;
pub mod guard;
pub(crate) mod input;
pub(crate) mod io;
pub(crate) mod limiter;
pub(crate) mod linger;
pub mod own;
pub(crate) mod pace;
pub mod proxy_protocol;
pub mod stream;
pub mod tls;
