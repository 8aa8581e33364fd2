//! The values of the effects of rules: changes of fields, and answers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use larder_rules::Pattern;
use larder_semantics::readings;

use super::template::Template;

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
    /// Fields to remove; a star at the end stands for any characters.
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
    /// Whether values have placeholders ([`Template::of_value`]).
    pub has_placeholders: bool,
    /// The files that values were read from.
    pub files: Vec<Box<str>>,
}

/// A filter of cookies, and their attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieFilter {
    /// Whether `names` are the cookies to keep, rather than those to drop.
    pub keeps: bool,
    /// The names of the cookies.
    pub names: Vec<Pattern>,
    /// Attributes, such as `Secure`, that cookies of replies get unless they have one of that name.
    pub flags: Vec<Box<str>>,
    /// The names of the cookies that get them; empty: all.
    pub flagged: Vec<Pattern>,
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
        /// Whether `{client}` and `{id}` in it stand for the client's address and the id of the request.
        is_filled: bool,
    },
}

impl Edits {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        !self.changes_lines() && self.vary.is_empty()
    }

    /// Whether the lines called `name` are removed.
    pub fn removes(&self, name: &[u8]) -> bool {
        self.remove.iter().any(|own| match own.as_str().strip_suffix('*') {
            Some(start) => {
                name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
            }
            None => name.eq_ignore_ascii_case(own.as_str().as_bytes()),
        })
    }

    /// Iterates over the lines that are written.
    pub fn written_lines(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.set.iter().chain(&self.default).chain(&self.add)
    }

    /// Drops cookies that match these `names` as well. A filter that lists what is kept drops them already.
    pub fn drop_cookies(&mut self, names: &[Pattern]) {
        if names.is_empty() {
            return;
        }
        let filter = self.cookies.get_or_insert_default();
        if !filter.keeps {
            filter.names.extend_from_slice(names);
        }
    }

    /// Whether there are changes other than further names in `Vary`.
    pub fn changes_lines(&self) -> bool {
        let Self { remove, cookies, set, default, add, vary: _, has_placeholders: _, files: _ } = self;
        !(remove.is_empty() && cookies.is_none() && set.is_empty() && default.is_empty() && add.is_empty())
    }
}

impl Value for Edits {
    fn add(&mut self, later: &Self) {
        self.remove.extend(later.remove.iter().cloned());
        self.cookies = later.cookies.clone().or_else(|| self.cookies.take());
        self.set.retain(|(name, _)| {
            !later.set.iter().any(|(new, _)| new == name) && !later.removes(name.as_ref())
        });
        self.default.retain(|(name, _)| {
            !later.default.iter().any(|(new, _)| new == name) && !later.removes(name.as_ref())
        });
        self.add.retain(|(name, _)| {
            !later.set.iter().any(|(new, _)| new == name) && !later.removes(name.as_ref())
        });
        // A field that an earlier rule adds exists already, so it needs no default.
        let is_added = |name: &HeaderName| self.add.iter().any(|(own, _)| own == name);
        self.default.extend(later.default.iter().filter(|(name, _)| !is_added(name)).cloned());
        self.set.extend(later.set.iter().cloned());
        self.add.extend(later.add.iter().cloned());
        self.has_placeholders |= later.has_placeholders;
    }
}

impl CookieFilter {
    /// Returns the attributes that `cookie`, the value of a `Set-Cookie`, lacks.
    pub fn missing_flags<'f>(&'f self, cookie: &'f [u8]) -> impl Iterator<Item = &'f str> {
        let has = |flag: &str| {
            let mut attributes = cookie.split(|byte| *byte == b';').skip(1);
            attributes.any(|own| attribute_name(own).eq_ignore_ascii_case(attribute_name(flag.as_bytes())))
        };
        let name = attribute_name(cookie.split(|byte| *byte == b';').next().unwrap_or_default());
        let is_meant = self.flagged.is_empty() || self.flagged.iter().any(|own| own.matches(name));
        self.flags.iter().map(|flag| &**flag).filter(move |flag| is_meant && !has(flag))
    }

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

fn attribute_name(attribute: &[u8]) -> &[u8] {
    attribute.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}
