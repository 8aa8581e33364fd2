//! A key of the config, and the macro that makes a list of them from a table of name, field, kind and meaning.

use toml::de::DeValue;

use crate::config::draft::Draft;

/// A key of a `T`.
pub(crate) struct Key<T> {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Returns the description of its values.
    pub(crate) kind: fn() -> String,
    /// Whether its values may contain secrets.
    pub(crate) is_secret: fn() -> bool,
    /// Stores a value in its field.
    pub(crate) set: fn(&mut T, &DeValue<'_>) -> Result<(), String>,
    /// Returns the value of its field, as TOML.
    pub(crate) show: fn(&T) -> String,
}

/// A table of the file, such as `[limits]`.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) keys: &'static [Key<Draft>],
}

/// Makes a list of keys, each in a row: `NAME in FIELD: KIND, MEANING;`.
macro_rules! keys {
    ($($name:literal in $($place:ident).+: $kind:expr, $about:literal;)*) => {
        &[$(Key {
            name: $name,
            about: $about,
            kind: || $kind.words(),
            is_secret: || $kind.is_secret(),
            set: |target, value| {
                target.$($place).+ = $kind.read(value)?;
                Ok(())
            },
            show: |target| $kind.show(&target.$($place).+),
        },)*]
    };
}

pub(super) use keys;

/// A bound above all numbers that one machine serves, and far below an arithmetic overflow.
pub(super) const MANY: u64 = 10_000_000;
