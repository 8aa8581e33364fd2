//! Text from outside in logs and on terminals: no character may hide, or change the order of others.

use std::fmt::Write as _;
use std::io::{self, Write};

pub use larder_words::is_hidden;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Cuts a text to at most `most` bytes, between two characters.
pub fn cut(text: &mut String, most: usize) {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Returns `text` with its hidden characters escaped as in `\u{202e}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Appends `value` as JSON without hidden characters. Errors: that of a value that JSON cannot represent.
pub fn write_json(out: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, VisibleWriter))
}

struct VisibleWriter;

impl Formatter for VisibleWriter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // Most text is ASCII, which is quicker to check.
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !fragment.contains(is_hidden) {
            return out.write_all(fragment.as_bytes());
        }
        let mut shown = String::with_capacity(2 * fragment.len());
        for c in fragment.chars() {
            match is_hidden(c) {
                // Writing to a string does not fail.
                true => {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(shown, "\\u{unit:04x}"))
                }
                false => shown.push(c),
            }
        }
        out.write_all(shown.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_written_out_and_others_stay() {
        for c in
            "\0\u{7f}\u{85}\u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{e0041}"
                .chars()
        {
            assert!(is_hidden(c), "{c:?}");
        }
        assert_eq!(visible("'a' \"\u{e4}\\ \u{65e5}\u{202e}\n"), "'a' \"\u{e4}\\ \u{65e5}\\u{202e}\\n");
    }

    #[test]
    fn json_is_equal_and_has_no_hidden_characters() {
        let value = ["a\u{202e}\"\n", "\u{e0041}\u{e4}\u{7f}"];
        let mut out = Vec::new();
        write_json(&mut out, &value).unwrap();
        assert_eq!(str::from_utf8(&out).unwrap(), "[\"a\\u202e\\\"\\n\",\"\\udb40\\udc41\u{e4}\\u007f\"]");
        assert_eq!(serde_json::from_slice::<[String; 2]>(&out).unwrap(), value);
    }
}
