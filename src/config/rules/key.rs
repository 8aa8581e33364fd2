//! A key of a rule.

use toml::de::DeValue;

/// A key of a rule, or of a table within one. It has no default: without it, nothing is changed or asked for.
pub(crate) struct RuleKey<T> {
    pub(crate) name: &'static str,
    /// What values it takes, in words.
    pub(crate) values: &'static str,
    pub(crate) about: &'static str,
    /// Writes a value into its place.
    pub(crate) set: fn(&mut T, &DeValue<'_>) -> Result<(), String>,
}
