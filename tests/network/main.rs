//! Connections: the PROXY protocol, Unix sockets, balancing between origins, the resolution of their names, and
//! the forward proxy.

mod balance;
mod clients;
mod forward;
mod given;
mod names;
mod proxy_protocol;
mod relay;
mod sockets;
