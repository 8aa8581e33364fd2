//! Finds the slices of a stored response, and fetches those that are missing. Requests for the same slice share its fetch.

use std::ops::Range;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::range::ContentRange;
use larder_semantics::revalidate;
use larder_semantics::status::Why;
use larder_semantics::storable::Times;
use larder_store::fill::{FillWriter, Head, Reader, Verdict};
use larder_store::{Entry, JoinResult, Resident, SlicedBody};

use super::wanted;
use crate::base::clock;
use crate::cache::Cache;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::flow::fill_task::FillTask;
use crate::flow::storage_terms::judge;
use crate::flow::upstream::{self, Answer};
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::origin::Download;

/// How many fetches a request tries to follow before it fetches a slice by itself.
const TRIES: usize = 3;
/// How long a URL stays marked as hit-for-miss after an answer that is no slice, in seconds.
const MARK: u32 = 120;
/// How long an outdated response is remembered, in seconds: a second one in this time may be of another server.
const MEMORY: u32 = 600;
/// The lifetime of slices, in seconds: that of their response counts.
const LONG: u32 = 10 * 365 * 86_400;

/// The slices of one stored response.
pub(crate) struct SliceSource {
    pub(crate) worker: Arc<Worker>,
    plan: Arc<Plan>,
    /// The request of whose client the missing slices are fetched, without its conditions.
    pub(crate) request: Request,
    pub(crate) entry: Entry,
    pub(crate) sliced: Arc<SlicedBody>,
}

/// A slice that is stored, or arrives.
#[derive(Debug)]
pub(crate) enum FoundSlice {
    Stored(Entry),
    Arriving(Reader),
}

/// The reason why there is no slice.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum SliceError {
    /// The origin has another representation now, or answers with no slice. The response was removed.
    #[error("the origin has another representation, or sends no slices")]
    Outdated,
    /// The answer of the origin may be for its client alone, who gets it unchanged.
    #[error("the answer may be for its client alone")]
    Unshared,
    /// The origin sent no answer, or an error; the status and the reason for the client.
    #[error("{}", .1.explanation())]
    Failed(StatusCode, Why),
}

impl SliceSource {
    /// Returns the source of the slices of `entry`; `None` if its content is not in slices.
    pub(crate) fn of(
        worker: &Arc<Worker>,
        plan: &Arc<Plan>,
        request: &Request,
        entry: Entry,
    ) -> Option<Self> {
        let sliced = Arc::clone(entry.body().slices()?);
        let request = match *request.key == *entry.key() {
            true => request.in_background(),
            false => request.in_background_for(entry.key(), worker.cache.store.memory.hash(entry.key())),
        };
        Some(Self { worker: Arc::clone(worker), plan: Arc::clone(plan), request, entry, sliced })
    }

    /// Finds the slice with this number, in memory, on a disk, or among those that arrive; or fetches it.
    pub(crate) async fn get(&self, index: u64) -> Result<FoundSlice, SliceError> {
        let (fills, key) = (&self.worker.cache.fills, self.sliced.key(self.entry.key(), index));
        for _ in 0..TRIES {
            if let Some(slice) = self.stored(index).await {
                return Ok(FoundSlice::Stored(slice));
            }
            let reader = match fills.join_own(&key, &[]) {
                JoinResult::Follow(reader) => reader,
                // A fill may have ended between the lookup and the joining.
                JoinResult::Writer(writer) => match in_memory(&self.worker.cache, &self.entry, index) {
                    Some(slice) => {
                        writer.settle(Verdict::Stored(slice.clone()));
                        return Ok(FoundSlice::Stored(slice));
                    }
                    None => return self.fetch(writer, index).await,
                },
            };
            match reader.verdict().await {
                Verdict::Stream(_) if reader.is_shared() => return Ok(FoundSlice::Arriving(reader)),
                Verdict::Stream(_) => break,
                Verdict::Failed(status, why) => return Err(SliceError::Failed(status, why)),
                Verdict::Released => return Err(SliceError::Outdated),
                Verdict::Stored(_) | Verdict::StandIn(_) | Verdict::Abandoned => {}
            }
        }
        self.fetch(fills.alone(&key, fills.epoch(&key)), index).await
    }

    /// Returns the stored slice with this number.
    pub(crate) async fn stored(&self, index: u64) -> Option<Entry> {
        let cache = &self.worker.cache;
        if let Some(slice) = in_memory(cache, &self.entry, index) {
            return Some(slice);
        }
        let key = self.sliced.key(self.entry.key(), index);
        let (slice, _) = cache.fills.recall(&key, |_| Vec::new(), clock::now()).await?;
        is_whole(&slice, &self.sliced, index).then_some(slice)
    }

    /// Fetches the slice with this number for the followers of `writer`.
    async fn fetch(&self, writer: FillWriter, index: u64) -> Result<FoundSlice, SliceError> {
        let (reader, range) = (writer.reader(), self.sliced.range(index));
        let Some(fields) = self.fields(&range) else { return Err(SliceError::Outdated) };
        let (mut nothing, fetch) = (Upload::Empty, Some(writer.fetch()));
        let sent =
            upstream::send(&self.worker, &self.plan, &self.request, &fields, &mut nothing, fetch).await;
        let failed = |writer: FillWriter, status, why| {
            writer.settle(Verdict::Failed(status, why));
            Err(SliceError::Failed(status, why))
        };
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!("a slice of {}: {error}", self.request.logged_url());
                return failed(writer, error.status, error.why);
            }
        };
        if answer.status.is_server_error() {
            // The client gets the origin's own answer, to its own request.
            let _ = failed(writer, answer.status, Why::OriginUnreachable);
            return Err(SliceError::Unshared);
        }
        if !self.is_slice(&answer, &range) {
            self.give_up(&answer);
            writer.settle(Verdict::Released);
            return Err(SliceError::Outdated);
        }
        carry(&self.worker, writer, &range, self.request.origin.micros(), answer.download);
        Ok(FoundSlice::Arriving(reader))
    }

    /// Returns the fields of the request for the bytes in `range` of this representation alone.
    fn fields(&self, range: &Range<u64>) -> Option<HeaderMap> {
        let mut fields = self.request.fields.clone();
        fields.insert(header::RANGE, HeaderValue::try_from(wanted(range)).ok()?);
        let tag = HeaderValue::from_bytes(self.entry.fields().first("etag")?).ok()?;
        fields.insert(header::IF_RANGE, tag);
        Some(fields)
    }

    /// Whether `answer` is the slice in `range` of the stored representation, all of it and nothing else.
    fn is_slice(&self, answer: &Answer, range: &Range<u64>) -> bool {
        let part = ContentRange::of(&*answer.fields);
        let is_part = part.is_some_and(|part| {
            part.range() == (range.start..=range.end - 1) && part.complete() == Some(self.sliced.len())
        });
        answer.status == StatusCode::PARTIAL_CONTENT
            && is_part
            && answer.download.length().is_none_or(|length| length == range.end - range.start)
            && is_same(&self.entry, &*answer.fields)
            && !answer.fields.contains("content-encoding")
            && self.is_for_all(answer)
    }

    /// Whether the stored response, with the fields of `answer`, might be stored for the same requests.
    fn is_for_all(&self, answer: &Answer) -> bool {
        let fields = revalidate::update(&self.entry.fields().to_map(), &answer.written());
        let Answer { requested, by_peer: by_age, .. } = *answer;
        let times = Times { requested, received: clock::now(), by_age, ..Times::default() };
        let rules = &answer.ruling.as_ref().unwrap_or(&self.request.ruling).caching;
        let terms = judge(rules, &self.request, StatusCode::OK, &fields, times);
        terms.is_ok_and(|terms| terms.signature == self.entry.signature())
    }

    /// Removes the response of which `answer` is no slice. If it claims to be one of the same representation, or if a
    /// response was outdated shortly before, as by servers with tags of their own, the origin cannot send slices: for a
    /// while, each client's request is forwarded as it is.
    fn give_up(&self, answer: &Answer) {
        let (cache, now) = (&self.worker.cache, clock::now());
        let has_content = matches!(answer.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT);
        let has_other_bytes = has_content && is_same(&self.entry, &*answer.fields);
        let is_outdated = cache.store.remove_sliced(&self.entry) && !has_other_bytes;
        // No request has such a key.
        let outdated = cache.store.memory.hash(&[b"\0", &*self.request.key].concat());
        if has_other_bytes || is_outdated && cache.hit_for_miss.marked(outdated, now) {
            let url = self.request.logged_url();
            tracing::warn!(
                "{url}: the origin answers requests for ranges with other bytes, or with other tags"
            );
            cache.hit_for_miss.mark(self.request.hash, now + MARK);
        }
        if is_outdated {
            cache.hit_for_miss.mark(outdated, now + MEMORY);
        }
    }
}

/// Whether the answer with these fields has the entity-tag of `entry`, which is a strong one.
fn is_same(entry: &Entry, answer: &impl Fields) -> bool {
    answer.first("etag") == entry.fields().first("etag")
}

/// Returns a slice of `entry` that is in memory, and counts that as a use.
pub(crate) fn in_memory(cache: &Cache, entry: &Entry, index: u64) -> Option<Entry> {
    let (store, sliced, now) = (&cache.store, entry.body().slices()?, clock::now());
    let key = sliced.key(entry.key(), index);
    let Resident::One(slice) = store.memory.find(&key, store.memory.hash(&key), now)? else { return None };
    store.used(&slice, now);
    is_whole(&slice, sliced, index).then_some(slice)
}

/// Whether `slice` has all bytes of the slice with this number.
pub(crate) fn is_whole(slice: &Entry, sliced: &SlicedBody, index: u64) -> bool {
    let range = sliced.range(index);
    slice.body().len() == range.end - range.start
}

/// Leads the fetch of a slice of `entry`; `None` if another request leads it.
pub(crate) fn lead(cache: &Cache, entry: &Entry, sliced: &SlicedBody, index: u64) -> Option<FillWriter> {
    match cache.fills.join_own(&sliced.key(entry.key(), index), &[]) {
        JoinResult::Writer(writer) => Some(writer),
        JoinResult::Follow(_) => None,
    }
}

/// Announces the slice with the bytes in `range`, whose content the readers of `writer` get.
pub(super) fn announce(worker: &Worker, writer: &mut FillWriter, range: &Range<u64>, cost: u32) {
    let (now, length) = (clock::now(), Some(range.end - range.start));
    let freshness = Freshness { received: now, date: now, lifetime: LONG, ..Freshness::default() };
    let fields = worker.cache.store.memory.keep(&HeaderMap::new(), now);
    writer.stream(Head { status: StatusCode::OK, fields, signature: Vec::new(), freshness, cost, length });
}

/// Stores the content of `download` as the slice with the bytes in `range`, for the readers of `writer`.
pub(crate) fn carry(
    worker: &Arc<Worker>,
    mut writer: FillWriter,
    range: &Range<u64>,
    cost: u32,
    download: Box<Download>,
) {
    announce(worker, &mut writer, range, cost);
    let whole = Some(range.end - range.start);
    FillTask { whole, ..FillTask::new(worker, writer) }.start(download, None);
}
