//! A key of a rule, and the macro that makes a list of them from a table of name, values, effect and meaning.

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

/// Makes a list of keys, each in a row: `NAME: VALUES, |TARGET, VALUE| EFFECT, MEANING;`.
macro_rules! rows {
    ($($name:literal: $values:literal, |$target:ident, $value:ident| $store:expr, $about:literal;)*) => {
        &[$(RuleKey {
            name: $name,
            values: $values,
            about: $about,
            set: |$target, $value| {
                $store;
                Ok(())
            },
        },)*]
    };
}

pub(super) use rows;
