//! The proxy: sockets, and the way of a request from a client to the cache, to an origin, and back.
//!
//! Each folder is a layer, and imports only those that stand before it here:
//!
//! - `base`: clock, errors, outcomes, settings as data; `net`: sockets and permits; `http`: messages on the wire;
//! - `counts`: counters; `origin`: the client that asks origins; `exchange`: requests, replies, sites;
//! - `observe`: records of requests and their destinations; `cache`: stored responses and purges; `cluster`: other
//!   nodes;
//! - `acme`: certificates that an authority issues;
//! - `flow`: from a request to its reply; `features`: purges, the validator, gateways, explanations;
//! - `wire`: what the protocols of clients share; `http1`, `http2`, `rpc`, `admin`: the listeners' protocols;
//!   `handover`: what a process hands to its successor; `server`: the process.
//!
//! `larder-semantics` decides which responses may be cached; `larder-store` stores them.

use larder_transport::counts;
pub use larder_transport::{base, effects, http, net, origin, verifies_signatures};

mod acme;
mod admin;
mod cache;
mod cluster;
pub mod exchange;
mod features;
mod flow;
mod handover;
mod http1;
mod http2;
mod observe;
mod rpc;
pub mod server;
mod wire;

pub use acme::{CertificateFile, examine as examine_acme};
pub use admin::config::ConfigFile;
pub use admin::metrics::reference as metrics_reference;
pub use base::error::Error;
pub use base::settings::Settings;
pub use base::{explanation, findings, settings};
pub use exchange::arrival::Arrival;
#[cfg(fuzzing)]
pub use features::purge::glob_of_purge;
pub use features::{dry_run, inventory};
pub use handover::child::Predecessor;
pub use handover::control::upgrade;
pub use observe::access::examine as examine_access_log;
pub use server::control::Control;
pub use server::front::Front;
pub use server::given::GivenSockets;
pub use server::listen::Server;
pub use server::liveness::Liveness;
