//! `[[site.rule]]`: how rules change what is cached, stored apart, changed, answered and refused, as clients and origins see it.

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

use larder_testkit::{Larder, Origin};

/// A site with these rules.
fn with_rules(origin: &Origin, rules: &str) -> Larder {
    Larder::start(&larder_testkit::site(&[origin], rules))
}
