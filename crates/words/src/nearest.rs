/// Returns the word of `known` that `word` most resembles, if at most some third of it differs: one letter of four, two of
/// five.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let (distance, name) =
        known.into_iter().map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name)).min()?;
    (distance <= (name.len() + 1) / 3).then_some(name)
}

/// Returns `; did you mean 'NAME'?`, or an empty text if no name is near.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_proposed() {
        let known = ["origin", "hosts", "retries", "path"];
        let table = [
            ("orgin", Some("origin")),
            ("host", Some("hosts")),
            ("Origin", Some("origin")),
            ("retrise", Some("retries")),
            ("pth", Some("path")),
            ("root", None),
            ("colour", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
