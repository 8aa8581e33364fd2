//! The proxy: sockets, and the way of a request from a client to the cache, to an origin, and back.
//!
//! Each folder is a layer, and imports only those that stand before it here:
//!
//! - those of `larder-transport`;
//! - `exchange`: requests, replies, sites; `observe`: records of requests and their destinations;
//! - `cache`: stored responses and purges; `cluster`: other nodes; `acme`: certificates that an authority issues;
//! - `flow`: from a request to its reply; `features`: purges, the validator, gateways, explanations;
//! - `wire`: what the protocols of clients share; `http1`, `http2`, `rpc`: these protocols; `accept`: accepting of
//!   connections.
//!
//! Above are those of `larder-server`.
//!
//! `larder-semantics` decides which responses may be cached; `larder-store` stores them.

pub use larder_transport::{base, counts, effects, http, net, origin, verifies_signatures};

pub mod accept;
pub mod acme;
pub mod cache;
pub mod cluster;
pub mod exchange;
pub mod features;
pub mod flow;
pub mod http1;
mod http2;
pub mod observe;
pub mod rpc;
mod wire;

pub use acme::{CertificateFile, examine as examine_acme};
pub use base::error::Error;
pub use base::settings::Settings;
pub use base::{explanation, findings, settings};
pub use exchange::arrival::Arrival;
#[cfg(fuzzing)]
pub use features::purge::glob_of_purge;
pub use features::{dry_run, inventory};
pub use observe::access::examine as examine_access_log;
