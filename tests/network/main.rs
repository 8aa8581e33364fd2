//! How connections come and go: PROXY headers of proxies in front, Unix sockets, which of several
//! origins is asked, and where its name leads.

mod balance;
mod names;
mod proxy_protocol;
mod relay;
mod sockets;
