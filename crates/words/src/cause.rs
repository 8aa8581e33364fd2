//! Messages of the system, of libraries and of other programs as parts of sentences.

use std::io;

/// Whether a character has no form of its own: a control character, a line or paragraph separator, a format character
/// such as U+202E, which reverses the text behind it, or a mark on the character before it.
pub fn is_hidden(c: char) -> bool {
    !matches!(c, ' '..='~') && c.escape_debug().len() > 1
}

/// Returns the cause of `error` as a part of a sentence.
pub fn cause(error: &io::Error) -> String {
    part(&error.to_string())
}

/// Returns another program's or a library's message as a part of a sentence: in one line, and in lower case unless it
/// begins with an abbreviation. An error number of the operating system is left out.
pub fn part(text: &str) -> String {
    let text = text.split_once(" (os error").map_or(text, |(words, _)| words);
    let text = text.split(|letter: char| letter == ' ' || is_hidden(letter));
    let text = text.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_a_part_of_a_sentence() {
        for (error, words) in [
            (io::Error::from_raw_os_error(111), "connection refused"),
            (io::ErrorKind::NotFound.into(), "entity not found"),
            (io::Error::other("it does not offer HTTP/2 (ALPN h2)"), "it does not offer HTTP/2 (ALPN h2)"),
            (io::Error::other("TLS is required"), "TLS is required"),
            (io::Error::other("Parse error at 1\nUnexpected `33`\n"), "parse error at 1 Unexpected `33`"),
            (io::Error::other(""), ""),
        ] {
            assert_eq!(cause(&error), words);
        }
    }
}
