//! A request and its reply as the flow sees them, whatever protocol they came by, and the site that they belong to.

pub mod arrival;
pub(crate) mod chosen;
pub(crate) mod client_cert;
pub(crate) mod edits;
pub mod forwarded;
pub(crate) mod gateways;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod negotiated;
pub(crate) mod pages;
pub(crate) mod passes;
pub(crate) mod placeholders;
pub(crate) mod plan;
pub(crate) mod position;
pub mod reply;
pub(crate) mod request;
pub mod route;
pub(crate) mod rule_counts;
pub(crate) mod rulebook;
pub(crate) mod send;
pub(crate) mod settled;
pub(crate) mod sink;
pub(crate) mod target;
pub(crate) mod tunnel;
pub(crate) mod upgrade;
pub(crate) mod upstreams;
