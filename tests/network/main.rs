//! Connections: the PROXY protocol, Unix sockets, balancing between origins, and the resolution of their names.

mod balance;
mod clients;
mod given;
mod names;
mod proxy_protocol;
mod relay;
mod sockets;
