//! A key of a rule.

use toml::de::DeValue;

/// A key of a rule, or of a table in a rule. It has no default: without it, the rule changes or requires nothing.
pub(crate) struct RuleKey<T> {
    pub(crate) name: &'static str,
    /// The description of its values.
    pub(crate) values: &'static str,
    pub(crate) about: &'static str,
    /// Stores a value in its field.
    pub(crate) set: fn(&mut T, &DeValue<'_>) -> Result<(), String>,
}
