//! The names of tests: a subject and what is expected of it, readable without the tests beside it.

use super::Text;

/// Maximum of words in a name.
const MOST_WORDS: usize = 12;

/// First words of names that need a neighbour, or a second reading.
const RIDDLES: &[&str] = &["what", "so", "it", "this", "that", "these", "those", "they"];

/// Returns each test whose name begins with one of [`RIDDLES`], or has more than [`MOST_WORDS`] words.
pub(super) fn check(files: &[Text]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let mut is_test = false;
        for (number, line) in file.text.lines().enumerate() {
            let line = line.trim();
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some(name) = is_test.then(|| name(line)).flatten() else { continue };
            is_test = false;
            let words: Vec<_> = name.split('_').collect();
            let place = format!("{}:{}: test `{name}`", file.path, number + 1);
            if RIDDLES.contains(&words[0]) {
                problems.push(format!("{place}: begin with the subject instead of `{}`", words[0]));
            }
            if words.len() > MOST_WORDS {
                problems.push(format!("{place}: {} words, over {MOST_WORDS}", words.len()));
            }
        }
    }
    problems
}

/// Returns the name of the function that `line` begins.
fn name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(attribute: &str, name: &str) -> Vec<String> {
        let text = format!("{attribute}\nfn {name}() {{}}\n");
        check(&[Text { path: "a.rs".to_owned(), text }])
    }

    #[test]
    fn names_that_are_riddles_or_sentences_are_refused() {
        let riddle = concat!("what", "_is_read_is_written");
        let expected = format!("a.rs:2: test `{riddle}`: begin with the subject instead of `what`");
        assert_eq!(problems("#[test]", riddle), [expected]);
        let sentence = ["word"; MOST_WORDS + 1].join("_");
        assert_eq!(problems("#[tokio::test(start_paused = true)]", &sentence).len(), 1);
    }

    #[test]
    fn other_names_are_left_alone() {
        assert!(problems("#[test]", &["word"; MOST_WORDS].join("_")).is_empty());
        assert!(problems("#[inline]", "what_is_no_test").is_empty());
    }
}
