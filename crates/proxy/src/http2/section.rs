//! A field section in HPACK, to which the fields of a reply are appended.

use std::cell::RefCell;

use larder_http2::hpack::encoder;
use larder_store::LinesRef;
use larder_store::lines::OwnLines;

use crate::exchange::reply::{Banner, Reply, Source};
use crate::http::fields::FieldWriter;

/// The bytes of a section.
pub(super) struct Section<'s>(pub(super) &'s mut Vec<u8>);

impl FieldWriter for Section<'_> {
    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        encoder::field_with(self.0, name, write);
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        encoder::field(self.0, name, value);
    }

    #[inline]
    fn stored(&mut self, lines: &LinesRef<'_>) {
        let own = lines.write_shared_with(self.0, encoder::field);
        ENCODED.with_borrow_mut(|encoded| encoded[place(&own)].write(&own, self.0));
    }
}

/// The number of [`EncodedLines`] of each worker.
const PLACES: usize = 64;
/// The most bytes of lines that are kept.
const LONGEST_KEPT: usize = 1 << 10;

thread_local! {
    static ENCODED: RefCell<[EncodedLines; PLACES]> =
        const { RefCell::new([const { EncodedLines::new() }; PLACES]) };
}

/// The lines of a response that is sent often, and their form in HPACK. They are compared as a whole: to encode them takes
/// ten times as long.
struct EncodedLines {
    /// The lines before and behind `Last-Modified`, and where the latter begin.
    lines: Vec<u8>,
    middle: usize,
    times: [Option<u32>; 2],
    encoded: Vec<u8>,
    /// The length of the lines that were sent last and are not kept. If it is the same twice, they are.
    candidate: (usize, [Option<u32>; 2]),
}

/// Returns the place of the lines.
#[inline]
fn place(own: &OwnLines<'_>) -> usize {
    let end = own.before.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
    let [modified, date] = own.times.map(|time| u64::from(time.unwrap_or(0)));
    let mixed = end ^ (modified << 32 | date) ^ (own.before.len() as u64) << 17;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % PLACES
}

impl EncodedLines {
    const fn new() -> Self {
        Self {
            lines: Vec::new(),
            middle: 0,
            times: [None; 2],
            encoded: Vec::new(),
            candidate: (0, [None; 2]),
        }
    }

    #[inline]
    fn write(&mut self, own: &OwnLines<'_>, out: &mut Vec<u8>) {
        let is_kept = self.times == own.times
            && self.lines.split_at_checked(self.middle) == Some((own.before, own.after));
        match is_kept {
            true => out.extend_from_slice(&self.encoded),
            false => self.encode(own, out),
        }
    }

    #[inline(never)]
    fn encode(&mut self, own: &OwnLines<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        own.write_with(out, encoder::field);
        let candidate = (own.before.len() + own.after.len(), own.times);
        if self.candidate != candidate {
            self.candidate = candidate;
        } else if candidate.0 <= LONGEST_KEPT {
            self.lines.clear();
            self.lines.extend_from_slice(own.before);
            self.lines.extend_from_slice(own.after);
            (self.middle, self.times) = (own.before.len(), own.times);
            self.encoded.clear();
            self.encoded.extend_from_slice(&out[start..]);
        }
    }
}

/// The size of a list of fields, in which each counts 32 bytes more (RFC 9113 section 6.5.2).
#[derive(Default)]
pub(super) struct ListSize(pub(super) usize);

impl FieldWriter for ListSize {
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.field(name, &value);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0 += name.len() + value.len() + 32;
    }
}

/// The most that the fields of all replies add to a list, except for those in the [`Banner`].
const FIXED: usize = 2_048;

/// Returns a size that the list of the head of `reply` does not exceed, without reading its lines; `None` where only
/// [`ListSize`] tells.
pub(super) fn at_most(reply: &Reply, banner: &Banner) -> Option<usize> {
    let lines = match &reply.fields {
        Source::Entry(entry) | Source::NotModified(entry) => entry.fields().size(),
        Source::Fill(head) => head.fields.view().size(),
        Source::Answer(_) | Source::Fields(_) => return None,
    };
    let edits = reply.edits.as_deref().map(|own| &own.0);
    let is_simple = reply.extra.is_none() && edits.is_none_or(|edits| edits.cookies.is_none());
    let added: usize = edits.map_or(0, |edits| {
        let fields = edits.set.iter().chain(&edits.default).chain(&edits.add);
        let fields: usize = fields.map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        fields + edits.vary.iter().map(|name| name.len() + 2).sum::<usize>()
    });
    // A line adds 28 bytes to its own, and has 5 at least.
    is_simple.then(|| 7 * lines + added + banner.len() + FIXED)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName};
    use larder_store::LinePool;

    use super::*;

    /// Encodes the fields of a response as they are sent.
    fn sent(fields: &[(&'static str, &str)], date: u32) -> Vec<u8> {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().expect("a value"))
        };
        let fields: HeaderMap = fields.iter().map(field).collect();
        let mut out = b"before".to_vec();
        Section(&mut out).stored(&LinePool::default().keep(&fields, date).view());
        out
    }

    #[test]
    fn fields_that_were_kept_are_sent_only_for_equal_ones() {
        let tag = |value| [("etag", value), ("cache-control", "max-age=60")];
        let modified = |value| [("x-a", "1"), ("last-modified", value), ("x-b", "2")];
        let (monday, tuesday) = ("Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT");
        let first = sent(&tag("\"1\""), 7);
        for _ in 0..4 {
            assert_eq!(sent(&tag("\"1\""), 7), first);
        }
        for (other, date) in [
            (&tag("\"2\"")[..], 7),
            (&tag("\"1\"")[..], 8),
            (&tag("\"1\"")[..1], 7),
            (&modified(monday), 7),
            (&modified(tuesday), 7),
            (&[], 7),
        ] {
            let mut expected = b"before".to_vec();
            let date_line = ("date", &larder_semantics::date::format(date)[..]);
            let fields = other.iter().map(|(name, value)| (*name, value.as_bytes())).chain([date_line]);
            fields.for_each(|(name, value)| encoder::field(&mut expected, name.as_bytes(), value));
            for _ in 0..4 {
                assert_eq!(sent(other, date), expected, "{other:?} {date}");
            }
        }
        assert_eq!(sent(&tag("\"1\""), 7), first);
    }
}
