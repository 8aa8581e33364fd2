//! Maps of paths or hosts to texts, read from files: for redirects and values of any number of URLs.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_words::debug_as;

use crate::path::normal;

/// The part of a URL that selects a text of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBy {
    /// The path.
    Path,
    /// The host without its port.
    Host,
}

/// A map of one file.
pub struct UrlMap {
    source: Box<str>,
    by: MapBy,
    /// Texts by path in its [normal form](crate::normal_path), or by host in lower case.
    texts: HashMap<Box<[u8]>, Box<str>, FixedState>,
}

impl UrlMap {
    /// Parses `text` of a file called `source`: a path or a host and its text, if it has one, on each line, with spaces in between. A
    /// semicolon at the end of a line has no meaning, as in maps of NGINX, and `#` begins a line that is a comment.
    ///
    /// # Errors
    /// The number of the first invalid line, from 1, and what is wrong with it.
    pub fn parse(source: &str, text: &str, by: MapBy) -> Result<Self, (usize, String)> {
        let mut texts = HashMap::with_hasher(FixedState::with_seed(0));
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim().trim_end_matches(';').trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let value = value.trim_start();
            if key.starts_with('/') != (by == MapBy::Path) {
                return Err((number, by.expected().to_owned()));
            }
            let form: Box<[u8]> = match by {
                MapBy::Path => normal(key).into(),
                MapBy::Host => host(key).into(),
            };
            if form.is_empty() {
                return Err((number, by.expected().to_owned()));
            }
            if texts.insert(form, value.into()).is_some() {
                return Err((number, format!("'{}' occurs twice", key.escape_debug())));
            }
        }
        Ok(Self { source: source.into(), by, texts })
    }

    /// Returns the name of the file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the part of a URL that selects a text.
    pub fn by(&self) -> MapBy {
        self.by
    }

    /// Returns the text for a path in normal form, or for a host without its port.
    pub fn get(&self, path: &[u8], host: &str) -> Option<&str> {
        let found = match self.by {
            MapBy::Path => self.texts.get(path),
            MapBy::Host if host.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                self.texts.get(&*host.to_ascii_lowercase().into_bytes())
            }
            MapBy::Host => self.texts.get(host.as_bytes()),
        };
        found.map(|text| &**text)
    }

    /// Returns a map for each text, with the lines that have it.
    pub fn by_text(&self) -> BTreeMap<&str, Self> {
        let mut parts = BTreeMap::new();
        for (key, text) in &self.texts {
            let empty = || Self {
                source: self.source.clone(),
                by: self.by,
                texts: HashMap::with_hasher(FixedState::with_seed(0)),
            };
            let part: &mut Self = parts.entry(&**text).or_insert_with(empty);
            part.texts.insert(key.clone(), text.clone());
        }
        parts
    }

    /// Iterates over the texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.values().map(|text| &**text)
    }
}

impl MapBy {
    fn expected(self) -> &'static str {
        match self {
            Self::Path => "expected a path, and a text behind it if {map} stands for one, such as /old /new",
            Self::Host => {
                "expected a host, and a text behind it if {map} stands for one, such as shop.example tenant-1"
            }
        }
    }
}

/// Returns a host in the form in which rules see it, but in lower case.
fn host(text: &str) -> Vec<u8> {
    text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase().into_bytes()
}

/// Maps are equal if their content is, so that a changed file is noticed.
impl PartialEq for UrlMap {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.by == other.by && self.texts == other.texts
    }
}

impl Eq for UrlMap {}

debug_as!(UrlMap, |map| "UrlMap({}, {})", map.source, map.texts.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_any_spelling_has_the_text_of_its_line() {
        let map =
            UrlMap::parse("moved", "# moved\n/old  /new?a#b\n\n/%61/b /c ;\n/d e f\n/e;\n", MapBy::Path)
                .unwrap();
        for (path, text) in [
            ("/old", Some("/new?a#b")),
            ("/a/b", Some("/c")),
            ("/d", Some("e f")),
            ("/e", Some("")),
            ("/x", None),
        ] {
            assert_eq!(map.get(path.as_bytes(), ""), text, "{path}");
        }
    }

    #[test]
    fn a_host_in_any_case_has_the_text_of_its_line() {
        let map = UrlMap::parse("tenants", "Shop.example. one\n[::1] two\n", MapBy::Host).unwrap();
        for (host, text) in
            [("shop.example", Some("one")), ("SHOP.example", Some("one")), ("[::1]", Some("two"))]
        {
            assert_eq!(map.get(b"/", host), text, "{host}");
        }
        assert_eq!(map.get(b"/", "a.shop.example"), None);
    }

    #[test]
    fn a_line_without_a_meaning_is_named() {
        for (by, text, line) in [
            (MapBy::Path, "a", 1),
            (MapBy::Path, "\nold /new", 2),
            (MapBy::Path, "/a /b\n/%61 /c", 2),
            (MapBy::Host, "a one\n/b two", 2),
            (MapBy::Host, "a one\n. two", 2),
        ] {
            assert_eq!(UrlMap::parse("map", text, by).unwrap_err().0, line, "{text}");
        }
    }
}
