//! Words that the project does not use in prose and names, each with a better one.

use super::Text;

/// A word as it may not appear, and what to write instead. Split, so that this file does not contain the words.
const WORDS: &[(&str, &str)] = &[
    (concat!("who", "ever"), "name the actor: `a client that`, `the caller`"),
    (concat!("whom", "ever"), "name the actor"),
    (concat!("so mani", "eth"), "`n-th`"),
    (concat!("by and", " by"), "`gradually`, or `later`"),
    (concat!("there", "by"), "`so`, or a new sentence"),
    (concat!("a", "new"), "`again`, or a verb with `re-`"),
    (concat!("sha", "ll"), "`must`, `should`, or the present tense"),
];

/// Files whose words are not the project's own, or are the output of an earlier version.
const EXEMPT: &[&str] = &["/uplot/", "docs/report/"];

const ENDINGS: &[&str] = &[".rs", ".md", ".py", ".sh", ".js", ".css", ".html", ".toml", ".thrift", ".x"];

/// Lines that contain a word of [`WORDS`], alone or as a part of a name.
pub(super) fn private(files: &[Text]) -> Vec<String> {
    let is_read = |path: &str| {
        ENDINGS.iter().any(|ending| path.ends_with(ending)) && !EXEMPT.iter().any(|part| path.contains(part))
    };
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| is_read(&file.path)) {
        for (number, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase().replace('_', " ");
            for (word, better) in WORDS.iter().filter(|(word, _)| contains(&line, word)) {
                problems.push(format!("{}:{}: write {better} instead of `{word}`", file.path, number + 1));
            }
        }
    }
    problems
}

/// Whether `line` has `word` with no other letter beside it.
fn contains(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::{Text, WORDS, private};

    fn file(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_planted_word_is_found_with_its_line_and_a_better_one() {
        for (word, better) in WORDS {
            let expected = |line: u32| format!("a.rs:{line}: write {better} instead of `{word}`");
            let mut start = word.to_string();
            start[..1].make_ascii_uppercase();
            let prose = file("a.rs", &format!("fn a() {{}}\n// {start}, as in prose\n"));
            assert_eq!(private(&[prose]), [expected(2)]);
            let name = file("a.rs", &format!("fn it_is_{}_here() {{}}", word.replace(' ', "_")));
            assert_eq!(private(&[name]), [expected(1)]);
        }
    }

    #[test]
    fn other_words_and_other_files_are_left_alone() {
        let (word, _) = WORDS[0];
        let longer = file("a.md", &format!("x{word} {word}s"));
        let licence = file("crates/a/page/uplot/README.md", word);
        let data = file("a.csv", word);
        assert!(private(&[longer, licence, data]).is_empty());
    }
}
