//! The values of the effects of rules: changes of fields, answers, and templates.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use larder_rules::Pattern;
use larder_semantics::readings;

/// The value of an effect. It is set if it is not the default.
pub(super) trait Value: Clone + Default + PartialEq {
    fn is_set(&self) -> bool {
        *self != Self::default()
    }

    /// Adds the value that a later rule sets, or replaces this one by it.
    fn add(&mut self, later: &Self) {
        if later.is_set() {
            self.clone_from(later);
        }
    }
}

impl<T: Clone + PartialEq> Value for Option<T> {}

impl Value for Vec<String> {
    fn add(&mut self, later: &Self) {
        self.extend_from_slice(later);
    }
}

/// Changes to field lines, applied in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Fields to remove.
    pub remove: Vec<HeaderName>,
    /// Cookies to keep or to drop.
    pub cookies: Option<CookieFilter>,
    /// Fields that replace all lines of the same name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Fields to add if there is no line of the same name.
    pub default: Vec<(HeaderName, HeaderValue)>,
    /// Field lines to add behind existing ones.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Names that `Vary` of replies must have.
    pub vary: Vec<String>,
}

/// A filter of cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieFilter {
    /// Whether `names` are the cookies to keep, rather than those to drop.
    pub keeps: bool,
    /// The names of the cookies.
    pub names: Vec<Pattern>,
}

/// A response that the rule defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A redirect.
    Redirect {
        /// The status: 301, 302, 303, 307 or 308.
        status: StatusCode,
        /// The target, with placeholders ([`Template`]).
        location: Template,
    },
    /// A response with this content.
    Content {
        /// The status.
        status: StatusCode,
        /// The media type.
        content_type: HeaderValue,
        /// The content.
        content: Bytes,
        /// Whether the content is only the status in words, since the rule sets none.
        is_default: bool,
    },
}

/// Text with placeholders: `{uri}`, `{path}`, `{query}`, `{host}`, `{scheme}`, and `{1}` to `{9}` for the stars of the
/// rule's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// A part of the request that replaces a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Path and query.
    Uri,
    /// The path.
    Path,
    /// The query with its question mark; empty without a query.
    Query,
    /// The host, with its port if the request contains one.
    Host,
    /// `http` or `https`.
    Scheme,
    /// The star or group of this number, counted from 1.
    Star(usize),
}

const PLACEHOLDERS: [(&str, Placeholder); 5] = [
    ("uri", Placeholder::Uri),
    ("path", Placeholder::Path),
    ("query", Placeholder::Query),
    ("host", Placeholder::Host),
    ("scheme", Placeholder::Scheme),
];

impl Template {
    /// Parses text with placeholders in braces.
    ///
    /// # Errors
    /// The description of an invalid placeholder, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after
                .split_once('}')
                .ok_or_else(|| format!("'{}': a '{{' has no '}}'", text.escape_debug()))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Value(placeholder(name)?));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// Returns the text with `value` in the place of each placeholder.
    pub fn fill<'v>(&self, value: impl Fn(Placeholder) -> std::borrow::Cow<'v, str>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(own) => text.push_str(own),
                Part::Value(placeholder) => text.push_str(&value(*placeholder)),
            }
        }
        text
    }

    /// Whether the text contains a question mark or a placeholder for the query.
    pub fn is_about_query(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text(text) => text.contains('?'),
            Part::Value(placeholder) => matches!(placeholder, Placeholder::Uri | Placeholder::Query),
        })
    }

    /// Returns the largest number of a star in the text; 0 without one.
    pub fn stars(&self) -> usize {
        let star = |part: &Part| match part {
            Part::Value(Placeholder::Star(number)) => *number,
            _ => 0,
        };
        self.parts.iter().map(star).max().unwrap_or(0)
    }
}

fn placeholder(name: &str) -> Result<Placeholder, String> {
    if let Some((_, placeholder)) = PLACEHOLDERS.iter().find(|(known, _)| *known == name) {
        return Ok(*placeholder);
    }
    match name.parse() {
        Ok(number @ 1..=9) => Ok(Placeholder::Star(number)),
        _ => Err(format!(
            "unknown placeholder '{{{}}}'; known: {{uri}} {{path}} {{query}} {{host}} {{scheme}} {{1}} to {{9}}",
            name.escape_debug()
        )),
    }
}

impl Edits {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        !self.changes_lines() && self.vary.is_empty()
    }

    /// Whether there are changes other than further names in `Vary`.
    pub(crate) fn changes_lines(&self) -> bool {
        let Self { remove, cookies, set, default, add, vary: _ } = self;
        !(remove.is_empty() && cookies.is_none() && set.is_empty() && default.is_empty() && add.is_empty())
    }
}

impl Value for Edits {
    fn add(&mut self, later: &Self) {
        self.remove.extend(later.remove.iter().cloned());
        self.cookies = later.cookies.clone().or_else(|| self.cookies.take());
        self.set.retain(|(name, _)| {
            !later.set.iter().any(|(new, _)| new == name) && !later.remove.contains(name)
        });
        self.default.retain(|(name, _)| {
            !later.default.iter().any(|(new, _)| new == name) && !later.remove.contains(name)
        });
        self.add.retain(|(name, _)| {
            !later.set.iter().any(|(new, _)| new == name) && !later.remove.contains(name)
        });
        // A field that an earlier rule adds exists already, so it needs no default.
        let is_added = |name: &HeaderName| self.add.iter().any(|(own, _)| own == name);
        self.default.extend(later.default.iter().filter(|(name, _)| !is_added(name)).cloned());
        self.set.extend(later.set.iter().cloned());
        self.add.extend(later.add.iter().cloned());
    }
}

impl CookieFilter {
    /// Whether `part`, a part of `Cookie` between two semicolons, is kept: no origin may read a cookie in it that is not
    /// kept, or that is dropped.
    pub fn keeps(&self, part: &[u8]) -> bool {
        let one_matches = |name: &[u8]| self.names.iter().any(|pattern| pattern.matches(name));
        let is_listed = |name: &[u8]| {
            self.names.iter().any(|own| own.literal() == (str::from_utf8(name).unwrap_or_default(), true))
        };
        readings::cookies(part).all(|(name, _)| match self.keeps {
            true => is_listed(name) || !readings::any_name(name, |name| !one_matches(name)),
            false => !self.names.iter().any(|pattern| pattern.matches_name(name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let template = Template::parse("https://www.{host}{1}?a={query}").unwrap();
        let value = |placeholder| match placeholder {
            Placeholder::Host => "a.example".into(),
            Placeholder::Star(1) => "/x".into(),
            _ => "-".into(),
        };
        assert_eq!(template.fill(value), "https://www.a.example/x?a=-");
        assert_eq!(template.stars(), 1);
        for (text, error) in [
            ("{ur}", "unknown placeholder '{ur}'; known: {uri} {path} {query} {host} {scheme} {1} to {9}"),
            ("{0}", "unknown placeholder '{0}'; known: {uri} {path} {query} {host} {scheme} {1} to {9}"),
            ("/a{uri", "'/a{uri': a '{' has no '}'"),
        ] {
            assert_eq!(Template::parse(text), Err(error.to_owned()));
        }
    }
}
