//! Dispatches each request to the code that answers it: this proxy itself, a feature, or the flow.

use std::sync::Arc;

use http::{Method, header};
use larder_semantics::status::Why;
use larder_tags::Pools;

use super::{
    auth_request, challenge, credentials, departure, etag_gateway, jwt, packages, purge_method, redirect,
    rules, validator,
};
use crate::base::settings::CountedRequests;
use crate::exchange::limits;
use crate::exchange::passes;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::exchange::ruling::Ruling;
use crate::flow::decide::{self, Decision};
use crate::flow::finish::{self, Destination};
use crate::flow::worker::Worker;
use crate::flow::{pass, prefetch, serve};

/// Returns the reply to a request, in a box, since futures move it often.
pub(crate) async fn serve(worker: &Arc<Worker>, plan: &Arc<Plan>, mut request: Box<Request>) -> Box<Reply> {
    let asked = prefetch::asked_by(worker, &request);
    let mut reply = answer(worker, plan, &mut request).await;
    if let Some(asked) = asked {
        asked.answered(worker, &reply);
    }
    reply.outcome.origin_time = request.origin.sum();
    reply.origin = request.origin.take_name();
    reply.entered = request.entered.take();
    reply.user = request.user.take();
    if let Some(cookie) = request.session.as_mut().and_then(|session| session.take()) {
        reply.extra.get_or_insert_default().append(header::SET_COOKIE, cookie);
    }
    finish::negotiate(worker, plan, &request, &mut reply).await;
    finish::announce_trailers(request.version, &mut reply);
    if reply.outcome.is_stored() && worker.sampler.picks(plan.settings.validate.sample) {
        validator::check(worker, plan, &request, &reply);
    }
    finish::finish(&Destination::of(worker.number, plan, &request), &mut reply);
    let failures = &worker.shared.observers.failures;
    failures.note(&reply.outcome, reply.status, || request.logged_url());
    reply
}

async fn answer(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request) -> Box<Reply> {
    if request.by_peer && request.method == Method::PUT {
        return Box::pin(departure::take(worker, plan, request)).await.into();
    }
    // The rules do not apply to a certificate authority: they cannot know its addresses.
    if let Some(reply) = challenge::answer(worker, request) {
        return reply.into();
    }
    let mut own = match admit(plan, request, None) {
        Ok(own) => own,
        Err(reply) => return reply,
    };
    if request.ruling.wanted.is_some() && own != Some(Decision::Own(Why::OnlyHttps)) {
        match Box::pin(credentials::check(request)).await {
            Ok(user) => {
                credentials::tell(request, user.as_deref());
                request.user = user;
            }
            Err(reply) => return reply,
        }
    }
    let is_told = request.ruling.user_field.is_some();
    let is_checked = is_told || request.inquiry.is_some() || request.token.is_some();
    if is_checked && own != Some(Decision::Own(Why::OnlyHttps)) {
        if let Err(reply) = Box::pin(jwt::check(worker, plan, request)).await {
            return reply;
        }
        if let Err(reply) = Box::pin(auth_request::check(worker, plan, request)).await {
            return reply;
        }
        // Rules may store responses apart by what the check has added.
        request.settle_key(&worker.cache.store.memory);
        if let Some(before) = request.rule_by_claims(plan) {
            own = match admit(plan, request, Some(&before)) {
                Ok(own) => own,
                Err(reply) => return reply,
            };
        }
    }
    if let Some(site) = purge_method::site(request) {
        return Box::pin(purge_method::answer(worker, plan, site, request)).await.into();
    }
    if let Some(reply) = own.and_then(|own| own_reply(plan, worker.shared.https_port(), request, own)) {
        return reply.into();
    }
    // This precedes a wait for a fetch that waits for this request.
    if let Err(error) = passes::refuse_loop(plan, request) {
        return pass::failed(worker, request, &error).into();
    }
    match request.route.tags().cloned() {
        // In a box: otherwise the state of all other requests would be larger.
        Some(pools) => Box::pin(gateway(worker, plan, &pools, request)).await.into(),
        None if request.ruling.packages.is_some() => {
            Box::pin(packages::serve(worker, plan, request)).await.into()
        }
        None => serve::flow(worker, plan, request).await,
    }
}

/// Returns this proxy's own decision on `request`, if it is admitted: its client, and by limits other than those of its
/// settings `before`. The credentials are checked afterwards, which takes time. Errors: the reply to a request that is
/// not admitted.
fn admit(plan: &Plan, request: &Request, before: Option<&Ruling>) -> Result<Option<Decision>, Box<Reply>> {
    let own = decide::own(plan, request, || false);
    if own == Some(Decision::Refuse(Why::AccessDenied)) {
        return Err(Box::new(rules::refusal(request)));
    }
    if before.is_none_or(|before| !Arc::ptr_eq(&before.limits, &request.ruling.limits)) {
        limits::enter(request, CountedRequests::All)?;
    }
    Ok(own)
}

async fn gateway(worker: &Arc<Worker>, plan: &Arc<Plan>, pools: &Arc<Pools>, request: &mut Request) -> Reply {
    match serve::catch_up(worker, request).await {
        Ok(()) => etag_gateway::serve(worker, plan, pools, request).await,
        Err(reply) => *reply,
    }
}

/// Returns the reply that [`serve()`] gives to `request` if it needs neither the cache nor an origin. It is for
/// explanations, as it verifies passwords in this thread. It applies no limits, and purges nothing. `https` is the
/// port where clients get TLS.
pub(crate) fn dry_run(plan: &Plan, https: Option<u16>, request: &Request) -> Option<Reply> {
    let own = decide::own(plan, request, || credentials::lacks(request))?;
    own_reply(plan, https, request, own)
}

/// Returns the reply of this proxy itself that carries out `own`, the decision on `request`.
fn own_reply(plan: &Plan, https: Option<u16>, request: &Request, own: Decision) -> Option<Reply> {
    match own.why() {
        Why::AccessDenied => Some(rules::refusal(request)),
        Why::OnlyHttps => redirect::to_https(https, request),
        Why::Unauthorized => Some(*credentials::refusal(request)),
        Why::OriginForbidden => Some(pass::port_refusal(plan, request)),
        Why::ByRule => rules::answer(plan, request),
        _ if request.is_purge() => purge_method::dry_run(plan, request),
        _ => Some(pass::answer_ourselves(plan, request)),
    }
}
