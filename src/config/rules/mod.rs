//! Rules: the keys of `[[site.rule]]` and `[[forward.rule]]`, from which parsing, errors and the reference come.

mod answers;
mod auth;
mod claims;
mod classes;
mod conditions;
mod cors;
mod edits;
mod files;
mod jwt;
mod key;
mod keys;
mod limits;
mod origins;
mod patterns;
mod settle;
mod split;
mod values;
mod warnings;

pub(super) use conditions::MATCH;
pub(super) use edits::EDITS;
pub(super) use key::RuleKey;
pub(super) use keys::RULE;
pub(super) use settle::{Owner, settle};
pub(super) use warnings::warnings;
