//! The last answers that were not stored, by URL: what `why` explains misses from. Nothing is decided by them.
//!
//! There is room for so many; URLs that share a place push each other out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;

use crate::clock;

const PLACES: usize = 4096;
/// Bytes of a value that are kept, and lines of a field.
const LONGEST: usize = 512;
const MOST_LINES: usize = 8;

/// The fields that caching depends on, besides targeted ones.
const FIELDS: [&str; 10] = [
    "age",
    "cache-control",
    "content-range",
    "date",
    "etag",
    "expires",
    "last-modified",
    "pragma",
    "set-cookie",
    "vary",
];

/// What was said of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// When, in seconds since 1970.
    pub(crate) time: u32,
    pub(crate) why: Why,
    /// Its status; `None` if there was no answer.
    pub(crate) status: Option<StatusCode>,
    /// The fields of it that caching depends on.
    pub(crate) fields: HeaderMap,
}

/// A verdict, and the key of the URL that it is about.
#[derive(Debug)]
struct Noted {
    key: Box<[u8]>,
    verdict: Verdict,
}

/// What was said of the last answers.
#[derive(Debug)]
pub(crate) struct Verdicts(Box<[Mutex<Option<Box<Noted>>>]>);

impl Default for Verdicts {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl Verdicts {
    /// Notes why the answer to the URL with this key was not stored; once in a second, if it is always the same.
    pub(crate) fn note(
        &self,
        (key, hash): (&[u8], u64),
        why: Why,
        answer: Option<(StatusCode, &impl Fields)>,
        targeted: &[String],
    ) {
        let (mut place, time) = (self.place(hash), clock::now());
        let is_known =
            |noted: &Noted| *noted.key == *key && noted.verdict.time == time && noted.verdict.why == why;
        if place.as_deref().is_some_and(is_known) {
            return;
        }
        let status = answer.map(|(status, _)| status);
        let fields = answer.map_or_else(HeaderMap::new, |(_, fields)| relevant(fields, targeted));
        let verdict = Verdict { time, why, status, fields };
        *place = Some(Box::new(Noted { key: key.into(), verdict }));
    }

    /// What was said last of the URL with this key.
    pub(crate) fn of(&self, key: &[u8], hash: u64) -> Option<Verdict> {
        let place = self.place(hash);
        place.as_ref().filter(|noted| *noted.key == *key).map(|noted| noted.verdict.clone())
    }

    fn place(&self, hash: u64) -> MutexGuard<'_, Option<Box<Noted>>> {
        self.0[hash as usize % PLACES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fields of a response that caching depends on. What cookies it sets is nobody's business.
pub(crate) fn relevant(response: &impl Fields, targeted: &[String]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for name in FIELDS.into_iter().chain(targeted.iter().map(String::as_str)) {
        let Ok(key) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        for value in response.lines(name).take(MOST_LINES) {
            let value = if name == "set-cookie" { b"..." } else { &value[..value.len().min(LONGEST)] };
            if let Ok(value) = HeaderValue::from_bytes(value) {
                map.append(key.clone(), value);
            }
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_a_url_is_kept() {
        let verdicts = Verdicts::default();
        let of = |key: &[u8]| verdicts.of(key, 5).map(|verdict| (verdict.why, verdict.fields));
        let fields: HeaderMap = [("cache-control", "private"), ("set-cookie", "secret=1"), ("server", "x")]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .into_iter()
            .collect();
        verdicts.note((b"a", 5), Why::Private, Some((StatusCode::OK, &fields)), &[]);
        let (why, kept) = of(b"a").unwrap();
        assert_eq!(
            (why, kept.len(), &kept["set-cookie"]),
            (Why::Private, 2, &HeaderValue::from_static("..."))
        );
        assert!(of(b"b").is_none());
        verdicts.note((b"a", 5), Why::OriginTimeout, None::<(_, &HeaderMap)>, &[]);
        assert_eq!(of(b"a"), Some((Why::OriginTimeout, HeaderMap::new())));
        verdicts.note((b"b", 5), Why::SetCookie, Some((StatusCode::OK, &fields)), &[]);
        assert!(of(b"a").is_none() && of(b"b").is_some());
    }
}
