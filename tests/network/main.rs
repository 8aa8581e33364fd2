//! Connections: the PROXY protocol, Unix sockets, balancing between origins, the resolution of their names, buckets as
//! origins, parent proxies, and the forward proxy.

mod balance;
mod buckets;
mod clients;
mod forward;
mod given;
mod names;
mod parents;
mod proxy_protocol;
mod relay;
mod sockets;
