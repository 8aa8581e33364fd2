//! `[[site.rule]]`: the effects of rules on caching, keys, changes, answers and refusals, from the view of clients and
//! origins.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "it is for more tests")]
#[path = "../http2/client.rs"]
mod http2;

mod access;
mod answers;
mod cors;
mod counts;
mod domains;
mod expectations;
mod fields;
mod foreseen;
mod keys;
mod lifetimes;
mod limits;
mod origins;
mod pages;
mod refused;
mod spellings;
mod ways;

use support::{Larder, Origin};

/// Starts a proxy with a site with these rules.
fn with_rules(origin: &Origin, rules: &str) -> Larder {
    Larder::start(&support::site(&[origin], rules))
}
