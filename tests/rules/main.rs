//! `[[site.rule]]`: the effects of rules on caching, keys, changes, answers and refusals, from the view of clients and
//! origins.

mod access;
mod answers;
mod auth_request;
mod bandwidth;
mod buckets;
mod cors;
mod counts;
mod domains;
mod expectations;
mod fields;
mod foreseen;
mod jwt;
mod keys;
mod lifetimes;
mod limits;
mod moments;
mod of_all_sites;
mod origins;
mod packages;
mod pages;
mod placeholders;
mod refused;
mod signed;
mod spellings;
mod tags;
mod timeouts;
mod vary;
mod ways;

use larder_testkit::{Larder, Origin};

/// Starts a proxy with a site with these rules.
fn with_rules(origin: &Origin, rules: &str) -> Larder {
    Larder::start(&larder_testkit::site(&[origin], rules))
}
