//! Sockets: streams and their buffers, limits on concurrency, and the addresses that the proxy never connects to.

pub mod byte_budget;
pub mod concurrency;
pub mod content;
pub mod deadline;
pub mod farewell;
pub mod frames;
pub mod guard;
pub mod input;
pub mod io;
pub mod limiter;
pub mod linger;
pub mod own;
pub mod pace;
pub mod proxy_protocol;
mod relay;
pub mod stream;
pub mod tls;
