//! Rules: the keys of `[[site.rule]]` and `[[forward.rule]]`, from which parsing, errors and the reference come.

mod answers;
mod conditions;
mod draft;
mod edits;
mod keys;
mod settle;
mod values;
mod warnings;

use toml::de::DeValue;

pub(super) use conditions::MATCH;
pub(crate) use draft::RuleDraft;
pub(super) use edits::EDITS;
pub(super) use keys::RULE;
pub(super) use settle::{Owner, settle};
pub(super) use warnings::warnings;

/// A key of a rule, or of a table within one. It has no default: without it, nothing is changed or asked for.
pub(crate) struct RuleKey<T> {
    pub(crate) name: &'static str,
    /// What values it takes, in words.
    pub(crate) values: &'static str,
    pub(crate) about: &'static str,
    /// Writes a value into its place.
    pub(crate) set: fn(&mut T, &DeValue<'_>) -> Result<(), String>,
}
