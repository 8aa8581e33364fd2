//! The last responses that were not stored, by URL. `why` explains misses with them; no decision depends on them.
//!
//! The number of slots is fixed, and each takes about 1 KiB at most; a URL replaces another one in the same slot.

use http::{HeaderMap, StatusCode};
use larder_semantics::fields::{Fields, HeadLines, to_map};
use larder_semantics::status::Why;
use larder_store::lines::write_line;
use parking_lot::{Mutex, MutexGuard};

use crate::base::clock;

const PLACES: usize = 4096;
/// Maximum of stored bytes of a value, and of lines of a field.
const LONGEST: usize = 512;
const MOST_LINES: usize = 8;
/// Maximum of stored bytes of all lines together.
const MOST_BYTES: usize = 1024;

/// The fields that affect caching, except targeted ones.
const FIELDS: [&str; 11] = [
    "age",
    "cache-control",
    "content-range",
    "date",
    "etag",
    "expires",
    "last-modified",
    "no-vary-search",
    "pragma",
    "set-cookie",
    "vary",
];

/// The reason why a response was not stored.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// The time of the response, in seconds since 1970.
    pub(crate) time: u32,
    pub(crate) why: Why,
    /// The status; `None` if there was no response.
    pub(crate) status: Option<StatusCode>,
    /// The response fields, at least those that affect caching.
    pub(crate) fields: HeaderMap,
}

/// The verdict on the URL whose key has this hash, with the fields as lines.
#[derive(Debug)]
struct VerdictRecord {
    hash: u64,
    time: u32,
    why: Why,
    status: Option<StatusCode>,
    lines: Vec<u8>,
}

/// The reasons why the last responses were not stored.
#[derive(Debug)]
pub(crate) struct Verdicts(Box<[Mutex<Option<Box<VerdictRecord>>>]>);

impl Default for Verdicts {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl Verdicts {
    /// Notes why the response for the URL whose key has this hash was not stored; at most once per second for the same
    /// reason.
    pub(crate) fn note(
        &self,
        hash: u64,
        why: Why,
        answer: Option<(StatusCode, &impl Fields)>,
        targeted: &[String],
    ) {
        let (mut place, time) = (self.place(hash), clock::now());
        let is_known = |noted: &VerdictRecord| noted.hash == hash && noted.time == time && noted.why == why;
        if place.as_deref().is_some_and(is_known) {
            return;
        }
        // The record of another URL makes room without a new allocation: each response that is passed on comes here.
        let record = place.get_or_insert_with(|| {
            Box::new(VerdictRecord {
                hash,
                time,
                why,
                status: None,
                lines: Vec::with_capacity(MOST_BYTES / 4),
            })
        });
        record.hash = hash;
        record.time = time;
        record.why = why;
        record.status = answer.map(|(status, _)| status);
        record.lines.clear();
        let Some((_, fields)) = answer else { return };
        // To search for each field would take a tenth of the time of a miss. Cookies are private.
        let is_copied = |head: &&[u8]| head.len() <= MOST_BYTES && !fields.contains("set-cookie");
        if let Some(head) = fields.as_sent().filter(is_copied) {
            return record.lines.extend_from_slice(head);
        }
        for (name, value) in relevant_lines(fields, targeted) {
            if record.lines.len() + name.len() + value.len() + 4 <= MOST_BYTES {
                write_line(&mut record.lines, name.as_bytes(), value);
            }
        }
    }

    /// Returns the last verdict on the URL whose key has this hash.
    pub(crate) fn of(&self, hash: u64) -> Option<Verdict> {
        let place = self.place(hash);
        let VerdictRecord { time, why, status, ref lines, .. } =
            **place.as_ref().filter(|noted| noted.hash == hash)?;
        Some(Verdict { time, why, status, fields: HeadLines(lines).to_map() })
    }

    fn place(&self, hash: u64) -> MutexGuard<'_, Option<Box<VerdictRecord>>> {
        self.0[hash as usize % PLACES].lock()
    }
}

/// Returns the response fields that affect caching.
pub(crate) fn relevant(response: &impl Fields, targeted: &[String]) -> HeaderMap {
    to_map(relevant_lines(response, targeted).map(|(name, value)| (name.as_bytes(), value)))
}

/// Iterates over the response fields that affect caching, by name and value. The cookies in `Set-Cookie` are omitted: they are
/// private.
fn relevant_lines<'a>(
    response: &'a impl Fields,
    targeted: &'a [String],
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    FIELDS.into_iter().chain(targeted.iter().map(String::as_str)).flat_map(move |name| {
        response.lines(name).take(MOST_LINES).map(move |value| match name {
            "set-cookie" => (name, b"...".as_slice()),
            _ => (name, &value[..value.len().min(LONGEST)]),
        })
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn the_last_word_on_a_url_is_kept() {
        // A hash with the same slot.
        const OTHER: u64 = 5 + PLACES as u64;
        let verdicts = Verdicts::default();
        let of = |hash| verdicts.of(hash).map(|verdict| (verdict.why, verdict.fields));
        let fields: HeaderMap = [("cache-control", "private"), ("set-cookie", "secret=1"), ("server", "x")]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .into_iter()
            .collect();
        verdicts.note(5, Why::Private, Some((StatusCode::OK, &fields)), &[]);
        let (why, kept) = of(5).unwrap();
        assert_eq!(
            (why, kept.len(), &kept["set-cookie"]),
            (Why::Private, 2, &HeaderValue::from_static("..."))
        );
        assert!(of(OTHER).is_none());
        verdicts.note(5, Why::OriginTimeout, None::<(_, &HeaderMap)>, &[]);
        assert_eq!(of(5), Some((Why::OriginTimeout, HeaderMap::new())));
        verdicts.note(OTHER, Why::SetCookie, Some((StatusCode::OK, &fields)), &[]);
        assert!(of(5).is_none() && of(OTHER).is_some());
    }

    #[test]
    fn lines_at_hand_are_kept_together_without_cookies() {
        let verdicts = Verdicts::default();
        let kept = |lines: &'static [u8]| {
            verdicts.note(5, Why::Private, Some((StatusCode::OK, &HeadLines(lines))), &[]);
            let fields = verdicts.of(5).map(|verdict| verdict.fields).unwrap_or_default();
            verdicts.note(5, Why::OriginTimeout, None::<(_, &HeaderMap)>, &[]);
            ["cache-control", "set-cookie", "server"].map(|name| fields.get(name).cloned())
        };
        let value = |text| Some(HeaderValue::from_static(text));
        assert_eq!(kept(b"Cache-Control: private\r\nServer: s\r\n"), [value("private"), None, value("s")]);
        assert_eq!(kept(b"Set-Cookie: secret=1\r\nServer: s\r\n"), [None, value("..."), None]);
    }

    #[test]
    fn a_verdict_is_small_whatever_the_answer_says() {
        let verdicts = Verdicts::default();
        let mut fields = HeaderMap::new();
        let long = HeaderValue::from_str(&"x".repeat(8_000)).unwrap();
        for name in FIELDS.into_iter().cycle().take(500) {
            fields.append(name, long.clone());
        }
        verdicts.note(5, Why::Private, Some((StatusCode::OK, &fields)), &[]);
        let place = verdicts.place(5);
        let lines = &place.as_ref().unwrap().lines;
        assert!((1..=MOST_BYTES).contains(&lines.len()), "{} bytes", lines.len());
    }
}
