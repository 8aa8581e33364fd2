//! Sticky sessions: a cookie keeps a client at the origin that answered it first.
//!
//! The value of the cookie is a tag of that origin: the HMAC-SHA256 of its URL, cut to 128 bits (RFC 2104 section 5). So
//! clients can neither make tags nor read URLs from them, and all tags are known in advance.

use std::sync::LazyLock;

use aws_lc_rs::{constant_time, hmac, rand};
use larder_rules::Pattern;
use larder_semantics::fields::Fields;

use super::Origin;
use super::signed::{bytes_of, parse_keys};
use super::users::BadLine;

/// The settings of sticky sessions.
#[derive(Clone, Debug)]
pub struct Sticky {
    /// The name of the cookie. Cookies for the origins of rules have a number behind it.
    pub cookie: Box<str>,
    /// How long a client stays with its origin after its last request to it, in seconds; `None`: as long as its browser
    /// runs.
    pub ttl: Option<u32>,
    /// The first makes tags, all are accepted, so that keys can be exchanged.
    keys: Vec<hmac::Key>,
    /// The file of the keys; `None`: the key is kept by this proxy.
    source: Option<Box<str>>,
}

/// The tag of an origin in a cookie: a part of a keyed hash.
#[derive(Clone, Copy, Debug)]
pub struct OriginTag([u8; LENGTH]);

/// The length of a tag, in bytes.
const LENGTH: usize = 16;

/// The most tags of a request that are read: one for each list of origins of a site.
const MOST: usize = 16;

impl Sticky {
    /// The length of a key that this proxy makes, in bytes.
    pub const KEY: usize = 32;

    /// Creates the settings, with a key that ends with this process.
    pub fn new(cookie: &str, ttl: Option<u32>) -> Self {
        static KEY: LazyLock<[u8; Sticky::KEY]> = LazyLock::new(Sticky::random_key);
        Self { cookie: cookie.into(), ttl, keys: vec![key(&*KEY)], source: None }
    }

    /// Returns a new key.
    pub fn random_key() -> [u8; Self::KEY] {
        let mut key = [0; Self::KEY];
        // Without random bytes, TLS would not work either. A client that knows the key can choose its origin, no more.
        let _ = rand::fill(&mut key);
        key
    }

    /// Uses the keys in `text`, the content of the file `source`, which are as those of signed URLs.
    ///
    /// # Errors
    /// The first line without a key.
    pub fn use_keys(&mut self, source: &str, text: &str) -> Result<(), BadLine> {
        (self.keys, self.source) = (parse_keys(text)?, Some(source.into()));
        Ok(())
    }

    /// Uses this key, which outlasts the process, unless there are keys in a file.
    pub fn use_kept_key(&mut self, bytes: &[u8]) {
        if self.source.is_none() {
            self.keys = vec![key(bytes)];
        }
    }

    /// Returns the file of the keys.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Returns the tags of `origin`, one by each key.
    pub fn tags(&self, origin: &Origin) -> Vec<OriginTag> {
        let url = origin.to_string();
        let tag = |key| {
            let mut tag = [0; LENGTH];
            tag.copy_from_slice(&hmac::sign(key, url.as_bytes()).as_ref()[..LENGTH]);
            OriginTag(tag)
        };
        self.keys.iter().map(tag).collect()
    }

    /// Returns the name of the cookie for the list of origins with this number; 0 is that of the site.
    pub fn cookie_of(&self, number: usize) -> String {
        match number {
            0 => self.cookie.to_string(),
            number => format!("{}-{number}", self.cookie),
        }
    }

    /// Returns the names of its cookies.
    pub fn names(&self) -> Vec<Pattern> {
        [self.cookie.to_string(), format!("{}-*", self.cookie)]
            .iter()
            .flat_map(|name| Pattern::parse(name))
            .collect()
    }

    /// Returns the tags in the cookies of a request.
    pub fn read(&self, fields: &impl Fields) -> Vec<OriginTag> {
        let parts = fields.lines("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
        let values = parts.filter_map(|part| {
            let rest = part.trim_ascii().strip_prefix(self.cookie.as_bytes())?;
            let (number, value) = rest.split_at(rest.iter().position(|byte| *byte == b'=')?);
            let is_own = number.is_empty() || number.starts_with(b"-");
            str::from_utf8(&value[1..]).ok().filter(|_| is_own)
        });
        values.filter_map(OriginTag::parse).take(MOST).collect()
    }
}

#[cfg(fuzzing)]
impl Sticky {
    /// Whether the cookies of a request name `origin`.
    pub fn keeps(&self, origin: &Origin, fields: &impl Fields) -> bool {
        let shown = self.read(fields);
        self.tags(origin).iter().any(|own| shown.iter().any(|shown| shown.is(own)))
    }
}

fn key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

impl OriginTag {
    fn parse(text: &str) -> Option<Self> {
        bytes_of(text).map(Self)
    }

    /// Returns the tag as hexadecimal digits.
    pub fn digits(&self) -> String {
        self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
    }

    /// Whether both are the same. This takes the same time for all tags.
    pub fn is(&self, other: &Self) -> bool {
        constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};
    use proptest::prelude::*;

    use super::*;

    fn sticky() -> Sticky {
        let mut sticky = Sticky::new("origin", None);
        sticky.use_keys("keys", "0123456789abcdef\nold fedcba9876543210\n").unwrap();
        sticky
    }

    fn origins() -> [Origin; 2] {
        ["a:1", "b:1"].map(|authority| Origin::new(false, authority))
    }

    /// Returns the origins that a request with this `Cookie` names.
    fn named(cookie: &str) -> Vec<usize> {
        let mut fields = HeaderMap::new();
        fields.insert(header::COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
        let shown = sticky().read(&fields);
        let is_named =
            |origin: &Origin| sticky().tags(origin).iter().any(|own| shown.iter().any(|shown| shown.is(own)));
        origins().iter().enumerate().filter(|(_, origin)| is_named(origin)).map(|(at, _)| at).collect()
    }

    #[test]
    fn a_tag_by_any_key_names_its_origin_among_other_cookies() {
        let [first, second] = origins().map(|origin| sticky().tags(&origin));
        let cookie = format!("a=1; origin={}; origin-2={}", first[0].digits(), second[1].digits());
        assert_eq!(named(&cookie), [0, 1]);
        // printf http://a:1 | openssl dgst -sha256 -hmac 0123456789abcdef
        assert_eq!(first[0].digits(), "7d74ca9b0ef3a13198174e055663172e");
        for other in ["originx=", "xorigin=", "origin=-", "origin"] {
            assert!(named(&format!("{other}{}", first[0].digits())).is_empty(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_forged_value_names_an_origin(
            value in "[0-9a-f]{32}|[ -:<-~]{0,40}", at: prop::sample::Index, digit in "[0-9a-f]",
        ) {
            let tag = sticky().tags(&origins()[0])[0].digits();
            let stranger = Sticky::new("origin", None).tags(&origins()[0])[0].digits();
            let cut = (0..32).map(|end| tag[..end].to_owned());
            for forged in cut.chain([value, stranger]) {
                prop_assert_eq!(named(&["origin=", &forged].concat()), Vec::<usize>::new());
            }
            let mut changed = tag.clone();
            changed.replace_range(at.index(32)..=at.index(32), &digit);
            let expected: &[usize] = if changed == tag { &[0] } else { &[] };
            prop_assert_eq!(named(&["origin=", &changed].concat()), expected);
        }
    }
}
