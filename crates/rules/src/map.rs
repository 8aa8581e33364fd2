//! Maps of paths or hosts to texts, read from files: for redirects and values of any number of URLs.

use std::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::path::normal;

/// A map of one file.
pub struct PathMap {
    source: Box<str>,
    /// Texts by path in its [normal form](crate::normal_path).
    texts: HashMap<Box<[u8]>, Box<str>, FixedState>,
}

impl PathMap {
    /// Parses `text` of a file called `source`: a path and its text on each line, with spaces in between. A semicolon at
    /// the end of a line has no meaning, as in maps of NGINX, and `#` begins a line that is a comment.
    ///
    /// # Errors
    /// The number of the first invalid line, from 1, and what is wrong with it.
    pub fn parse(source: &str, text: &str) -> Result<Self, (usize, String)> {
        let mut texts = HashMap::with_hasher(FixedState::with_seed(0));
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim().trim_end_matches(';').trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (path, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let value = value.trim_start();
            if !path.starts_with('/') || value.is_empty() {
                return Err((number, "expected a path and a text behind it, such as /old /new".to_owned()));
            }
            if texts.insert(normal(path).into(), value.into()).is_some() {
                return Err((number, format!("the path '{}' occurs twice", path.escape_debug())));
            }
        }
        Ok(Self { source: source.into(), texts })
    }

    /// Returns the name of the file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the text for a path in normal form.
    pub fn get(&self, path: &[u8]) -> Option<&str> {
        self.texts.get(path).map(|text| &**text)
    }

    /// Iterates over the texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.values().map(|text| &**text)
    }
}

/// Maps are equal if their content is, so that a changed file is noticed.
impl PartialEq for PathMap {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.texts == other.texts
    }
}

impl Eq for PathMap {}

impl fmt::Debug for PathMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathMap({}, {})", self.source, self.texts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_any_spelling_has_the_text_of_its_line() {
        let map = PathMap::parse("moved", "# moved\n/old  /new?a#b\n\n/%61/b /c ;\n/d e f\n").unwrap();
        for (path, text) in
            [("/old", Some("/new?a#b")), ("/a/b", Some("/c")), ("/d", Some("e f")), ("/x", None)]
        {
            assert_eq!(map.get(path.as_bytes()), text, "{path}");
        }
    }

    #[test]
    fn a_line_without_a_meaning_is_named() {
        for (text, line) in [("/a", 1), ("\nold /new", 2), ("/a /b\n/%61 /c", 2)] {
            assert_eq!(PathMap::parse("moved", text).unwrap_err().0, line, "{text}");
        }
    }
}
