//! Fetches a response from the origin that is not in the cache, and shares it while it arrives.
//!
//! The client that caused the fetch waits here for the head of the answer. After that a separate task carries the
//! content, unless all of it has arrived, so that this client may leave without ending the fetch for others.

mod opening;
pub(crate) mod prefetch;
mod storing;

use std::pin::pin;

use http::{HeaderMap, HeaderValue, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::history::History;
use larder_semantics::range::{self, ContentRange};
use larder_semantics::reuse::Failure;
use larder_semantics::revalidate;
use larder_semantics::status::Why;
use larder_semantics::storable::{self, Rules, Times};
use larder_store::Entry;
use larder_store::fill::Verdict;
use larder_store::tier::FetchStart;

use crate::base::outcome::{Kind, Outcome};
use crate::base::{clock, in_place, settings::CountedRequests};
use crate::cache::doubt::Doubt;
use crate::exchange::limits;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::flow::context::{Context, failure};
use crate::flow::decide::may_stand_in;
use crate::flow::fetch_scope::FetchScope;
use crate::flow::revalidation::Revalidation;
use crate::flow::slices::FirstSlice;
use crate::flow::storage_terms::{
    self, News, StorageTerms, Update, is_by_request, is_perhaps_caused_by, judge,
};
use crate::flow::stored::Lookup;
use crate::flow::upstream::{self, Answer};
use crate::flow::{answer, coded_stream, conditions, follow, generated_etag, packages, pass, stored};
use crate::http::body::Upload;
use crate::origin::OriginError;

use opening::OpenedResponse;

/// How long a URL stays marked as hit-for-miss after an answer that could not be stored, in seconds.
const MARK: u32 = 120;
/// The same for an error of the origin, which tells little about its next answers.
const MARK_OF_ERROR: u32 = 5;

/// [`fetch`] for a client, if its limits allow another request to an origin. If not, its followers go on without it.
pub(crate) fn for_client(
    cx: Context<'_>,
    request: &Request,
    fetching: FetchScope,
    why: Why,
    lookup: Lookup,
) -> impl Future<Output = Box<Reply>> {
    fetch(cx, request, fetching, (why, true), lookup)
}

/// Fetches for `request`, which is `by_client` or has no limits, and the followers of `fetching`, after `lookup` in the tiers.
/// The future of a client's request contains this one: a function between the two would enlarge it.
pub(crate) async fn fetch(
    cx: Context<'_>,
    request: &Request,
    mut fetching: FetchScope,
    (why, by_client): (Why, bool),
    lookup: Lookup,
) -> Box<Reply> {
    if by_client && let Err(reply) = admit(cx, request).await {
        return reply;
    }
    // Checked after the fetch is registered among the fills: later purges apply to the fetch itself.
    let stored = lookup.left(&cx.worker.cache.fills, request);
    let mut wants_part = request.fields.contains("range") && !packages::is_verified(cx.plan, request);
    let mut revalidation = initial_request(cx, request, &fetching, (stored.as_ref(), wants_part));
    let own_tag = generated_etag::of(cx.rules, &revalidation).await;
    loop {
        let mut asked = revalidation.fields(&request.fields, wants_part);
        if let (Some(tag), Revalidation::Validate(_), Some(asked)) = (&own_tag, &revalidation, &mut asked) {
            generated_etag::show(asked, tag);
        }
        let asked = asked.as_deref().unwrap_or(&request.fields);
        let doubt = Doubt::about(&cx.worker.cache, &request.key);
        let start = cx.begin(request);
        let mut nothing = Upload::Empty;
        let sent = pin!(upstream::send(cx.worker, cx.plan, request, asked, &mut nothing, fetching.id()));
        let sent = request.unless_left(sent, fetching.deserted()).await;
        let received = clock::now();
        let answer = match sent {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => return failed(cx, request, fetching, why, stored.as_ref(), error).into(),
            None => return follow::left().into(),
        };
        // The clocks of nodes may differ.
        let times =
            Times { requested: answer.requested, received, by_age: answer.by_peer, ..Times::default() };
        let confirmed = revalidation.confirmed(cx.plan, request, &answer);
        let by_answer = confirmed.as_ref().map_or(&answer.ruling, |(ruling, _)| ruling).clone();
        let cx = Context { rules: &by_answer.as_ref().unwrap_or(&request.ruling).caching, ..cx };
        let (stored, own_tag, by_peer) = (stored.as_ref(), own_tag.as_ref(), answer.by_peer);
        let mut fetched =
            OriginAnswer { cx, request, sent: asked, why, times, stored, own_tag, by_peer, start, doubt };
        let meaning = fetched.understand(&revalidation, &answer);
        let known = fetched.count(&meaning, &answer);
        let reply = match meaning {
            Meaning::AskAgain(next) => {
                revalidation = next;
                continue;
            }
            Meaning::StillGood(entry) => match fetched.still_good(fetching, entry, confirmed, &answer) {
                Ok(reply) => reply,
                Err(scope) => {
                    (fetching, revalidation) = fetched.whole_instead(scope, known);
                    continue;
                }
            },
            Meaning::StaleInstead(entry) => fetched.stale(fetching, &entry, Some(answer.status)),
            Meaning::Completes(entry, joined) => fetched.complete(fetching, answer, entry, joined),
            Meaning::Opens(opened) => fetched.open(fetching, answer, *opened),
            Meaning::Contains(part, wanted) => {
                opening::narrow(fetched.answer(fetching, answer), &part, wanted)
            }
            Meaning::Answer if wants_part && coded_stream::is_part_of_undone(request, &answer) => {
                (revalidation, wants_part) = (Revalidation::Whole, false);
                continue;
            }
            Meaning::Answer => return in_place::boxed(|| fetched.answer(fetching, answer)),
        };
        return reply.into();
    }
}

/// Counts a client's request to an origin, and fetches first what belongs beside it. The error is the reply to a request beyond
/// its limits.
async fn admit(cx: Context<'_>, request: &Request) -> Result<(), Box<Reply>> {
    limits::enter(request, CountedRequests::Misses)?;
    if let Some(beside) = packages::digest_beside(cx.worker, cx.plan, request) {
        Box::pin(prefetch::beside(cx, &beside)).await;
    }
    Ok(())
}

/// Returns the first request to the origin of a fetch that finds `stored`; `wants_part`: the client wants a part of the response.
fn initial_request(
    cx: Context<'_>,
    request: &Request,
    fetching: &FetchScope,
    (stored, wants_part): (Option<&Entry>, bool),
) -> Revalidation {
    // Validators and parts belong to one URL; a response stored for an equivalent URL may only stand in on errors.
    let own = stored.filter(|entry| *entry.key() == *request.key);
    let is_sliced = own.is_some_and(|entry| entry.body().slices().is_some());
    // Only requests that begin with a slice lead a fetch of a range for others.
    let begins = is_sliced || wants_part && fetching.id().is_some();
    let first = begins.then(|| FirstSlice::of(cx, request, own)).flatten();
    match first {
        Some(first) => Revalidation::First(own.filter(|_| is_sliced).cloned(), first),
        None => conditions::revalidation(cx, request, own, wants_part),
    }
}

/// The meaning of an answer to the request.
enum Meaning {
    /// It does not answer the request; ask in this form.
    AskAgain(Revalidation),
    /// The stored response is still valid.
    StillGood(Entry),
    /// It is an error, and this stored response may stand in.
    StaleInstead(Entry),
    /// It is the missing part of this stored response; `CombinedParts` describes both together.
    Completes(Entry, CombinedParts),
    /// It is the first slice of a response that is stored by slices from now on.
    Opens(Box<OpenedResponse>),
    /// It is a part that contains the range that the client wants.
    Contains(ContentRange, ContentRange),
    /// It is a new response.
    Answer,
}

/// Two parts that make a whole: its fields, its length, and how it may be stored.
struct CombinedParts {
    fields: HeaderMap,
    length: Option<u64>,
    keeping: StorageTerms,
}

/// An answer from the origin, and the request and stored response that it is about.
struct OriginAnswer<'f> {
    cx: Context<'f>,
    request: &'f Request,
    /// The fields that the origin got.
    sent: &'f HeaderMap,
    why: Why,
    times: Times,
    stored: Option<&'f Entry>,
    /// The generated tag that was sent for the stored response, if that has none.
    own_tag: Option<&'f HeaderValue>,
    /// Whether it comes from the node that owns the key.
    by_peer: bool,
    /// The beginning of the fetch.
    start: FetchStart,
    /// The parts of it that a change with an unknown result may concern.
    doubt: Doubt,
}

impl OriginAnswer<'_> {
    /// Returns the meaning of the answer to this request, and records the result of a validation.
    fn understand(&self, revalidation: &Revalidation, answer: &Answer) -> Meaning {
        let Answer { status, fields, .. } = answer;
        let (status, fields, cx) = (*status, &**fields, self.cx);
        if let Revalidation::Validate(entry) = revalidation {
            cx.observers().couplings.validated(cx.plan, self.request, entry, (status, fields));
        }
        match revalidation {
            Revalidation::Validate(entry) if status == StatusCode::NOT_MODIFIED => {
                let is_own = |own: &HeaderValue| fields.first("etag").is_none_or(|tag| tag == own.as_bytes());
                match self.own_tag.is_some_and(is_own) || is_confirmed(entry, fields) {
                    true => Meaning::StillGood(entry.clone()),
                    false => Meaning::AskAgain(Revalidation::Whole),
                }
            }
            // The part is not the one that the client wants, which would take it for the whole.
            Revalidation::Rest(..) | Revalidation::First(..)
                if status == StatusCode::OK && storable::has_part(fields) =>
            {
                Meaning::AskAgain(Revalidation::Whole)
            }
            Revalidation::Rest(entry, held) if status == StatusCode::PARTIAL_CONTENT => {
                let part = ContentRange::of(fields).filter(|part| *part.range().start() == held.length());
                let joined = part.and_then(|part| range::combined((held, &entry.fields()), (&part, fields)));
                match joined.filter(ContentRange::is_whole).and_then(|_| self.join(entry, answer)) {
                    Some(joined) => Meaning::Completes(entry.clone(), joined),
                    None => Meaning::AskAgain(Revalidation::Whole),
                }
            }
            Revalidation::Rest(..) if status == StatusCode::RANGE_NOT_SATISFIABLE => {
                Meaning::AskAgain(Revalidation::Whole)
            }
            Revalidation::First(stored, first) => self.understand_first(stored.as_ref(), first, answer),
            _ => self.understand_other(status),
        }
    }

    fn understand_other(&self, status: StatusCode) -> Meaning {
        // The client may have the response: a condition, which the origin did not get, comes before the range.
        if status == StatusCode::RANGE_NOT_SATISFIABLE && conditions::lacks(self.sent, self.request) {
            return Meaning::AskAgain(Revalidation::AsAsked);
        }
        match self.stored.filter(|entry| self.may_stand_in(entry, Failure::Status(status))) {
            Some(entry) => Meaning::StaleInstead(entry.clone()),
            None => Meaning::Answer,
        }
    }

    /// Joins a stored beginning and the rest of it, if the result may be stored.
    fn join(&self, entry: &Entry, rest: &Answer) -> Option<CombinedParts> {
        let length = ContentRange::of(&*rest.fields)?.complete();
        let mut fields = revalidate::update(&entry.fields().to_map(), &rest.written());
        range::remove_about_content(&mut fields);
        let keeping = self.judge_whole(length, &fields)?;
        Some(CombinedParts { fields, length, keeping })
    }

    /// Returns how a whole response with these `fields` may be stored, if it may be.
    fn judge_whole(&self, length: Option<u64>, fields: &HeaderMap) -> Option<StorageTerms> {
        let by_answer = self.request.rule_response(self.cx.plan, (StatusCode::OK, length, fields));
        let rules = &by_answer.as_ref().unwrap_or(&self.request.ruling).caching;
        self.judge(rules, StatusCode::OK, fields).ok()
    }

    /// Returns the stored response, if it is one of the request's own URL.
    fn own(&self) -> Option<&Entry> {
        self.stored.filter(|entry| *entry.key() == *self.request.key)
    }

    fn judge(&self, rules: &Rules, status: StatusCode, fields: &impl Fields) -> Result<StorageTerms, Why> {
        let keeping = judge(rules, self.request, status, fields, self.times)?;
        // The range may be one for the rest of a stored part.
        if is_perhaps_caused_by(self.sent, status) {
            return Err(Why::StatusNotStorable);
        }
        Ok(StorageTerms { freshness: self.doubt.temper(keeping.freshness, fields), ..keeping })
    }

    /// Adds this answer to the validation history of the URL, and returns the one before.
    fn count(&mut self, meaning: &Meaning, answer: &Answer) -> History {
        let known = self.cx.worker.cache.histories.of(self.request.hash);
        self.times.history = self.history(meaning, answer);
        known
    }

    /// Restores the `known` history: the whole response, which is requested next, counts in place of this answer.
    fn whole_instead(&self, fetching: FetchScope, known: History) -> (FetchScope, Revalidation) {
        if self.cx.rules.heuristic_adaptive {
            self.cx.worker.cache.histories.note(self.request.hash, known);
        }
        (fetching, Revalidation::Whole)
    }

    /// Returns the validation history of the URL, with this answer.
    fn history(&self, meaning: &Meaning, answer: &Answer) -> History {
        let news = match meaning {
            _ if self.by_peer => return History::default(),
            Meaning::StillGood(entry) => News::Confirms(entry),
            Meaning::Answer => News::Is(answer.status, &*answer.fields, self.own()),
            _ => return History::default(),
        };
        let (histories, now) = (&self.cx.worker.cache.histories, self.times.received);
        storage_terms::history(histories, (self.cx.rules, self.request), &news, now)
    }

    /// Records the reason why the answer is not stored, for later queries about the URL.
    fn note(&self, why: Why, status: StatusCode, fields: &impl Fields) {
        let answer = Some((status, fields));
        self.cx.observers().verdicts.note(self.request.hash, why, answer, &self.cx.rules.targeted);
    }

    fn may_stand_in(&self, entry: &Entry, failure: Failure) -> bool {
        may_stand_in(self.cx.rules, self.request, entry, failure, self.times.received)
    }

    /// Freshens the stored response (RFC 9111 section 4.3.4), and replies from it. `confirmed` has the fields of
    /// `answer` as rules change them. Errors: `fetching`, if the response has too long a head with these fields, so
    /// that the whole has to be requested.
    fn still_good<R>(
        &self,
        fetching: FetchScope,
        entry: Entry,
        confirmed: Option<(R, HeaderMap)>,
        answer: &Answer,
    ) -> Result<Reply, FetchScope> {
        let (cx, request) = (self.cx, self.request);
        let news = &confirmed.map_or_else(|| answer.written(), |(_, news)| news);
        let update = Update::of((cx.rules, request), &entry, news, (self.times, &self.doubt));
        if update.is_too_long() {
            return Err(fetching);
        }
        let mut writer = fetching.into_lead(cx.worker, &request.key);
        self.tell(&mut writer, true);
        let memory = &cx.worker.cache.store.memory;
        let kept = update.entry(memory, writer.born());
        match &kept {
            Ok(fresh) => {
                writer.put(fresh, Some(&entry));
                self.hint(&writer, (fresh.status(), &fresh.fields()), (fresh.signature(), fresh.freshness()));
            }
            // If only this request forbids storing the new head, the old response stays for others.
            Err(why) if is_by_request(*why) => {}
            Err(_) => cx.remove(&request.key),
        }
        let now = self.times.received;
        let ttl = kept.as_ref().ok().map(|fresh| fresh.freshness().ttl(now));
        let outcome = Outcome { ttl, ..Outcome::hit(Kind::Revalidated, self.why, 0) };
        let outcome = outcome.answered(StatusCode::NOT_MODIFIED);
        writer.settle(kept.as_ref().map_or(Verdict::Released, |fresh| Verdict::Stored(fresh.clone())));
        let shown = kept.ok().or_else(|| update.unstored(memory));
        let reply = shown.and_then(|shown| {
            let extra = update.extra(news, &shown);
            let reply = answer::to(request, shown, now, outcome)?;
            Some(Reply { extra, ..reply })
        });
        Ok(reply.unwrap_or_else(|| failure(StatusCode::BAD_GATEWAY, self.why)))
    }

    fn stale(&self, fetching: FetchScope, entry: &Entry, status: Option<StatusCode>) -> Reply {
        fetching.settle(Verdict::StandIn(entry.clone()));
        let now = self.times.received;
        let outcome = Outcome::hit(Kind::StaleHit, Why::StaleIfError, entry.freshness().ttl(now));
        let outcome = status.map_or(outcome, |status| outcome.answered(status));
        let request = self.request;
        answer::to(request, entry.clone(), now, outcome)
            .unwrap_or_else(|| failure(StatusCode::BAD_GATEWAY, Why::OriginUnreachable))
    }

    /// Shares and stores the answer if that is allowed; else forwards it to this client only.
    fn answer(&self, fetching: FetchScope, answer: Answer) -> Reply {
        let keeping = match self.judge(self.cx.rules, answer.status, &*answer.fields) {
            Ok(_) if self.would_spoil(answer.status, false) => {
                return self.pass(fetching, Why::ErrorWhileFresh, answer);
            }
            Ok(keeping) => match self.carved(&answer) {
                Some(sliced) => return self.carve(fetching, answer, keeping, sliced),
                None => keeping,
            },
            Err(why) => return self.pass(fetching, why, answer),
        };
        let stored = self.stored_lines(&answer, keeping.freshness.date);
        let Answer { status, fields, download, .. } = answer;
        let expected = (status == StatusCode::PARTIAL_CONTENT).then(|| ContentRange::of(&*fields)).flatten();
        let head = self.head(status, stored, keeping, download.length());
        let writer = fetching.into_lead(self.cx.worker, &self.request.key);
        let task = self.task(writer, expected, None);
        self.store(task, &head, Source::Answer(fields), status, (download, None))
    }

    /// [`answer`](Self::answer) for the rest of a stored beginning.
    fn complete(
        &self,
        fetching: FetchScope,
        answer: Answer,
        beginning: Entry,
        joined: CombinedParts,
    ) -> Reply {
        let CombinedParts { mut fields, length, keeping } = joined;
        let (cx, status) = (self.cx, StatusCode::OK);
        let ruling = (self.request, &*self.request.ruling);
        // The digest is that of both parts together.
        let download = packages::examined(cx.worker, cx.plan, ruling, (status, &fields), answer.download);
        let answer = match download {
            Ok(download) => Answer { download, ..answer },
            Err(error) => return failed(cx, self.request, fetching, self.why, None, error),
        };
        let stored = self.stored_fields(&fields, keeping.freshness.date);
        let head = self.head(StatusCode::OK, stored, keeping, length);
        let writer = fetching.into_lead(self.cx.worker, &self.request.key);
        let task = self.task(writer, None, length);
        storable::remove_hop_by_hop(&mut fields);
        let source = Source::Fields(fields.into());
        self.store(task, &head, source, answer.status, (answer.download, Some(beginning)))
    }

    /// Whether the answer, an error or for one user, would take the place of a response that serves other requests.
    fn would_spoil(&self, status: StatusCode, is_personal: bool) -> bool {
        (is_personal || status.is_client_error() || status.is_server_error())
            && stored::is_served(self.cx, self.request, self.stored)
    }

    fn pass(&self, fetching: FetchScope, why: Why, answer: Answer) -> Reply {
        let Answer { status, fields, download, .. } = answer;
        (status != StatusCode::NOT_MODIFIED).then(|| self.note(why, status, &*fields));
        let shared = &self.cx.worker.shared;
        fetching.settle(Verdict::Released);
        let outcome = Outcome::forwarded(Kind::Miss, why).answered(status);
        // A reason that lies in this client's request, perhaps in its cookies, does not apply to other clients; nor does an
        // answer with several parts to a request for them.
        let has = |name: &str| self.request.fields.contains(name);
        let is_own = is_by_request(why) || why == Why::BadContentRange && has("range");
        let is_personal = has("cookie");
        if !is_own && why != Why::StatusNotStorable && !self.would_spoil(status, is_personal) {
            let time = if status.is_server_error() { MARK_OF_ERROR } else { MARK };
            shared.cache.hit_for_miss.mark(self.request.hash, self.times.received + time);
            // The newest answer of the origin forbids storing a response of this URL.
            if !status.is_server_error() {
                shared.cache.store.hints.remove(&self.request.key, self.request.hash);
                if self.stored.is_some() {
                    self.cx.remove(&self.request.key);
                }
            }
        }
        conditions::pass_on(self.request, status, fields, download, outcome)
    }
}

/// Whether a 304 with these `fields` is about the stored response.
fn is_confirmed(entry: &Entry, fields: &impl Fields) -> bool {
    let (stored, status) = (entry.fields(), StatusCode::NOT_MODIFIED);
    revalidate::same_representation(&stored, fields)
        && revalidate::tells_variants(entry.signature(), &stored, status, fields)
}

#[cold]
fn failed(
    cx: Context<'_>,
    request: &Request,
    fetching: FetchScope,
    why: Why,
    stored: Option<&Entry>,
    error: OriginError,
) -> Reply {
    pass::warn(cx.worker, request, &error);
    let now = clock::now();
    let times = Times { requested: now, received: now, ..Times::default() };
    let (own_tag, by_peer, start, doubt) = (None, false, FetchStart::default(), Doubt::default());
    let sent = &request.fields;
    let fetched = OriginAnswer { cx, request, sent, why, times, stored, own_tag, by_peer, start, doubt };
    // A failure that this client's request may have caused is not shared: a follower sends the next request.
    let fetching = match error.unconnected {
        true => fetching,
        false => FetchScope::Alone(cx.worker.cache.fills.epoch_of(request.hash)),
    };
    match stored.filter(|entry| fetched.may_stand_in(entry, error.outage())) {
        Some(entry) => fetched.stale(fetching, entry, None),
        None => {
            cx.observers().verdicts.note(request.hash, error.why, None::<(_, &HeaderMap)>, &[]);
            fetching.settle(Verdict::Failed(error.status, error.why));
            failure(error.status, error.why)
        }
    }
}
