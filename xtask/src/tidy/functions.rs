//! The length of functions. In formatted code, a function ends at the first closing brace that has the same indentation
//! as its first line.

use super::Text;

/// The number of lines beyond which a reader has to scroll to understand a function.
const LONGEST: usize = 70;

/// Returns functions of more than [`LONGEST`] lines, including tests.
pub(super) fn lengths(files: &[Text]) -> Vec<String> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    sources.flat_map(|file| long_functions(file).into_iter()).collect()
}

fn long_functions(file: &Text) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| Some((at, name(line)?)));
    let long = starts.filter_map(|(at, name)| {
        let indent = indent_of(lines[at]);
        let end = lines[at..]
            .iter()
            .position(|line| indent_of(line) == indent && line.trim_start().starts_with('}'));
        let length = end? + 1;
        let said =
            || format!("{}:{}: function `{name}` has {length} lines, over {LONGEST}", file.path, at + 1);
        (length > LONGEST).then(said)
    });
    long.collect()
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the name of the function that begins in this line, unless it also ends there.
fn name(line: &str) -> Option<&str> {
    const BEFORE: &[&str] = &["pub", "async", "const", "unsafe", "extern", "default"];
    let code = line.trim_start();
    let at = if code.starts_with("fn ") { 0 } else { code.find(" fn ")? + 1 };
    let known = |word: &str| BEFORE.iter().any(|known| word.starts_with(known));
    let ends_here = code.ends_with(['}', ';']);
    let begins = !ends_here && code[..at].split_whitespace().all(|word| known(word) || word.ends_with(')'));
    let rest = code[at..].strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    begins.then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, lengths, name};
    use crate::tidy::Text;

    fn function(lines: usize) -> Text {
        let body = "        let a = 1;\n".repeat(lines - 2);
        let text =
            format!("impl A {{\n    pub(crate) async fn b<T>(\n        self,\n    ) {{\n{body}    }}\n}}\n");
        Text { path: "a.rs".into(), text: text.replace("        self,\n    ) {\n", "") }
    }

    #[test]
    fn a_function_over_the_limit_is_found_with_its_name() {
        assert!(lengths(&[function(LONGEST)]).is_empty());
        assert_eq!(lengths(&[function(LONGEST + 1)]), ["a.rs:2: function `b` has 71 lines, over 70"]);
    }

    #[test]
    fn only_the_first_line_of_a_function_has_its_name() {
        for (line, expected) in [
            ("fn a() {", Some("a")),
            ("    pub(in crate::x) const unsafe fn long_name<'a>(", Some("long_name")),
            ("    fn a(&self) -> bool;", None),
            ("    fn a() {}", None),
            ("    // then fn a is called", None),
            ("    let call: fn(u8) = f;", None),
        ] {
            assert_eq!(name(line), expected, "{line}");
        }
    }
}
