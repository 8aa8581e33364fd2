//! The answer to a request for the first slice of a response: whether it opens the response, which is stored by slices
//! from then on.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::range::{self, ContentRange, RangeSelection};
use larder_store::fill::Verdict;
use larder_store::{Body, Entry, SlicedBody};

use super::{Meaning, OriginAnswer, is_confirmed};
use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::{Content, Reply};
use crate::flow::answer;
use crate::flow::context::failure;
use crate::flow::fetch_scope::FetchScope;
use crate::flow::revalidation::Revalidation;
use crate::flow::slices::{FirstSlice, carve, is_large, source};
use crate::flow::storage_terms::StorageTerms;
use crate::flow::upstream::Answer;

/// A response that its first slice opens: its fields, and how it may be stored.
pub(super) struct OpenedResponse {
    fields: HeaderMap,
    keeping: StorageTerms,
    sliced: Arc<SlicedBody>,
    /// The number of the slice that arrives.
    index: u64,
}

impl OriginAnswer<'_> {
    /// Returns the meaning of an answer to the request for `first`, with the validators of `stored`.
    pub(super) fn understand_first(
        &self,
        stored: Option<&Entry>,
        first: &FirstSlice,
        answer: &Answer,
    ) -> Meaning {
        let fields = &*answer.fields;
        match answer.status {
            StatusCode::NOT_MODIFIED => {
                let is_same = |entry: &&Entry| is_confirmed(entry, fields);
                stored
                    .filter(is_same)
                    .map_or(Meaning::AskAgain(Revalidation::Whole), |entry| Meaning::StillGood(entry.clone()))
            }
            StatusCode::PARTIAL_CONTENT => match self.opened(first, answer) {
                Some(opened) => Meaning::Opens(Box::new(opened)),
                None => {
                    self.contained(answer).map_or(Meaning::AskAgain(Revalidation::Whole), |(part, wanted)| {
                        Meaning::Contains(part, wanted)
                    })
                }
            },
            // The client wants another range, which may exist, or be the one that is signed.
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
                Meaning::AskAgain(Revalidation::Whole)
            }
            status => self.understand_other(status),
        }
    }

    /// Returns the response that `answer` is the slice `first` of, if that can be stored by slices.
    fn opened(&self, first: &FirstSlice, answer: &Answer) -> Option<OpenedResponse> {
        let part = ContentRange::of(&*answer.fields).filter(|part| first.is(part))?;
        let is_exact = answer.download.length().is_none_or(|length| length == part.length());
        let is_allowed = part.complete().is_some_and(|complete| self.may_take(complete));
        (is_exact && is_allowed && has_slices(&*answer.fields)).then_some(())?;
        let mut fields = answer.written();
        range::remove_about_content(&mut fields);
        let keeping = self.judge_whole(part.complete(), &fields)?;
        let sliced = SlicedBody::new(part.complete()?, first.range.end - first.range.start)?;
        let index = sliced.index(first.range.start);
        Some(OpenedResponse { fields, keeping, sliced: sliced.into(), index })
    }

    /// Whether the config allows to store content of this length.
    fn may_take(&self, length: u64) -> bool {
        self.cx.plan.settings.memory.max_object.is_none_or(|most| length <= most)
    }

    /// Returns the part in `answer` and the single range that the client wants, if the part contains it and may be stored
    /// by itself.
    fn contained(&self, answer: &Answer) -> Option<(ContentRange, ContentRange)> {
        let (asked, fields) = (&self.request.fields, &*answer.fields);
        let freshness = self.judge(self.cx.rules, answer.status, fields).ok()?.freshness;
        let part = ContentRange::of(fields)?;
        let specs = asked.first("range").and_then(range::parse)?;
        if !range::if_range(asked, fields, &freshness) {
            return None;
        }
        match range::resolve(&specs, part.complete()?) {
            RangeSelection::Satisfied(ranges) => match &ranges[..] {
                [wanted] if part.contains(wanted) => {
                    Some((part, ContentRange::new(wanted.clone(), part.complete()?)?))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Stores the response and its first slice, and replies from it.
    pub(super) fn open(&self, fetching: FetchScope, answer: Answer, opened: OpenedResponse) -> Reply {
        let OpenedResponse { fields, keeping, sliced, index } = opened;
        let begin = |entry: &Entry| {
            // The slice is among the fills before any request can find the response and look for it.
            if let Some(slice) = source::lead(&self.cx.worker.cache, entry, &sliced, index) {
                let (range, cost) = (sliced.range(index), self.request.origin.micros());
                source::carry(self.cx.worker, slice, &range, cost, answer.download);
            }
        };
        match self.announce(fetching, &fields, keeping, &sliced, begin) {
            Some(entry) => self.reply_from(entry, answer.status),
            None => failure(StatusCode::BAD_GATEWAY, self.why),
        }
    }

    /// Returns the slices of `answer`, a whole response, if memory does not take it otherwise. The origin has to say that it
    /// sends ranges: clients that overtake this one depend on that, and it is too late when the first of them needs one.
    pub(super) fn carved(&self, answer: &Answer) -> Option<Arc<SlicedBody>> {
        let (size, length) = (self.cx.rules.slice?, answer.download.length()?);
        let is_whole = answer.status == StatusCode::OK && !self.request.fields.contains("range");
        let has_ranges =
            answer.fields.first("accept-ranges").is_some_and(|ranges| ranges.eq_ignore_ascii_case(b"bytes"));
        let is_carved = is_whole
            && is_large(length, size)
            && self.may_take(length)
            && !self.cx.worker.cache.fills.takes(length)
            && !self.by_peer
            && has_ranges
            && has_slices(&*answer.fields);
        is_carved.then(|| SlicedBody::new(length, size))?.map(Arc::new)
    }

    /// Stores the content of `answer` by slices as it arrives, for its client, who gets the same bytes.
    pub(super) fn carve(
        &self,
        fetching: FetchScope,
        answer: Answer,
        keeping: StorageTerms,
        sliced: Arc<SlicedBody>,
    ) -> Reply {
        let fields = answer.written();
        let Some(entry) = self.announce(fetching, &fields, keeping, &sliced, |_| {}) else {
            return failure(StatusCode::BAD_GATEWAY, self.why);
        };
        let cost = self.request.origin.micros();
        let queue = carve::begin(self.cx.worker, entry.clone(), sliced, (answer.download, cost));
        let reply = self.reply_from(entry, answer.status);
        match reply.content {
            Content::Stored(..) => Reply { content: Content::Queue(Box::new(queue)), ..reply },
            _ => reply,
        }
    }

    /// Stores a response without its slices, and tells the followers of the fetch. `begin` precedes that.
    fn announce(
        &self,
        fetching: FetchScope,
        fields: &HeaderMap,
        keeping: StorageTerms,
        sliced: &Arc<SlicedBody>,
        begin: impl FnOnce(&Entry),
    ) -> Option<Entry> {
        let mut writer = fetching.into_lead(self.cx.worker, &self.request.key);
        self.tell(&mut writer, false);
        let stored = self.stored_fields(fields, keeping.freshness.date);
        let head = self.head(StatusCode::OK, stored, keeping, Some(sliced.len()));
        let entry = head.entry(&self.request.key, writer.born(), Body::sliced(Arc::clone(sliced)))?;
        begin(&entry);
        writer.put(&entry, self.stored.filter(|stored| *stored.key() == *self.request.key));
        self.cx.worker.cache.hit_for_miss.clear(self.request.hash);
        writer.settle(Verdict::Stored(entry.clone()));
        Some(entry)
    }

    /// Returns the reply from `entry`, which an answer of this status has opened.
    fn reply_from(&self, entry: Entry, answered: StatusCode) -> Reply {
        let (request, now) = (self.request, self.times.received);
        let outcome = Outcome::forwarded(Kind::Miss, self.why).answered(answered);
        let outcome = Outcome { stored: true, ttl: Some(entry.freshness().ttl(now)), ..outcome };
        answer::to(request, entry, now, outcome).unwrap_or_else(|| failure(StatusCode::BAD_GATEWAY, self.why))
    }
}

/// Whether slices of the response with these fields can be told from those of other representations: by a strong
/// entity-tag (RFC 9111 section 3.4). One with a coding may have been coded for this client alone.
fn has_slices(fields: &impl Fields) -> bool {
    fields.first("etag").is_some_and(range::is_strong) && !fields.contains("content-encoding")
}

/// Makes `reply`, which has the bytes of `part`, one with those of `wanted` alone.
pub(super) fn narrow(mut reply: Reply, part: &ContentRange, wanted: ContentRange) -> Reply {
    let Content::Fill(reader) = &mut reply.content else { return reply };
    let held_from = *part.range().start();
    reader.narrow(wanted.range().start() - held_from, wanted.range().end() + 1 - held_from);
    reply.narrow(wanted);
    reply
}
