//! The reason why a policy cannot be read, in words for the user.

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
    let word = word.to_lowercase();
    let near = known.clone().map(|name| (strsim::osa_distance(&word, name), name)).min();
    let hint = match near {
        Some((distance, name)) if distance <= 1 + name.len() / 4 => format!("; did you mean '{name}'?"),
        _ => ";".into(),
    };
    format!("{hint} known: {}", known.collect::<Vec<_>>().join(" "))
}
