//! Errors that prevent the start of the proxy: one line with the failed action and the system's reason.

use std::fmt::Display;
use std::io;

use super::shown::is_hidden;

/// An error for the operator who starts the proxy.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Error {
    what: String,
    why: String,
}

impl Error {
    /// Creates the error that `what` failed because of `why`.
    pub fn new(what: impl Into<String>, why: impl Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
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
