//! The features built on the flow: the arrival of requests, purges, the validator, the gateways for entity tags, and explanations.

pub(crate) mod advice;
pub(crate) mod arrive;
mod auth_request;
mod certificate_file;
mod challenge;
pub(crate) mod credentials;
pub(crate) mod departure;
pub(crate) mod dispatch;
pub mod dry_run;
pub(crate) mod edges;
pub(crate) mod etag_gateway;
mod hints;
pub mod inventory;
mod jwt;
pub(crate) mod maintenance;
pub(crate) mod only_site;
mod pac;
mod packages;
mod permissions;
pub(crate) mod purge;
pub(crate) mod purge_method;
pub(crate) mod redirect;
pub(crate) mod rules;
mod stored;
pub(crate) mod validator;
pub(crate) mod why;
pub(crate) mod why_query;
