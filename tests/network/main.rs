//! Connections: the PROXY protocol, Unix sockets, balancing between origins, the resolution of
//! their names, buckets as origins, and parent proxies.

mod balance;
mod buckets;
mod clients;
mod given;
mod names;
mod parents;
mod proxy_protocol;
mod relay;
mod sockets;
