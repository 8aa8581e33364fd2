//! Large responses by slices: a request for a range fetches only the slices that it needs, and stores each by itself.
//!
//! The response is one entry, whose content is in [slices](larder_store::SlicedBody). Freshness, variants, validation and
//! purges concern that entry alone. This module decides which requests begin with a slice; [`source`] finds or fetches
//! slices, [`content`] makes the content of replies of them, and [`carve`] makes slices of a whole response. `docs/internals/slices.md` has the order of events.

pub(crate) mod carve;
pub(crate) mod source;

use std::ops::Range;

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::range::{self, ContentRange, Spec};
use larder_store::Entry;

use crate::exchange::request::Request;
use crate::flow::context::Context;

/// A response of more slices than this is stored by slices.
const MANY: u64 = 8;
/// The slices of one reply that are found or fetched ahead of the client, and thus the most that are fetched at once.
pub(super) const AHEAD: usize = 4;
/// A range that ends before this byte is requested as it is, while the length of the response is unknown: most such
/// responses are small.
const SMALL: u64 = 64 << 10;

/// The slice with which a request for a response begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstSlice {
    /// The bytes of content in it. The content may end before.
    pub(crate) range: Range<u64>,
}

impl FirstSlice {
    /// Returns the slice with which to begin to fetch the response to `request`, after `stored` was found: the first one
    /// that the request needs. `None`: the whole response is fetched, or the range that its client wants.
    pub(crate) fn of(cx: Context<'_>, request: &Request, stored: Option<&Entry>) -> Option<Self> {
        let size = cx.rules.slice.filter(|_| !cx.rules.stores_nothing && !request.asked.no_store)?;
        let specs = request.fields.first("range").and_then(range::parse);
        match stored {
            Some(entry) if entry.body().slices().is_some() => {}
            Some(entry) if entry.status() == StatusCode::PARTIAL_CONTENT && specs.is_some() => {
                let complete = ContentRange::of(&entry.fields())?.complete()?;
                is_large(complete, size).then_some(())?;
            }
            Some(_) => return None,
            None => match specs.as_deref()?.first()? {
                Spec::Span(_, last) if *last >= SMALL => {}
                Spec::From(_) => {}
                Spec::Span(..) | Spec::Suffix(_) => return None,
            },
        }
        let first = match specs.as_deref().and_then(<[_]>::first) {
            Some(Spec::Span(first, _) | Spec::From(first)) => first - first % size,
            Some(Spec::Suffix(_)) | None => 0,
        };
        Some(Self { range: first..first.checked_add(size)? })
    }

    /// Whether `part` is this slice, of a response that is stored by slices.
    pub(crate) fn is(&self, part: &ContentRange) -> bool {
        let size = self.range.end - self.range.start;
        part.complete().is_some_and(|complete| {
            let range = self.range.start..=self.range.end.min(complete).saturating_sub(1);
            is_large(complete, size) && part.range() == range
        })
    }

    /// Returns the value of `Range` that requests it.
    pub(crate) fn wanted(&self) -> String {
        wanted(&self.range)
    }
}

/// Whether a response of `complete` bytes is stored by slices of `size` bytes.
pub(crate) fn is_large(complete: u64, size: u64) -> bool {
    complete > size.saturating_mul(MANY)
}

/// Returns the value of `Range` that requests the bytes in `range`.
fn wanted(range: &Range<u64>) -> String {
    format!("bytes={}-{}", range.start, range.end.saturating_sub(1))
}
