//! Text for people: the nearest valid word for a misspelt one, and foreign text without terminal control characters.

/// Returns the word of `known` that `word` most resembles, if at most a third of it differs.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let (distance, name) =
        known.into_iter().map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name)).min()?;
    (distance <= name.len().div_ceil(3)).then_some(name)
}

/// Returns `; did you mean 'NAME'?`, or an empty text if no name is near.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// Returns `text` with its hidden characters escaped, for text without escapes.
pub(crate) use larder_proxy::base::shown::visible as printable;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_proposed() {
        let known = ["origin", "hosts", "retries"];
        let table = [
            ("orgin", Some("origin")),
            ("host", Some("hosts")),
            ("Origin", Some("origin")),
            ("retrise", Some("retries")),
            ("colour", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
