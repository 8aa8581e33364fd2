//! The reason why a policy cannot be read, in words for the user.

use larder_words::hint;

/// The reason why a spec is not valid: one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub(crate) String);

/// Returns the user's text in quotes on one line, with special characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.escape_debug())
}

/// Returns the advice for a misspelt `word`: the nearest name and the known names.
pub(crate) fn advice<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let hint = Some(hint(word, known.clone())).filter(|hint| !hint.is_empty());
    format!("{} known: {}", hint.as_deref().unwrap_or(";"), known.collect::<Vec<_>>().join(" "))
}
