//! Joins two stored parts of one representation (RFC 9111 section 3.4).

use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::fields::Fields;
use larder_semantics::range::{self, ContentRange};
use larder_store::entry::Parts;
use larder_store::fill::Head;
use larder_store::{Body, Entry, Memory};

/// The largest result of a join, in bytes: joining copies both parts. Larger parts stay separate.
const MOST: u64 = 8 << 20;
/// The length of a result that is made for parts of any length, in bytes: copying it takes little time.
const SHORT: u64 = 256 << 10;
/// For a longer result, the new part has at least one byte in this many: otherwise requests for single bytes would copy
/// megabytes each. The last missing part may be shorter, since it is joined once.
const SHARE: u64 = 32;

/// Returns one response made of a `new` part and an `old` one, with the head of the new one; a complete response if no
/// part is missing. `None` if the parts do not belong together.
pub(crate) fn join(memory: &Memory, new: &Entry, old: &Entry) -> Option<Entry> {
    let (new_range, old_range) = (ContentRange::of(&new.fields())?, ContentRange::of(&old.fields())?);
    let joined = range::combined((&new_range, &new.fields()), (&old_range, &old.fields()))?;
    let is_worth_it =
        joined.is_whole() || joined.length() <= SHORT || joined.length() <= SHARE * new_range.length();
    if !is_worth_it || joined.length() > MOST || joined == new_range {
        return None;
    }
    let (first, second) = if new_range.range().start() <= old_range.range().start() {
        ((new, &new_range), (old, &old_range))
    } else {
        ((old, &old_range), (new, &new_range))
    };
    let length = usize::try_from(joined.length()).ok()?;
    let mut bytes = Vec::with_capacity(length);
    for (entry, held) in [first, second] {
        let skip = (joined.range().start() + bytes.len() as u64).saturating_sub(*held.range().start());
        bytes.extend_from_slice(&entry.body().copy(skip, length).ok()?);
    }
    let mut fields = new.fields().to_map();
    let status = describe(&mut fields, &joined)?;
    Entry::new(Parts {
        key: new.key(),
        signature: new.signature(),
        status,
        freshness: new.freshness(),
        cost: new.cost().max(old.cost()),
        born: new.checked().min(old.checked()),
        fields: &memory.keep(&fields, new.freshness().date),
        body: Body::Heap(bytes.into()),
    })
}

/// Returns the head of the first `len` bytes of a response that broke off. `None` if these bytes cannot be used: the
/// length of the response is unknown, or no strong validator tells whether a later part belongs to it.
pub(crate) fn beginning(memory: &Memory, head: &Head, len: u64) -> Option<Head> {
    let fields = head.fields.view();
    let is_strong = fields.first("etag").is_some_and(|tag| !tag.starts_with(b"W/"));
    if head.status != StatusCode::OK || !is_strong {
        return None;
    }
    let range = ContentRange::new(0..=len.checked_sub(1)?, head.length?)?;
    let mut map = fields.to_map();
    let status = describe(&mut map, &range)?;
    let fields = memory.keep(&map, head.freshness.date);
    Some(Head { status, fields, length: Some(len), ..head.clone() })
}

fn describe(fields: &mut HeaderMap, joined: &ContentRange) -> Option<StatusCode> {
    range::remove_about_content(fields);
    if joined.is_whole() {
        return Some(StatusCode::OK);
    }
    fields.insert(header::CONTENT_RANGE, HeaderValue::try_from(joined.to_string()).ok()?);
    Some(StatusCode::PARTIAL_CONTENT)
}
