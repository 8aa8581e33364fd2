//! The process around the proxy: its start and end, what it hands to its successor, and the admin listener.
//!
//! Each folder is a layer above those of `larder-proxy`: `admin`, `handover`, `server`. They are a crate of their own so
//! that they are compiled beside the proxy, and optimised less: no request of a client passes them.

mod admin;
mod handover;
mod server;

use larder_proxy::{
    accept, acme, base, cache, cluster, counts, exchange, features, flow, http, net, observe, origin, rpc,
};

pub use accept::front::Front;
pub use admin::config::ConfigFile;
pub use admin::metrics::reference as metrics_reference;
pub use admin::shares::SiteShare;
pub use handover::child::Predecessor;
pub use handover::control::upgrade;
pub use server::control::Control;
pub use server::given::GivenSockets;
pub use server::listen::Server;
pub use server::liveness::Liveness;
