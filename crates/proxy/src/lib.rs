//! The proxy: sockets, and the way of a request from a client to the cache, to an origin, and back.
//!
//! The files in the order a request meets them: [`listen`] accepts, `http1` reads it, `request` and
//! `route` say what it is and where it belongs, `serve` is the flow, `origin` asks those who know,
//! `reply` carries the answer. What may be cached is decided in `larder-semantics`, where it lives
//! in `larder-store`. `doors` are other ways in, for programs that speak RPC; `admin` is for
//! those who run it, and [`why`] explains to them what the rest decides.

mod admin;
mod answer;
mod carry;
mod clock;
pub mod cluster;
mod coalesce;
mod combine;
mod doors;
mod doubt;
mod equivalent;
mod error;
pub mod explanation;
mod fetch;
pub mod findings;
mod follow;
mod forwarded;
mod health;
pub mod http1;
pub mod inventory;
pub mod listen;
mod networks;
mod observe;
pub mod origin;
pub mod outcome;
mod own_tag;
mod pass;
mod purge;
mod purge_method;
mod question;
mod reload;
pub mod reply;
mod request;
mod route;
pub mod schedule;
mod serve;
pub mod settings;
mod settled;
mod tagpools;
mod tunnel;
mod upgrade;
mod upkeep;
mod upstream;
mod validator;
pub mod why;
mod worker;

pub use admin::metrics::reference as metrics_reference;
pub use error::Error;
pub use listen::{Control, Front, Server};
pub use settings::Settings;
