//! Requests that the cache does not answer: unsafe methods, upgrades, tunnels, and requests that a proxy answers
//! itself. Some of them change stored responses: by invalidation (RFC 9111 section 4.4), by the head of an answer to
//! HEAD (section 4.3.5), or, if the config allows it, by a POST whose answer declares itself the representation of the
//! target.

use std::future::pending;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::reuse::Failure;
use larder_semantics::revalidate::{self, Head as Revealed};
use larder_semantics::status::Why;
use larder_semantics::storable::{self, Times};
use larder_semantics::{groups, invalidate, key};
use larder_store::Entry;
use larder_store::fill::{Epoch, FillWriter, Head};

use crate::base::clock;
use crate::base::networks::host_of;
use crate::base::outcome::{Kind, Outcome};
use crate::base::path_prefix::spellings;
use crate::cache::doubt::Doubt;
use crate::cluster::publish;
use crate::exchange::passes;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, METHODS, Reply, Source, Tunnel};
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::flow::change::Change;
use crate::flow::context::{Context, failure, refused};
use crate::flow::decide::{may_stand_in, port, port_of};
use crate::flow::fill_task::{self, FillTask};
use crate::flow::follow::left;
use crate::flow::storage_terms::{self, Update, is_by_request};
use crate::flow::stored::Lookup;
use crate::flow::upstream::{self, Answer};
use crate::flow::worker::Worker;
use crate::flow::{answer, coded_stream, conditions, intercept};
use crate::http::body::Upload;
use crate::http::names::CLIENT_CERT;
use crate::http::response::Lines;
use crate::origin::{Download, OriginError};

/// The most cache groups that one answer may invalidate. An answer that names more invalidates all responses of its
/// origin that have groups.
const MOST_GROUPS: usize = 128;

/// Returns the reply to an `OPTIONS` or `TRACE` for this proxy (RFC 9110 section 7.6.2).
pub(crate) fn answer_ourselves(plan: &Plan, request: &Request) -> Reply {
    let outcome = Outcome::forwarded(Kind::Pass, Why::Method);
    if request.method == Method::TRACE {
        return trace(plan, request, outcome);
    }
    let fields = HeaderMap::from_iter([(header::ALLOW, METHODS)]);
    Reply { length: Some(0), ..Reply::new(StatusCode::NO_CONTENT, Source::Fields(fields.into()), outcome) }
}

/// Returns the request as it arrived, without fields that may hold secrets (RFC 9110 section 9.3.8).
fn trace(plan: &Plan, request: &Request, outcome: Outcome) -> Reply {
    let mut seen =
        format!("TRACE {} HTTP/1.1\r\nVia: 1.1 {}\r\n", request.url(), plan.settings.name).into_bytes();
    for (name, value) in &request.fields {
        let secret = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION].contains(name)
            || name.as_str() == CLIENT_CERT;
        if !secret {
            seen.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("message/http"));
    let mut reply = Reply::text(StatusCode::OK, String::new(), outcome);
    reply.fields = Source::Fields(fields.into());
    reply.length = Some(seen.len() as u64);
    reply.content = Content::Bytes(Bytes::from(seen));
    reply
}

/// Forwards a request and its answer, and invalidates stored responses as RFC 9111 requires.
pub(crate) async fn through(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &mut Request,
    why: Why,
) -> Reply {
    if request.method == Method::CONNECT {
        return connect(worker, plan, request).await;
    }
    count_down_forwards(&mut request.fields);
    let mut content = std::mem::take(&mut request.content);
    // Only a response that may be stored needs the check for purges in between.
    let rules = request.ruling.caching();
    let rules = rules.filter(|rules| request.method == Method::POST && rules.stores_posts);
    let epoch = || worker.cache.fills.epoch_of(request.hash);
    let before = rules.map(|rules| (rules, epoch(), Doubt::about(&worker.cache, &request.key)));
    let change = Change::of(&worker.shared, request);
    let answered = useful_answer(worker, plan, request, &mut content, change.as_ref()).await;
    let Answer { status, fields, download, requested, ruling, .. } = match answered {
        Some(Ok(answer)) => answer.for_client(plan, request),
        Some(Err(error)) => {
            if let Some(change) = change {
                change.failed(&error).end().await;
            }
            return failed(worker, request, &error);
        }
        None => return left(),
    };
    let is_over = match change {
        Some(change) => change.answered(request, status, &*fields).end().await,
        None => true,
    };
    let times = Times { requested, received: clock::now(), ..Times::default() };
    let outcome = Outcome::forwarded(Kind::Pass, why).answered(status);
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return upgraded(&fields, download, outcome);
    }
    let (mut moment, mut position) = (None, None);
    if invalidate::is_unsafe(&request.method) {
        let _telling = publish::telling(worker.shared.cluster.as_deref());
        let mut spoiled = invalidate(worker, request, status, &*fields);
        // The invalidation by this request does not apply to its own answer; any other one does.
        let is_left = |began| !worker.cache.fills.is_cancelled_by_others(request.hash, began, &spoiled);
        let left = before.as_ref().map(|(_, began, _)| *began).filter(|began| is_left(*began));
        let left = left.map(|began| (epoch(), began));
        let mut groups = groups(request, &fields);
        groups.extend(worker.cache.store.purges.partitions_of(&spoiled));
        if request.ruling.caching().is_none() {
            spoiled.clear();
        }
        // From here on other nodes are notified even if the client leaves.
        let purges = [(Effect::Remove, &*spoiled), (Effect::Invalid, &*groups)];
        let untold = publish::untold(worker.shared.cluster.as_ref(), &purges);
        let own = (&*request, &*fields, left.map(|(_, began)| began));
        let began = invalidate_groups(worker, &groups, own).await;
        moment = left.map(|(now, before)| now.of_fetch(began.unwrap_or(before)));
        worker.cache.twin.agree().await;
        position = untold.tell().await;
        worker.shared.observers.couplings.answered(plan, request, status);
    }
    if let Some((rules, _, doubt)) = before
        && let Some(began) = moment
        && is_over
    {
        let answer = Answer { status, fields, download, by_peer: false, requested, ruling };
        let cx = Context { worker, plan, rules };
        return posted(cx, request, answer, (times, doubt, began), outcome).at(position);
    }
    upstream::pass_on(request.method == Method::HEAD, status, fields, download, outcome).at(position)
}

/// Returns the origin's answer; about the whole, if it is a part of coded content that the client gets without its coding.
async fn useful_answer(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &Request,
    content: &mut Upload,
    change: Option<&Change>,
) -> Option<Result<Answer, OriginError>> {
    let answered = origin_answer(worker, plan, request, (&request.fields, content), change).await;
    match &answered {
        Some(Ok(answer))
            if coded_stream::is_part_of_undone(request, answer) && matches!(content, Upload::Empty) =>
        {
            let mut fields = request.fields.clone();
            fields.remove(header::RANGE);
            fields.remove(header::IF_RANGE);
            origin_answer(worker, plan, request, (&fields, content), None).await
        }
        _ => answered,
    }
}

/// Returns the origin's answer; `None` if the client has left before, and the answer has no other use. If a try of a
/// change gets no answer and another try follows, the doubt begins at once.
async fn origin_answer(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &Request,
    (fields, content): (&HeaderMap, &mut Upload),
    change: Option<&Change>,
) -> Option<Result<Answer, OriginError>> {
    let sent = pin!(upstream::send(worker, plan, request, fields, content, None));
    let lost = || change.into_iter().for_each(Change::begin);
    let noticed = pin!(request.noticing_lost_try(sent, lost));
    request.unless_left(noticed, no_use(request)).await
}

/// Ends at once if only the client needs the answer. Never ends for an unsafe request, whose answer tells which
/// stored responses are no longer valid.
async fn no_use(request: &Request) {
    if invalidate::is_unsafe(&request.method) {
        pending().await
    }
}

pub(crate) fn failed(worker: &Worker, request: &Request, error: &OriginError) -> Reply {
    warn(worker, request, error);
    failure(error.status, error.why)
}

/// Logs why there is no answer. Equal failures are logged once, with their number.
pub(crate) fn warn(worker: &Worker, request: &Request, error: &OriginError) {
    let whole = || format!("{} {}: {error}", request.method, request.logged_url());
    worker.shared.observers.repeats.warn(&error.to_string(), whole);
}

fn count_down_forwards(fields: &mut HeaderMap) {
    let hops = fields.get(header::MAX_FORWARDS).and_then(|hops| hops.to_str().ok()?.parse::<u32>().ok());
    if let Some(left) = hops.and_then(|hops| hops.checked_sub(1)) {
        fields.insert(header::MAX_FORWARDS, HeaderValue::from(left));
    }
}

/// Invalidates the responses that an unsafe request has changed: requires their validation if validators tell old
/// content from new, and removes them otherwise. Fetches of them in flight are not stored. Returns the invalidated
/// URLs.
fn invalidate(worker: &Worker, request: &Request, status: StatusCode, fields: &impl Fields) -> Vec<Scope> {
    let asked = (&request.method, &request.fields);
    let targets = invalidate::targets(request.target(), asked, status, fields);
    let spelled = targets.iter().flat_map(|target| spelled(target));
    let urls = spelled.map(|target| Scope::Url(request.key_of(&target))).collect();
    let urls = worker.cache.fills.with_equivalents(urls);
    let may_stay = |stored: &Entry| {
        let date = stored.freshness().date;
        invalidate::may_be_validated(&request.method, stored.status(), &stored.fields(), date)
    };
    for url in &urls {
        if let Scope::Url(key) = url {
            worker.cache.fills.spoil(key, may_stay);
        }
    }
    urls
}

/// Returns `target` in the usual [`spellings`] of its path and query.
fn spelled(target: &[u8]) -> Vec<Vec<u8>> {
    let path = key::parse(target).and_then(|(_, _, path)| str::from_utf8(path).ok()).unwrap_or_default();
    let origin = &target[..target.len() - path.len()];
    let mut all = vec![target.to_vec()];
    all.extend(spellings(path).into_iter().map(|path| [origin, path.as_bytes()].concat()));
    all
}

/// Returns the cache groups that the answer to an unsafe request invalidates.
fn groups(request: &Request, fields: &Lines) -> Vec<Scope> {
    let groups = groups::invalidated(&request.method, fields);
    let Some(origin) = key::origin(request.target()).filter(|_| !groups.is_empty()) else {
        return Vec::new();
    };
    match groups.len() {
        0..=MOST_GROUPS => {
            let group = |name| Scope::Group { origin: origin.to_vec(), name };
            groups.into_iter().map(group).collect()
        }
        _ => vec![Scope::Origin(origin.to_vec())],
    }
}

/// Puts the invalidation of these groups in force, before the client gets the answer. If the answer may be stored, whose
/// request `began` then, returns its epoch: among what the purge removes would be the answer itself.
async fn invalidate_groups(
    worker: &Worker,
    groups: &[Scope],
    (request, fields, began): (&Request, &Lines, Option<Epoch>),
) -> Option<Epoch> {
    if groups.is_empty() {
        return None;
    }
    let (fills, ordered) = (Arc::clone(&worker.cache.fills), groups.to_vec());
    let own = began.map(|began| (began, request.key.clone(), fields.clone()));
    let order = move || match own {
        Some((began, key, fields)) => {
            let own = (began, &*key, &fields);
            Some(fills.order_beside(&ordered, Effect::Invalid, clock::now(), own))
        }
        None => {
            fills.order(&ordered, Effect::Invalid, clock::now());
            None
        }
    };
    worker.cache.on_a_thread(order).await.flatten()
}

/// Returns the reply to a POST, and stores the answer for later GETs if that is allowed (RFC 9110 section 9.3.3).
fn posted(
    cx: Context<'_>,
    request: &Request,
    answer: Answer,
    (times, doubt, began): (Times, Doubt, Epoch),
    outcome: Outcome,
) -> Reply {
    let Answer { status, fields, download, ruling, .. } = answer;
    let ruling = ruling.as_ref().unwrap_or(&request.ruling);
    let cx = Context { rules: &ruling.caching, ..cx };
    let verdict =
        storable::storable_post(cx.rules, request.target(), &request.fields, status, &*fields, times);
    let (Ok(freshness), Ok(signature)) = (verdict, storage_terms::signature(request, &*fields, &[])) else {
        return upstream::pass_on(false, status, fields, download, outcome);
    };
    let freshness = doubt.temper(freshness, &*fields);
    let fill = FillTask::new(cx.worker, cx.worker.cache.fills.alone(&request.key, began));
    let cost = request.origin.micros();
    store_post(cx, fill, (status, fields, download), (signature, freshness, cost), outcome)
}

/// Returns the reply with an answer to a POST that `fill` stores.
pub(crate) fn store_post(
    cx: Context<'_>,
    mut fill: FillTask,
    (status, fields, download): (StatusCode, Box<Lines>, Box<Download>),
    (signature, freshness, cost): (Vec<u8>, Freshness, u32),
    outcome: Outcome,
) -> Reply {
    let kept = storage_terms::stored_lines(&cx.worker.cache.store.memory, cx.rules, &fields, freshness.date);
    let length = download.length();
    let head = Head { status, fields: kept, signature, freshness, cost, length };
    let reader = fill.writer.reader();
    let is_expected = fill.writer.stream(head);
    fill.start(download, None);
    let outcome = Outcome { stored: fill_task::is_stored(cx.plan, &reader, is_expected), ..outcome };
    let reply = Reply::new(status, Source::Answer(fields), outcome);
    Reply { length, content: Content::Fill(reader.into()), ..reply }
}

/// Forwards a HEAD that no stored response answers, after `lookup` in the tiers.
pub(crate) async fn head(cx: Context<'_>, request: &Request, why: Why, lookup: Lookup) -> Reply {
    let began = lookup.epoch;
    let stored = lookup.left(&cx.worker.cache.fills, request);
    let doubt = Doubt::about(&cx.worker.cache, &request.key);
    let mut nothing = Upload::Empty;
    let sent = pin!(upstream::send(cx.worker, cx.plan, request, &request.fields, &mut nothing, None));
    let answer = match request.unless_left(sent, no_use(request)).await {
        None => return left(),
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            warn(cx.worker, request, &error);
            let failed = || failure(error.status, error.why);
            return stand_in(cx, request, stored.as_ref(), error.outage()).unwrap_or_else(failed);
        }
    };
    let by_answer = Context { rules: &answer.ruling.as_ref().unwrap_or(&request.ruling).caching, ..cx };
    if let Some(reply) = stand_in(by_answer, request, stored.as_ref(), Failure::Status(answer.status)) {
        return reply;
    }
    let history = cx.worker.cache.histories.of(request.hash);
    let (requested, received, by_age) = (answer.requested, clock::now(), answer.by_peer);
    let times = Times { requested, received, by_age, history };
    if let Some(stored) = stored.filter(|entry| *entry.key() == *request.key) {
        let mut writer = cx.worker.cache.fills.alone(&request.key, began);
        writer.asks_origin(!answer.by_peer);
        learn(cx, &writer, request, &stored, (answer.status, &answer.written()), (times, doubt));
    }
    let Answer { status, fields, download, .. } = answer.for_client(cx.plan, request);
    let outcome = Outcome::forwarded(Kind::Miss, why).answered(status);
    conditions::pass_on(request, status, fields, download, outcome)
}

/// Returns the reply from a stored response in place of an origin that fails, if that is allowed (RFC 5861 section 4, RFC
/// 9111 section 4.2.4).
fn stand_in(cx: Context<'_>, request: &Request, stored: Option<&Entry>, failure: Failure) -> Option<Reply> {
    let (entry, now) = (stored?, clock::now());
    if !may_stand_in(cx.rules, request, entry, failure, now) {
        return None;
    }
    let outcome = Outcome::hit(Kind::StaleHit, Why::StaleIfError, request.freshness(entry).ttl(now));
    let outcome = match failure {
        Failure::Status(status) => outcome.answered(status),
        Failure::Unreachable => outcome,
    };
    answer::to(request, entry.clone(), now, outcome)
}

/// Freshens or removes a stored response according to the answer to a HEAD (RFC 9111 section 4.3.5).
fn learn(
    cx: Context<'_>,
    writer: &FillWriter,
    request: &Request,
    stored: &Entry,
    (status, fields): (StatusCode, &HeaderMap),
    (times, doubt): (Times, Doubt),
) {
    let tells_variants = || revalidate::tells_variants(stored.signature(), &stored.fields(), status, fields);
    match revalidate::head(&stored.fields(), stored.body().len(), status, fields) {
        Revealed::Unrelated => {}
        // A response that was purged, or that a change has invalidated, needs more proof than the lack of a difference:
        // the same strong entity-tag.
        Revealed::Update
            if stored.freshness().is_taken_back()
                && !revalidate::has_same_strong_tag(&stored.fields(), fields) => {}
        Revealed::Update if stored.status().is_success() && tells_variants() => {
            let by_update = request.rule_update(cx.plan, stored, fields);
            let ruling = by_update.as_ref().unwrap_or(&request.ruling);
            let update = Update::of((&ruling.caching, request), stored, fields, (times, &doubt));
            match update.entry(&cx.worker.cache.store.memory, writer.born()) {
                Ok(entry) => {
                    writer.put(&entry, Some(stored));
                    cx.worker.cache.store.forget_far(stored.key(), stored.signature());
                }
                Err(why) if is_by_request(why) => {}
                Err(_) => cx.remove(&request.key),
            }
        }
        Revealed::Stale | Revealed::Update => cx.remove(&request.key),
    }
}

/// Returns the reply with which the origin switches protocols (RFC 9110 section 7.8).
fn upgraded(answer: &Lines, download: Box<Download>, outcome: Outcome) -> Reply {
    let mut fields = answer.to_map();
    let protocol = fields.get(header::UPGRADE).cloned();
    storable::remove_hop_by_hop(&mut fields);
    fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        fields.insert(header::UPGRADE, protocol);
    }
    match download.into_upgraded() {
        Some(upgraded) => {
            let content = Content::Tunnel(Tunnel::Upgraded(upgraded));
            tunnel(StatusCode::SWITCHING_PROTOCOLS, fields, content, outcome)
        }
        None => failure(StatusCode::BAD_GATEWAY, Why::OriginMalformed),
    }
}

/// Returns the refusal of a request for a port that clients may not reach.
pub(crate) fn port_refusal(plan: &Plan, request: &Request) -> Reply {
    let show = |range: &RangeInclusive<u16>| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}-{}", range.start(), range.end()),
    };
    let ports: Vec<_> = plan.settings.forward.ports.iter().map(show).collect();
    let port = port(request);
    let text = format!("403: port {port} is not allowed; forward.ports: {}\n", ports.join(", "));
    let outcome = Outcome::forwarded(Kind::Refused, Why::OriginForbidden);
    Reply::text(StatusCode::FORBIDDEN, text, outcome)
}

/// Opens a tunnel to a host and port that the client names (RFC 9110 section 9.3.6).
async fn connect(worker: &Worker, plan: &Plan, request: &Request) -> Reply {
    let host = host_of(&request.authority);
    let port = port_of(&request.authority).parse::<u16>().unwrap_or(0);
    if !matches!(request.route, Route::Anywhere) || !plan.settings.forward.connect_ports.contains(&port) {
        let ports: Vec<_> = plan.settings.forward.connect_ports.iter().map(ToString::to_string).collect();
        let why = format!("tunnels to port {port} are not allowed; connect_ports: {}", ports.join(", "));
        let whole = || format!("CONNECT {}: {why}", request.authority);
        worker.shared.observers.repeats.warn(&why, whole);
        let outcome = Outcome::forwarded(Kind::Refused, Why::OriginForbidden);
        return Reply::text(StatusCode::FORBIDDEN, format!("403: {why}\n"), outcome);
    }
    let outcome = |why| Outcome::forwarded(Kind::Pass, why);
    let mut why = Why::Method;
    if let Some(interceptor) = worker.shared.interceptor.get() {
        match Box::pin(intercept::open(interceptor, worker, plan, request)).await {
            Ok(tunnel) => return opened(tunnel, outcome(Why::Intercepted)),
            Err(reason) => why = reason,
        }
    }
    if request.asked.only_if_cached {
        return refused(Why::OnlyIfCached);
    }
    let begun = Instant::now();
    let via = passes::via_line(plan, request);
    let connected = worker.clients(plan).tunnel.tunnel(host, port, (Some(request.client.ip()), &via)).await;
    request.origin.add(begun.elapsed());
    match connected {
        Ok(stream) => opened(Tunnel::Tcp(stream), outcome(why)),
        Err(error) => failed(worker, request, &OriginError::from(error)),
    }
}

/// Returns the reply that begins a tunnel.
fn opened(through: Tunnel, outcome: Outcome) -> Reply {
    tunnel(StatusCode::OK, HeaderMap::new(), Content::Tunnel(through), outcome)
}

fn tunnel(status: StatusCode, fields: HeaderMap, content: Content, outcome: Outcome) -> Reply {
    let fields = Source::Fields(fields.into());
    Reply { content, ..Reply::new(status, fields, outcome) }
}
