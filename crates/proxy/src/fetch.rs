//! Asks the origin for what the cache lacks, and shares the answer while it arrives.
//!
//! The client that caused the fetch waits here for the answer's head; from then on the content is
//! carried by a task of its own, so that this client may leave without taking it from others.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;
use larder_semantics::fields::{Fields, members};
use larder_semantics::freshness::Freshness;
use larder_semantics::range::{self, ContentRange};
use larder_semantics::reuse::{Failure, stale_on_error};
use larder_semantics::revalidate::{self, Precondition};
use larder_semantics::status::Why;
use larder_semantics::storable::{self, Times};
use larder_semantics::vary;
use larder_store::fill::{Ending, Head, Lead, Piece, Reader, Verdict};
use larder_store::{Body, Entry};

use crate::origin::{Chunk, Download, OriginError, Place};
use crate::outcome::{Kind, Outcome};
use crate::reply::{Content, Reply, Source};
use crate::request::Request;
use crate::serve::{Context, failure};
use crate::upstream::{self, Answer};
use crate::worker::Worker;
use crate::{answer, clock, combine};

/// How long a URL whose answer could not be stored is remembered, in seconds.
const MARK: u32 = 120;

/// What is asked of the origin about what is stored.
enum Question {
    /// Everything, whatever is stored.
    Whole,
    /// Whether this is still good.
    Validate(Entry),
    /// The part that this one lacks.
    Rest(Entry, ContentRange),
}

/// Fetches for `request`, as the leader of a fill.
pub(crate) async fn lead(
    cx: Context<'_>,
    mut request: Request,
    lead: Lead,
    why: Why,
    stored: Option<Entry>,
) -> Reply {
    let wants_part = request.fields.contains("range");
    let mut question = Question::about(stored.as_ref(), wants_part);
    loop {
        let mut asked = request.fields.clone();
        question.ask(&mut asked, wants_part);
        let requested = clock::now();
        let answer = upstream::send(cx, &mut request, asked).await;
        let times = Times { requested, received: clock::now() };
        let Answer { response, place } = match answer {
            Ok(answer) => answer,
            Err(error) => return failed(cx, &request, lead, why, stored.as_ref(), error),
        };
        let fetched = Fetched { cx, request: &request, why, times, stored: stored.as_ref() };
        match fetched.understand(&question, response.status(), response.headers()) {
            Meaning::AskAgain => question = Question::Whole,
            Meaning::StillGood(entry) => return fetched.still_good(lead, entry, response.headers()),
            Meaning::StaleInstead(entry) => {
                return fetched.stale(lead, &entry, Some(response.status()));
            }
            Meaning::Completes(entry) => return fetched.store(lead, response, place, Some(entry)).await,
            Meaning::Answer => return fetched.store(lead, response, place, None).await,
        }
    }
}

impl Question {
    fn about(stored: Option<&Entry>, wants_part: bool) -> Self {
        let Some(entry) = stored else { return Self::Whole };
        if entry.status() != StatusCode::PARTIAL_CONTENT {
            return Self::Validate(entry.clone());
        }
        let held = ContentRange::of(&entry.fields());
        match held.filter(|held| !wants_part && *held.range().start() == 0 && held.rest().is_some()) {
            Some(held) => Self::Rest(entry.clone(), held),
            None => Self::Whole,
        }
    }

    /// Puts the question into the fields that go to the origin.
    fn ask(&self, fields: &mut HeaderMap, wants_part: bool) {
        match self {
            // What is fetched whole is stored for all; the client's own conditions are evaluated here.
            Self::Whole if !wants_part => revalidate::remove_conditions(fields),
            Self::Whole => {
                for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
                    fields.remove(name);
                }
            }
            Self::Validate(entry) => revalidate::condition(&entry.fields(), fields),
            Self::Rest(entry, held) => {
                revalidate::remove_conditions(fields);
                if let Some(rest) = held.rest().and_then(|rest| HeaderValue::try_from(rest).ok()) {
                    fields.insert(header::RANGE, rest);
                }
                let tag = entry.fields().first("etag").and_then(|tag| HeaderValue::from_bytes(tag).ok());
                if let Some(tag) = tag.filter(|tag| !tag.as_bytes().starts_with(b"W/")) {
                    fields.insert(header::IF_RANGE, tag);
                }
            }
        }
    }
}

/// What an answer means, given the question.
enum Meaning {
    /// It does not answer the question; ask for everything.
    AskAgain,
    /// The stored response is good.
    StillGood(Entry),
    /// The origin has trouble, and this may stand in.
    StaleInstead(Entry),
    /// It is the part that was lacking.
    Completes(Entry),
    /// It is the answer.
    Answer,
}

/// An answer from the origin, and what it is about.
struct Fetched<'f> {
    cx: Context<'f>,
    request: &'f Request,
    why: Why,
    times: Times,
    stored: Option<&'f Entry>,
}

impl Fetched<'_> {
    fn understand(&self, question: &Question, status: StatusCode, fields: &HeaderMap) -> Meaning {
        match question {
            Question::Validate(entry) if status == StatusCode::NOT_MODIFIED => {
                match revalidate::same_representation(&entry.fields(), fields) {
                    true => Meaning::StillGood(entry.clone()),
                    false => Meaning::AskAgain,
                }
            }
            Question::Rest(entry, held) if status == StatusCode::PARTIAL_CONTENT => {
                let part = ContentRange::of(fields).filter(|part| *part.range().start() == held.length());
                let joined = part.and_then(|part| range::combined((held, &entry.fields()), (&part, fields)));
                match joined.is_some_and(|joined| joined.is_whole()) {
                    true => Meaning::Completes(entry.clone()),
                    false => Meaning::AskAgain,
                }
            }
            Question::Rest(..) if status == StatusCode::RANGE_NOT_SATISFIABLE => Meaning::AskAgain,
            _ => match self.stored.filter(|entry| self.may_stand_in(entry, Failure::Status(status))) {
                Some(entry) => Meaning::StaleInstead(entry.clone()),
                None => Meaning::Answer,
            },
        }
    }

    fn may_stand_in(&self, entry: &Entry, failure: Failure) -> bool {
        stale_on_error(entry.freshness(), &self.request.asked, self.cx.rules, self.times.received, failure)
    }

    /// RFC 9111 section 4.3.4: the stored response, freshened.
    fn still_good(&self, lead: Lead, entry: Entry, fields: &HeaderMap) -> Reply {
        let updated = revalidate::update(&entry.fields().to_map(), fields);
        let updated = storable::storable_fields(self.cx.rules, &updated);
        let freshness = self.freshness(entry.status(), &updated, fields);
        let shared = &self.cx.worker.shared;
        // Where the origin forbids storing the new head, the old one must not be kept either; where
        // the client does, nothing changes for others.
        let refused = freshness.as_ref().err().filter(|why| !is_by_request(**why)).is_some();
        let storable = freshness.is_ok();
        let freshness = freshness.ok();
        let fresh = freshness
            .and_then(|freshness| entry.refreshed(&shared.memory.keep(&updated, freshness.date), freshness));
        let fresh = match fresh {
            Some(fresh) => {
                lead.put(&fresh, Some(&entry));
                fresh
            }
            None => {
                if refused {
                    shared.memory.remove(&self.request.key);
                }
                entry
            }
        };
        let now = self.times.received;
        let outcome = Outcome::hit(Kind::Revalidated, self.why, fresh.freshness().ttl(now));
        let outcome = outcome.answered(StatusCode::NOT_MODIFIED);
        lead.settle(if storable { Verdict::Stored(fresh.clone()) } else { Verdict::Released });
        let request = self.request;
        let cookies: HeaderMap = fields
            .get_all(header::SET_COOKIE)
            .iter()
            .map(|cookie| (header::SET_COOKIE, cookie.clone()))
            .collect();
        let extra = (!cookies.is_empty()).then(|| Box::new(cookies));
        answer::from_entry(&request.method, &request.fields, fresh, now, outcome).map_or_else(
            || failure(StatusCode::BAD_GATEWAY, Why::NotSelected),
            |reply| Reply { extra, ..reply },
        )
    }

    fn freshness(&self, status: StatusCode, updated: &HeaderMap, news: &HeaderMap) -> Result<Freshness, Why> {
        let mut all = updated.clone();
        // The age and date of the news, not of the first response.
        for name in [header::AGE, header::DATE] {
            all.remove(&name);
            if let Some(value) = news.get(&name) {
                all.insert(name, value.clone());
            }
        }
        let request = self.request;
        storable::storable(self.cx.rules, &request.method, &request.fields, status, &all, self.times)
    }

    fn stale(&self, lead: Lead, entry: &Entry, status: Option<StatusCode>) -> Reply {
        lead.settle(Verdict::StandIn(entry.clone()));
        let now = self.times.received;
        let outcome = Outcome::hit(Kind::StaleHit, Why::StaleIfError, entry.freshness().ttl(now));
        let outcome = status.map_or(outcome, |status| outcome.answered(status));
        let request = self.request;
        answer::from_entry(&request.method, &request.fields, entry.clone(), now, outcome)
            .unwrap_or_else(|| failure(StatusCode::BAD_GATEWAY, Why::OriginUnreachable))
    }

    /// Shares and stores the answer if that is allowed; else passes it to this client alone.
    async fn store(
        &self,
        mut lead: Lead,
        response: Response<Incoming>,
        place: Place,
        prefix: Option<Entry>,
    ) -> Reply {
        let (request, rules) = (self.request, self.cx.rules);
        let (parts, body) = response.into_parts();
        let (mut status, mut fields) = (parts.status, parts.headers);
        let idle = self.cx.plan.settings.timeouts.origin_idle;
        let download = Download::new(body, idle, Some(place));
        let mut length = download.length();
        let whole = prefix.as_ref().and_then(|_| ContentRange::of(&fields)?.complete());
        if let Some(entry) = &prefix {
            (status, fields) = (StatusCode::OK, revalidate::update(&entry.fields().to_map(), &fields));
            fields.remove(header::CONTENT_RANGE);
            length = whole;
        }
        let verdict =
            storable::storable(rules, &request.method, &request.fields, status, &fields, self.times);
        let mut signature = Vec::new();
        let verdict = verdict.and_then(|freshness| {
            vary::write(&fields, &request.fields, &mut signature)?;
            if varies_by_client(&fields) { Err(Why::VaryAny) } else { Ok(freshness) }
        });
        let outcome = Outcome::forwarded(Kind::Miss, self.why).answered(parts.status);
        let freshness = match verdict {
            Ok(freshness) => freshness,
            Err(why) => return self.pass(lead, status, fields, download, Outcome { why, ..outcome }),
        };
        let shared = &self.cx.worker.shared;
        shared.markers.clear(shared.memory.hash(&request.key));
        let stored = shared.memory.keep(&storable::storable_fields(rules, &fields), freshness.date);
        let head = Head { status, fields: stored, signature, freshness, length };
        let mut reader = lead.reader();
        if let Some(whole) = whole {
            reader.narrow(0, whole);
        }
        let stored = lead.stream(head.clone());
        let ttl = stored.then(|| freshness.ttl(self.times.received));
        let why = if stored { outcome.why } else { Why::TooLarge };
        let outcome = Outcome { stored, ttl, why, ..outcome };
        storable::remove_hop_by_hop(&mut fields);
        let expected = (status == StatusCode::PARTIAL_CONTENT).then(|| ContentRange::of(&fields)).flatten();
        let carrier = Carrier {
            lead,
            expected,
            whole,
            replaces: self.stored.cloned(),
            worker: Arc::clone(self.cx.worker),
        };
        tokio::spawn(carrier.carry(download, prefix));
        reply(request, &head, Source::Fields(fields.into()), reader, outcome)
    }

    fn pass(
        &self,
        lead: Lead,
        status: StatusCode,
        fields: HeaderMap,
        download: Download,
        outcome: Outcome,
    ) -> Reply {
        let shared = &self.cx.worker.shared;
        lead.settle(Verdict::Released);
        // What this client's own fields brought about says nothing of others.
        if is_by_request(outcome.why) || outcome.why == Why::StatusNotStorable {
            return upstream::pass_on(false, status, fields, download, outcome);
        }
        shared.markers.mark(shared.memory.hash(&self.request.key), self.times.received + MARK);
        // The origin's newer word on this URL is that nothing of it be kept.
        if self.stored.is_some() && !status.is_server_error() {
            shared.memory.remove(&self.request.key);
        }
        upstream::pass_on(false, status, fields, download, outcome)
    }
}

/// Whether a response is not stored because of how it was asked for.
fn is_by_request(why: Why) -> bool {
    matches!(why, Why::RequestNoStore | Why::Authorization)
}

/// Whether the response varies by what proxies tell of the client, which its own fields do not show.
fn varies_by_client(response: &HeaderMap) -> bool {
    let told = [&b"x-forwarded-for"[..], b"forwarded"];
    members(response, "vary").any(|name| told.iter().any(|told| name.eq_ignore_ascii_case(told)))
}

fn failed(
    cx: Context<'_>,
    request: &Request,
    lead: Lead,
    why: Why,
    stored: Option<&Entry>,
    error: OriginError,
) -> Reply {
    tracing::warn!("{}: {error}", request.url());
    let now = clock::now();
    let times = Times { requested: now, received: now };
    let fetched = Fetched { cx, request, why, times, stored };
    match stored.filter(|entry| fetched.may_stand_in(entry, Failure::Unreachable)) {
        Some(entry) => fetched.stale(lead, entry, None),
        None => {
            lead.settle(Verdict::Failed(error.status, error.why));
            failure(error.status, error.why)
        }
    }
}

/// The reply to `request` from a response on its way in.
pub(crate) fn reply(
    request: &Request,
    head: &Head,
    fields: Source,
    mut reader: Reader,
    outcome: Outcome,
) -> Reply {
    let lines = head.fields.view();
    let condition =
        revalidate::precondition(&request.method, &request.fields, head.status, &lines, &head.freshness);
    let mut reply = Reply { length: head.length, ..Reply::new(head.status, fields, outcome) };
    if matches!(reply.fields, Source::Fill(_)) && head.freshness.initial_age > 0 {
        reply.age = Some(head.freshness.age(clock::now()));
    }
    if condition == Precondition::NotModified {
        return Reply { status: StatusCode::NOT_MODIFIED, length: None, ..reply };
    }
    if let Some(part) = wanted_part(request, head) {
        reader.narrow(*part.range().start(), part.range().end() + 1);
        reply.status = StatusCode::PARTIAL_CONTENT;
        reply.length = Some(part.length());
        reply.content_range = Some(part);
    }
    reply.content = Content::Fill(reader.into());
    reply
}

/// The single range of a whole response on its way in that the client wants, if that can be told.
fn wanted_part(request: &Request, head: &Head) -> Option<ContentRange> {
    let complete = head.length.filter(|_| head.status == StatusCode::OK)?;
    let specs = request.fields.first("range").and_then(range::parse)?;
    if !range::if_range(&request.fields, &head.fields.view(), &head.freshness) {
        return None;
    }
    match range::resolve(&specs, complete) {
        range::Resolved::Satisfied(ranges) if ranges.len() == 1 => {
            ContentRange::new(ranges.into_iter().next()?, complete)
        }
        _ => None,
    }
}

/// Carries `download` into the fill of `lead`, and publishes it when it is whole.
pub(crate) fn carry(worker: &Arc<Worker>, lead: Lead, download: Download) {
    let carrier = Carrier { lead, expected: None, whole: None, replaces: None, worker: Arc::clone(worker) };
    tokio::spawn(carrier.carry(download, None));
}

/// Carries content into a fill.
struct Carrier {
    lead: Lead,
    /// For a part: which, so that its length can be checked.
    expected: Option<ContentRange>,
    /// For a part that completes another: how long both are together.
    whole: Option<u64>,
    /// The stored response that the new one supersedes.
    replaces: Option<Entry>,
    worker: Arc<Worker>,
}

impl Carrier {
    async fn carry(mut self, mut download: Download, prefix: Option<Entry>) {
        if let Some(prefix) = prefix
            && self.copy(prefix.body()).await.is_err()
        {
            return;
        }
        loop {
            let appended = match download.next().await {
                Ok(Some(Chunk::Data(data))) => self.lead.append(&data).await,
                // RFC 9111 section 3: trailers may be discarded when a response is stored.
                Ok(Some(Chunk::Trailers(_))) => continue,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!("content truncated: {error}");
                    return;
                }
            };
            if let Err(error) = appended {
                tracing::debug!("fetch given up: {error}");
                return;
            }
        }
        if self.whole.is_some_and(|whole| whole != self.lead.len()) {
            tracing::warn!("a partial response is not as long as its content-range says");
            return;
        }
        match self.expected {
            None => drop(self.lead.finish(self.replaces.as_ref())),
            Some(range) => self.publish_part(&range),
        }
    }

    async fn copy(&mut self, body: &Body) -> std::io::Result<()> {
        let mut at = 0;
        while at < body.len() {
            let piece = body.copy(at, 256 << 10)?;
            at += piece.len() as u64;
            self.lead.append(&piece).await?;
        }
        Ok(())
    }

    /// A part is worth less than the whole, and two parts that join are worth more than one.
    fn publish_part(self, range: &ContentRange) {
        if self.lead.len() != range.length() {
            tracing::warn!("a partial response is not as long as its content-range says");
            return;
        }
        let memory = &self.worker.shared.memory;
        let resident = memory.peek(self.lead.key(), memory.hash(self.lead.key()));
        let signature = self.lead.signature();
        let variants = resident.as_ref().map_or(&[][..], |resident| resident.variants());
        let held = variants.iter().find(|entry| Some(entry.signature()) == signature.as_deref()).cloned();
        let fresh = held.filter(|held| held.freshness().ttl(clock::now()) > 0);
        if fresh.as_ref().is_some_and(|held| held.status() == StatusCode::OK) {
            return self.lead.finish_unstored();
        }
        // Begun before the part is published, so that no purge comes between unseen.
        let joining = self.worker.shared.fills.alone(self.lead.key());
        let part = self.lead.finish(None);
        if let Some(joined) = part.zip(fresh).and_then(|(new, old)| combine::join(memory, &new, &old)) {
            joining.put(&joined, None);
        }
    }
}

/// Reads a reply that nobody waits for to its end.
pub(crate) async fn drain(reply: Reply) {
    match reply.content {
        Content::Fill(mut reader) => loop {
            match reader.next().await {
                Ok(Piece::End(Ending::Complete | Ending::Truncated)) | Err(_) => return,
                Ok(_) => reader.sent(),
            }
        },
        Content::Origin(mut download) => while let Ok(Some(_)) = download.next().await {},
        _ => {}
    }
}
