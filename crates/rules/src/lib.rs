//! Rules of sites: conditions on a request and its response, and the rules that hold for both.
//!
//! A [`RuleSet`] is compiled once from [`Rule`]s, in their written order. It returns the numbers of the rules that
//! hold ([`RuleSet::on_request`], [`RuleSet::on_response`]). This crate does not know the effects of a rule.
//!
//! Matching takes time linear in the request: regular expressions run in automata, and an index over paths and
//! extensions finds the few rules that can hold. A request costs no allocation if its path needs no decoding.

mod bucket;
mod conditions;
mod domains;
mod map;
mod moments;
mod networks;
mod path;
mod pattern;
mod query;
mod reach;
mod set;
mod trie;

pub use bucket::{Bucket, Split};
pub use conditions::{
    CertificateCondition, CertificateNames, ClaimTexts, Conditions, Fields, NamedPatterns, Names, Request,
    Response,
};
pub use domains::{BadDomain, Domains, LARGEST_LIST};
pub use map::{MapBy, UrlMap};
pub use moments::Moments;
pub use networks::Networks;
pub use path::{has_readings, is_ambiguous, normal as normal_path, readings, sent_captures};
pub use pattern::Pattern;
pub use query::{Query, TRACKING};
pub use set::{Numbers, Rule, RuleSet};
