//! Makes a reply from a stored response: the whole response, a range of it, or a 304.

use std::ops::RangeInclusive;

use http::{HeaderValue, Method, StatusCode, header};
use larder_semantics::fields::{Fields, to_map};
use larder_semantics::range::{self, ContentRange, RangeSelection};
use larder_semantics::revalidate::{self, Precondition, precondition};
use larder_semantics::status::Why;
use larder_semantics::vary;
use larder_store::{Entry, Resident};

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::pieces::Piece;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::flow::coded_stream;

/// Returns the variant of `resident` that a request with these fields selects (RFC 9111 section 4.1).
pub(crate) fn select<'r>(resident: &'r Resident, request: &impl Fields) -> Option<&'r Entry> {
    resident.variants().iter().find(|entry| selects(entry, request))
}

/// [`select`] for callers that do not need the other variants.
pub(crate) fn take(resident: Resident, request: &impl Fields) -> Option<Entry> {
    resident.into_variant(|entry| selects(entry, request))
}

/// Whether `request` selects `entry`.
pub(crate) fn selects(entry: &Entry, request: &impl Fields) -> bool {
    let signature = entry.signature();
    if signature.is_empty() {
        return true;
    }
    let fields = entry.fields();
    vary::matches(signature, request, || fields.first("content-language"))
}

/// Whether `entry` meets the conditions for origins of a request with these fields.
#[inline]
pub(crate) fn meets_conditions_for_origin(request: &impl Fields, entry: &Entry) -> bool {
    // Few requests have conditions, and only these need the stored fields.
    !request.contains_any(&["if-match", "if-unmodified-since"])
        || revalidate::meets_conditions_for_origin(request, entry.status(), &entry.fields())
}

/// Whether `entry`, a part of a representation, lacks bytes that a request with these fields needs; `is_undone`: as for
/// [`from_entry`].
pub(crate) fn lacks_range(
    request: (&Method, &impl Fields),
    entry: &Entry,
    now: u32,
    is_undone: impl FnOnce(&Entry) -> bool,
) -> bool {
    let outcome = Outcome::hit(Kind::Hit, Why::Fresh, 0);
    from_entry(request, entry.clone(), now, outcome, is_undone).is_none()
}

/// [`from_entry`] for a request that took some waiting.
pub(crate) fn to(request: &Request, entry: Entry, now: u32, outcome: Outcome) -> Option<Reply> {
    from_entry((&request.method, &request.fields), entry, now, outcome, |entry| {
        coded_stream::undoes(request, entry)
    })
}

/// Returns the reply to a GET or HEAD from a stored response that may be used; `None` if the stored response is a part
/// without the requested range, or is coded and cannot be decoded for this client. `is_undone`: whether the client gets the
/// content without the coding of the origin.
pub(crate) fn from_entry(
    (method, request): (&Method, &impl Fields),
    entry: Entry,
    now: u32,
    outcome: Outcome,
    is_undone: impl FnOnce(&Entry) -> bool,
) -> Option<Reply> {
    let (freshness, status) = (entry.freshness(), entry.status());
    let stored = StoredAnswer { age: freshness.age(now), entry, outcome };
    let entry = &stored.entry;
    // Few requests have conditions, and only these need the stored fields.
    if request.contains_any(&["if-none-match", "if-modified-since"])
        && precondition(method, request, status, &entry.fields(), Some(freshness.date))
            == Precondition::NotModified
    {
        return Some(stored.not_modified());
    }
    if status == StatusCode::PARTIAL_CONTENT {
        return if is_undone(entry) { None } else { stored.part_of_part(method, request) };
    }
    if status != StatusCode::OK {
        return Some(stored.whole());
    }
    let wanted = request.first("range").filter(|_| *method == Method::GET);
    match wanted.and_then(range::parse).filter(|_| range::if_range(request, &entry.fields(), &freshness)) {
        Some(specs) => {
            let resolved = range::resolve(&specs, entry.body().len());
            let is_one = matches!(&resolved, RangeSelection::Satisfied(ranges) if ranges.len() == 1);
            // Without its coding, the content has other ranges, and is sent as a whole.
            match !is_one && is_undone(entry) {
                true => Some(stored.whole()),
                false => Some(stored.ranges(resolved)),
            }
        }
        None => Some(stored.whole()),
    }
}

/// The longest `Content-Type` that is repeated in each part of a multipart reply, in bytes.
const LONGEST_TYPE: usize = 1 << 10;

struct StoredAnswer {
    entry: Entry,
    age: u32,
    outcome: Outcome,
}

impl StoredAnswer {
    fn reply(&self, status: StatusCode, fields: Source, length: u64, content: Content) -> Reply {
        let (age, length) = (Some(self.age), Some(length));
        Reply { age, length, content, ..Reply::new(status, fields, self.outcome) }
    }

    fn whole(self) -> Reply {
        let (status, len) = (self.entry.status(), self.entry.body().len());
        let reply = Reply::new(status, Source::Entry(self.entry), self.outcome);
        Reply { age: Some(self.age), length: Some(len), content: Content::Stored(0, len), ..reply }
    }

    fn not_modified(self) -> Reply {
        let reply = Reply::new(StatusCode::NOT_MODIFIED, Source::NotModified(self.entry), self.outcome);
        Reply { age: Some(self.age), ..reply }
    }

    /// Returns the reply with one range of a stored response whose content begins at byte `held_from` of the
    /// representation.
    fn one(self, range: ContentRange, held_from: u64) -> Reply {
        let (from, to) = (range.range().start() - held_from, range.range().end() - held_from + 1);
        let reply = Reply::new(StatusCode::PARTIAL_CONTENT, Source::Entry(self.entry), self.outcome);
        Reply {
            age: Some(self.age),
            length: Some(to - from),
            content: Content::Stored(from, to),
            content_range: Some(range),
            ..reply
        }
    }

    fn ranges(self, resolved: RangeSelection) -> Reply {
        let complete = self.entry.body().len();
        match resolved {
            RangeSelection::Ignored => self.whole(),
            RangeSelection::Unsatisfiable => self.unsatisfiable(complete),
            RangeSelection::Satisfied(ranges) => match &ranges[..] {
                [range] => match ContentRange::new(range.clone(), complete) {
                    Some(range) => self.one(range, 0),
                    None => self.whole(),
                },
                _ => self.several(&ranges, complete).unwrap_or_else(|| self.whole()),
            },
        }
    }

    fn unsatisfiable(&self, complete: u64) -> Reply {
        let of_entry = self.entry.fields();
        let stays = |name: &[u8]| revalidate::permits_pages(name) || name.eq_ignore_ascii_case(b"vary");
        let mut fields = to_map(of_entry.iter().filter(|(name, _)| stays(name)));
        if let Ok(range) = HeaderValue::try_from(range::unsatisfied(complete)) {
            fields.insert(header::CONTENT_RANGE, range);
        }
        self.reply(StatusCode::RANGE_NOT_SATISFIABLE, Source::Fields(fields.into()), 0, Content::None)
    }

    /// Returns a `multipart/byteranges` reply (RFC 9110 section 14.6). `None` if a head cannot express it.
    fn several(&self, ranges: &[RangeInclusive<u64>], complete: u64) -> Option<Reply> {
        let boundary = format!("larder{:08x}{:016x}", self.entry.freshness().received, complete);
        let kind = self.entry.fields().first("content-type").map(<[u8]>::to_vec);
        if kind.as_ref().is_some_and(|kind| kind.len() > LONGEST_TYPE) {
            return None;
        }
        let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
        for range in ranges {
            let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
            if let Some(kind) = &kind {
                head.extend([b"Content-Type: ", &kind[..], b"\r\n"].concat());
            }
            let place = ContentRange::new(range.clone(), complete)?;
            head.extend(format!("Content-Range: {place}\r\n\r\n").into_bytes());
            pieces.push(Piece::Bytes(head.into()));
            pieces.push(Piece::Stored(self.entry.clone(), *range.start(), range.end() + 1));
        }
        pieces.push(Piece::Bytes(format!("\r\n--{boundary}--\r\n").into()));
        let length = pieces.iter().map(Piece::len).sum();
        let mut fields = self.entry.fields().to_map();
        let kind = HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}")).ok()?;
        fields.insert(header::CONTENT_TYPE, kind);
        range::remove_about_content(&mut fields);
        let reply = self.reply(
            StatusCode::PARTIAL_CONTENT,
            Source::Fields(fields.into()),
            length,
            Content::Pieces(pieces),
        );
        Some(reply)
    }

    /// Returns the reply from a stored part to a request for a range within it (RFC 9111 section 3.3).
    fn part_of_part(self, method: &Method, request: &impl Fields) -> Option<Reply> {
        let (fields, freshness) = (self.entry.fields(), self.entry.freshness());
        let held = ContentRange::of(&fields)?;
        let specs = request.first("range").filter(|_| *method == Method::GET).and_then(range::parse)?;
        if !range::if_range(request, &fields, &freshness) {
            return None;
        }
        match range::resolve(&specs, held.complete()?) {
            RangeSelection::Satisfied(ranges) => match &ranges[..] {
                [range] if held.contains(range) => {
                    Some(self.one(ContentRange::new(range.clone(), held.complete()?)?, *held.range().start()))
                }
                _ => None,
            },
            RangeSelection::Unsatisfiable => held.complete().map(|complete| self.unsatisfiable(complete)),
            RangeSelection::Ignored => None,
        }
    }
}
