//! Requests for responses that are stored by slices: which of them begin with a slice, and the content of their replies.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use larder_semantics::status::Why;
use larder_store::{Entry, SlicePart, SlicedBody};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::CountedRequests;
use crate::cache::Cache;
use crate::cluster::peers;
use crate::counts::counters::add;
use crate::exchange::limits;
use crate::exchange::pieces::{Piece, PieceQueue, QueuedPiece};
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::flow::context::{Context, failure, refused};
use crate::flow::fetch_scope::FetchScope;
use crate::flow::slices::source::{FoundSlice, SliceError, SliceSource, in_memory, is_whole};
use crate::flow::slices::{AHEAD, FirstSlice};
use crate::flow::stored::Lookup;
use crate::flow::{answer, fetch, reload};

/// The most slices in a reply that is made at once.
const AT_ONCE: usize = 4;
/// How often a reply is made again because its response turns out to be outdated.
const TRIES: usize = 3;

/// Whether `request`, which `stored` does not answer, begins with a slice that other requests may wait for. The node that
/// owns the key has all slices of its response, so that others only forward what their clients want.
pub(crate) fn begins(cx: Context<'_>, request: &Request, stored: Option<&Entry>) -> bool {
    let is_own = |entry: &Entry| *entry.key() == *request.key;
    let cluster = cx.worker.shared.cluster.as_deref().filter(|_| request.asks_peers && !request.by_peer);
    request.method == Method::GET
        && stored.is_none_or(is_own)
        && FirstSlice::of(cx, request, stored).is_some()
        && !request.is_reload()
        && !reload::is_for_client(&cx.worker.cache, request)
        && cluster.is_none_or(|cluster| peers::owner(cluster, &request.key).is_none())
}

/// Returns the signature under which requests that begin with a slice join; `expected` is that of the response. Requests
/// for the whole do not follow them, nor they those: a request for the end would wait for all that precedes it.
pub(crate) fn signature(expected: &[u8]) -> Vec<u8> {
    // A signature begins with the length of a field's name, which is not 0.
    [b"\0slices", expected].concat()
}

/// Content that is to be found.
enum PiecePlan {
    Bytes(Bytes),
    /// These bytes of the response.
    Slices(Range<u64>),
}

/// A piece that is found, or is being found.
enum PendingPiece {
    Found(Piece),
    Slice(JoinHandle<Result<FoundSlice, SliceError>>, SlicePart),
}

/// Finds the pieces of a reply, some ahead of its client.
struct Producer {
    source: Arc<SliceSource>,
    plans: VecDeque<PiecePlan>,
    pending: VecDeque<PendingPiece>,
    /// The slice that the next request will probably need.
    next: Option<u64>,
}

impl Producer {
    /// Returns the next piece, when it is found or arrives; `None` at the end.
    async fn next(&mut self) -> Result<Option<QueuedPiece>, SliceError> {
        while self.pending.len() < AHEAD
            && let Some(begun) = self.begin()
        {
            self.pending.push_back(begun);
        }
        if self.plans.is_empty()
            && let Some(next) = self.next.take()
        {
            let source = Arc::clone(&self.source);
            // If it cannot be had, the next request finds out why.
            tokio::spawn(async move { source.get(next).await });
        }
        let (found, part) = match self.pending.pop_front() {
            None => return Ok(None),
            Some(PendingPiece::Found(piece)) => return Ok(Some(QueuedPiece::Ready(piece))),
            Some(PendingPiece::Slice(found, part)) => (found, part.bytes),
        };
        // A task fails only if it panics, or if the process ends.
        let found =
            found.await.map_err(|_| SliceError::Failed(StatusCode::BAD_GATEWAY, Why::OriginClosed))?;
        Ok(Some(match found? {
            FoundSlice::Stored(slice) => QueuedPiece::Ready(Piece::Stored(slice, part.start, part.end)),
            FoundSlice::Arriving(mut reader) => {
                reader.narrow(part.start, part.end);
                let length = part.end - part.start;
                self.source.request.fetched.iter().for_each(|count| add(count, length));
                QueuedPiece::Arriving(reader, length)
            }
        }))
    }

    /// Begins to find the next piece. A fetch goes on if the client leaves, so that the slice is stored.
    fn begin(&mut self) -> Option<PendingPiece> {
        loop {
            match self.plans.front_mut()? {
                PiecePlan::Bytes(bytes) => {
                    let bytes = std::mem::take(bytes);
                    self.plans.pop_front();
                    return Some(PendingPiece::Found(Piece::Bytes(bytes)));
                }
                PiecePlan::Slices(range) => match self.source.sliced.parts(range.clone()).next() {
                    None => _ = self.plans.pop_front(),
                    Some(part) => {
                        range.start += part.bytes.end - part.bytes.start;
                        let (source, index) = (Arc::clone(&self.source), part.index);
                        if let Some(slice) = find_at_once(&source.worker.cache, &source.entry, index) {
                            let SlicePart { bytes, .. } = part;
                            return Some(PendingPiece::Found(Piece::Stored(slice, bytes.start, bytes.end)));
                        }
                        let found = tokio::spawn(async move { source.get(index).await });
                        return Some(PendingPiece::Slice(found, part));
                    }
                },
            }
        }
    }

    /// Passes on the pieces in `begun`, and all others. If one cannot be had, the content ends early.
    async fn run(mut self, begun: Vec<QueuedPiece>, to: Sender<QueuedPiece>) {
        for piece in begun {
            if to.send(piece).await.is_err() {
                return;
            }
        }
        loop {
            match self.next().await {
                Ok(Some(piece)) => {
                    if to.send(piece).await.is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    let url = self.source.request.logged_url();
                    return tracing::warn!("{url}: a slice is missing, and the reply is cut short: {error}");
                }
            }
        }
    }
}

/// Returns the response stored by slices of which `reply` is made.
#[inline]
pub(crate) fn response(reply: &Reply) -> Option<&Entry> {
    let entry = match (&reply.content, &reply.fields) {
        (Content::Stored(..), Source::Entry(entry)) => entry,
        (Content::Pieces(pieces), _) => pieces.iter().find_map(Piece::entry)?,
        _ => return None,
    };
    entry.body().slices().is_some().then_some(entry)
}

/// Gives `reply`, which is made of slices, its content if few slices are needed and all are found without waiting;
/// returns false if not.
pub(crate) fn fill_at_once(cache: &Cache, method: &Method, reply: &mut Reply) -> bool {
    let (Content::Stored(from, to), Source::Entry(entry)) = (&reply.content, &reply.fields) else {
        return false;
    };
    let Some(sliced) = entry.body().slices().filter(|_| *method == Method::GET) else { return false };
    let range = *from..*to;
    let (parts, mut pieces) = (sliced.parts(range.clone()), Vec::with_capacity(AT_ONCE));
    for part in parts {
        if pieces.len() == AT_ONCE {
            return false;
        }
        let Some(slice) = find_at_once(cache, entry, part.index) else { return false };
        pieces.push(Piece::Stored(slice, part.bytes.start, part.bytes.end));
    }
    sliced.reads_on(&range);
    reply.content = Content::Pieces(pieces);
    true
}

fn find_at_once(cache: &Cache, entry: &Entry, index: u64) -> Option<Entry> {
    if let Some(slice) = in_memory(cache, entry, index) {
        return Some(slice);
    }
    let sliced = entry.body().slices()?;
    let key = sliced.key(entry.key(), index);
    let (slice, _) = cache.fills.recall_at_once(&key, &HeaderMap::new(), clock::now())?;
    is_whole(&slice, sliced, index).then_some(slice)
}

impl Context<'_> {
    /// Gives `reply` its content if that is in slices. If the origin has another representation by now, the answer is made
    /// again, from that one: the content of a reply is always that of one representation.
    pub(crate) async fn with_slices(&self, request: &Request, mut reply: Reply) -> Reply {
        for _ in 0..TRIES {
            let Some(entry) = response(&reply).cloned() else { return reply };
            if request.method == Method::HEAD {
                return Reply { content: Content::None, ..reply };
            }
            let source = SliceSource::of(self.worker, self.plan, request, entry);
            let Some(source) = source else { return reply };
            match queue(request, Arc::new(source), reply).await {
                Ok(reply) => return reply,
                Err(SliceError::Failed(status, why)) => return failure(status, why),
                Err(SliceError::Outdated) => reply = *self.answer(request).await,
                Err(SliceError::Unshared) => {
                    let epoch = self.worker.cache.fills.epoch_of(request.hash);
                    let (alone, lookup) = (FetchScope::Alone(epoch), Lookup { entry: None, epoch });
                    return *fetch::for_client(*self, request, alone, Why::RangeAbsent, lookup).await;
                }
            }
        }
        failure(StatusCode::BAD_GATEWAY, Why::OriginMalformed)
    }
}

/// Begins to find the slices of `reply`, and returns it when the first one is found or arrives.
async fn queue(request: &Request, source: Arc<SliceSource>, reply: Reply) -> Result<Reply, SliceError> {
    let plans = plans(&reply.content);
    let length = reply.length.unwrap_or_default();
    let outcome = match reply.outcome.kind {
        // It has just been fetched, or its fetch was followed.
        Kind::Miss | Kind::Coalesced => reply.outcome,
        _ => match missing(request, &source, &plans, &reply.outcome).await {
            None => reply.outcome,
            Some(Why::StaleIfError) => return Err(SliceError::Unshared),
            Some(Why::RangeAbsent) if reload::is_for_client(&source.worker.cache, request) => {
                return Err(SliceError::Unshared);
            }
            Some(why) if why != Why::RangeAbsent => return Ok(refused(why)),
            Some(why) => match limits::enter(request, CountedRequests::Misses) {
                Ok(()) => {
                    let Outcome { ttl, .. } = reply.outcome;
                    let outcome = Outcome::forwarded(Kind::Miss, why).answered(StatusCode::PARTIAL_CONTENT);
                    Outcome { ttl, stored: true, ..outcome }
                }
                Err(refusal) => return Ok(*refusal),
            },
        },
    };
    let next = next(&source.sliced, &plans).filter(|_| outcome.kind == Kind::Miss);
    let mut producer = Producer { source, plans: plans.into(), pending: VecDeque::new(), next };
    let mut begun = Vec::new();
    while let Some(piece) = producer.next().await? {
        let is_text = matches!(piece, QueuedPiece::Ready(Piece::Bytes(_)));
        begun.push(piece);
        if !is_text {
            break;
        }
    }
    let (sender, pieces) = channel(1);
    tokio::spawn(producer.run(begun, sender));
    let content = Content::Queue(Box::new(PieceQueue::new(pieces, length)));
    Ok(Reply { content, outcome, ..reply })
}

/// Returns the reason why `request` needs an origin: the first slices are not all stored. For a request that must not be
/// sent to one, returns the reason for its refusal if any slice is missing. If the response stands in for an origin that
/// fails, which would not have the other slices either, the reason is that of the `outcome`.
async fn missing(
    request: &Request,
    source: &SliceSource,
    plans: &[PiecePlan],
    outcome: &Outcome,
) -> Option<Why> {
    let (why, most) = match outcome.why {
        Why::StaleIfError => (Why::StaleIfError, usize::MAX),
        _ => first_needed(&source.worker.cache, request),
    };
    for part in parts(&source.sliced, plans).take(most) {
        if source.stored(part.index).await.is_none() {
            return Some(why);
        }
    }
    None
}

/// Returns how many of the first slices have to be stored for a hit, and the reason if one is not.
fn first_needed(cache: &Cache, request: &Request) -> (Why, usize) {
    match () {
        () if request.asked.only_if_cached => (Why::OnlyIfCached, usize::MAX),
        () if request.is_for_cache_only() => (Why::PrefetchNotStored, usize::MAX),
        () if reload::is_for_client(cache, request) => (Why::RangeAbsent, usize::MAX),
        () => (Why::RangeAbsent, AHEAD),
    }
}

/// Returns the parts of slices in these pieces.
fn parts<'p>(sliced: &'p SlicedBody, plans: &'p [PiecePlan]) -> impl Iterator<Item = SlicePart> + 'p {
    let ranges =
        plans.iter().filter_map(|plan| if let PiecePlan::Slices(range) = plan { Some(range) } else { None });
    ranges.flat_map(|range| sliced.parts(range.clone()))
}

/// The slices that a reply needs, for an explanation.
pub(crate) struct NeededSlices {
    pub(crate) stored: u64,
    pub(crate) all: u64,
    /// The reason why the reply cannot begin with stored slices.
    pub(crate) why: Option<Why>,
}

impl NeededSlices {
    /// Looks for the slices of `entry` that the reply to `request` needs, without counting a use; `None` if it needs none.
    /// Blocks while a disk reads.
    pub(crate) fn look(cache: &Cache, request: &Request, entry: &Entry) -> Option<Self> {
        let sliced = entry.body().slices().filter(|_| request.method == Method::GET)?;
        let outcome = Outcome::hit(Kind::Hit, Why::Fresh, 0);
        let reply = answer::to(request, entry.clone(), clock::now(), outcome)?;
        let ((why, most), store) = (first_needed(cache, request), &cache.store);
        let mut needed = Self { stored: 0, all: 0, why: None };
        for part in parts(sliced, &plans(&reply.content)) {
            let key = sliced.key(entry.key(), part.index);
            let is_stored = store.memory.peek(&key, store.memory.hash(&key)).is_some()
                || store.explain(&key, &|_| Vec::new()).is_some();
            if !is_stored && needed.all < most as u64 {
                needed.why = Some(why);
            }
            needed.all += 1;
            needed.stored += u64::from(is_stored);
        }
        (needed.all > 0).then_some(needed)
    }
}

/// Returns the slice behind the one range of a client that reads on from where the last reply ended.
fn next(sliced: &SlicedBody, plans: &[PiecePlan]) -> Option<u64> {
    let [PiecePlan::Slices(range)] = plans else { return None };
    let next = sliced.index(range.end - 1) + 1;
    (sliced.reads_on(range) && !sliced.range(next).is_empty()).then_some(next)
}

/// Returns the pieces of `content`.
fn plans(content: &Content) -> Vec<PiecePlan> {
    match content {
        Content::Stored(from, to) => vec![PiecePlan::Slices(*from..*to)],
        Content::Pieces(pieces) => {
            let plan = |piece: &Piece| match piece {
                Piece::Bytes(bytes) => PiecePlan::Bytes(bytes.clone()),
                Piece::Stored(_, from, to) => PiecePlan::Slices(*from..*to),
            };
            pieces.iter().map(plan).collect()
        }
        _ => Vec::new(),
    }
}
