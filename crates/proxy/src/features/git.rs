//! Fetches by git over HTTP: a pack is stored under what its request asks for, and answers requests that ask for the same.
//!
//! Only requests of protocol version 2 that name objects are read. Their answers are shared among clients with the same
//! credentials, or without any, and stored if they are whole packs. Any other answer passes as it is.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, RANGE};
use http::{Method, StatusCode};
use larder_packages::digest::Algorithm;
use larder_packages::{Digest, PackCheck, Protocol, pack_request};
use larder_semantics::coding::Coding;
use larder_semantics::directives::ResponseDirectives;
use larder_semantics::fields::{Fields, members};
use larder_semantics::freshness::Freshness;
use larder_semantics::partition;
use larder_semantics::status::Why;

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::CountedRequests;
use crate::exchange::limits;
use crate::exchange::packages::FOREVER;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::context::Context;
use crate::flow::fill_task::FillTask;
use crate::flow::pass;
use crate::flow::serve;
use crate::flow::stored::{Mode, StoredVariants, find};
use crate::flow::upstream::{self, Answer};
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::net::byte_budget::Share;

/// The longest content of a request that is read, in bytes: that of a clone has some 50 for each branch.
const MOST: usize = 1 << 20;
/// The largest window for decoding it, as a power of two.
const WINDOW: u32 = 20;

const REQUEST: &[u8] = b"application/x-git-upload-pack-request";
const RESULT: &[u8] = b"application/x-git-upload-pack-result";

/// Returns the reply to a request for a pack; `None` if `request` is another one, which stays as it is.
pub(super) async fn pack(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request) -> Option<Reply> {
    if !may_ask(request) {
        return None;
    }
    let mut share = plan.packages.documents.share(request.client.ip());
    let content = gather(&mut request.content, &mut share).await?;
    let coding = request.fields.get(CONTENT_ENCODING).map(|value| value.as_bytes());
    let wanted = pack_request(&decoded(&content, coding)?)?;
    if let Err(reply) = serve::catch_up(worker, request).await {
        return Some(*reply);
    }
    let asked = lookup(worker, request, wanted);
    let began = worker.cache.fills.epoch_of(asked.hash);
    let held = StoredVariants::look(&worker.cache, &asked, Mode::Serve).await;
    if let (_, Some(reply)) = find(&asked, &held) {
        return Some(reply);
    }
    if request.asked.only_if_cached {
        return None;
    }
    if let Err(reply) = limits::enter(request, CountedRequests::Misses) {
        return Some(*reply);
    }
    let mut content = std::mem::take(&mut request.content);
    let answer = match upstream::send(worker, plan, request, &request.fields, &mut content, None).await {
        Ok(answer) => answer.for_client(plan, request),
        Err(error) => return Some(pass::failed(worker, request, &error)),
    };
    let Answer { status, fields, download, ruling, .. } = answer;
    let ruling = ruling.as_ref().unwrap_or(&request.ruling);
    let outcome = Outcome::forwarded(Kind::Miss, Why::Absent).answered(status);
    let directives = ResponseDirectives::parse(&*fields, &[]);
    let is_pack = status == StatusCode::OK
        && ruling.caching().is_some()
        && fields.first("content-type") == Some(RESULT)
        && !fields.contains("content-encoding")
        && !members(&*fields, "vary").any(is_of_client)
        && !(directives.private || directives.no_store)
        && !fields.contains("set-cookie");
    if !is_pack {
        return Some(upstream::pass_on(false, status, fields, download, outcome));
    }
    let cx = Context { worker, plan, rules: &ruling.caching };
    let writer = worker.cache.fills.alone(&asked.key, began);
    let fill = FillTask { pack: Some(PackCheck::default()), ..FillTask::new(worker, writer) };
    let now = clock::now();
    let freshness = Freshness { received: now, date: now, lifetime: FOREVER, ..Freshness::default() };
    let terms = (Vec::new(), freshness, request.origin.micros());
    Some(pass::store_post(cx, fill, (status, fields, download), terms, outcome))
}

/// Whether it may be a request for a pack, as far as its head tells.
fn may_ask(request: &Request) -> bool {
    let ruling = &request.ruling;
    let is = |name, value: &[u8]| request.fields.get(name).is_some_and(|own| own.as_bytes() == value);
    request.method == Method::POST
        && request.path.ends_with("/git-upload-pack")
        && ruling.packages.is_some_and(|protocols| protocols.has(Protocol::Git))
        && ruling.caching().is_some()
        && ruling.apart.is_empty()
        && ruling.inquiry(&request.fields).is_none()
        && !request.asked.no_store
        && !request.asked_for_certificate
        && is(CONTENT_TYPE.as_str(), REQUEST)
        && is("git-protocol", b"version=2")
        && ![COOKIE, RANGE].iter().any(|name| request.fields.contains_key(name))
}

/// Whether the field of this name may tell clients apart, other than by what is part of the key.
fn is_of_client(name: &[u8]) -> bool {
    !["accept-encoding", "authorization", "git-protocol"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Returns the whole content, which stays there as it arrived; `None` if it is too long, or has no end.
async fn gather(content: &mut Upload, share: &mut Share) -> Option<Vec<u8>> {
    let (mut whole, mut frames) = (Vec::new(), Vec::new());
    let is_whole = loop {
        let Some(frame) = poll_fn(|cx| content.poll_frame(cx)).await else { break true };
        let Ok(frame) = frame else { break false };
        let data = frame.data_ref().cloned().unwrap_or_default();
        frames.push(frame);
        if whole.len() + data.len() > MOST || !share.grow(data.len()) {
            break false;
        }
        whole.extend_from_slice(&data);
    };
    *content = std::mem::take(content).with_again(frames.into_iter());
    is_whole.then_some(whole)
}

fn decoded<'c>(content: &'c [u8], coding: Option<&[u8]>) -> Option<Cow<'c, [u8]>> {
    let Some(coding) = coding else { return Some(Cow::Borrowed(content)) };
    larder_coding::decode(Coding::named(coding)?, content, WINDOW, MOST as u64).map(Cow::Owned)
}

/// Returns the request by which the pack is looked up: its key has what is `wanted`, and the credentials of the client. No
/// request of a client has such a key.
fn lookup(worker: &Worker, request: &Request, mut wanted: Vec<u8>) -> Request {
    wanted.push(0);
    wanted.extend(request.fields.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes()));
    let digest = Digest::of(Algorithm::Sha256, &wanted).to_string();
    let key = partition::named(&request.key, digest.as_bytes());
    let mut asked = request.in_background_for(&key, worker.cache.store.memory.hash(&key));
    asked.fields.remove(AUTHORIZATION);
    asked
}
