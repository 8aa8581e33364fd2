//! The last steps of a reply, whether the cache, an origin or this proxy has answered: the form in which its client gets
//! it, changes and error pages by rules, and the rule about client certificates.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Method, StatusCode, Version};
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_semantics::fields::Fields;
use larder_semantics::storable::Rules;
use larder_store::{Body, Entry};

use crate::base::outcome::Outcome;
use crate::base::settings::Edits;
use crate::cache::Cache;
use crate::cache::decoder::{self, DecodedContent};
use crate::exchange::placeholders::{FieldValues, Parts};
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::SiteNumber;
use crate::exchange::rulebook::Rulebook;
use crate::exchange::ruling::{ReplyEdits, Ruling};
use crate::exchange::{client_cert, paced, pages};
use crate::flow::worker::Worker;
use crate::flow::{coded_forms, coded_stream};

/// The request that a reply is for, as far as the last steps depend on it.
pub(crate) struct Destination<'r> {
    /// The number of the worker that answers it.
    pub(crate) worker: usize,
    pub(crate) site: SiteNumber,
    pub(crate) key: &'r [u8],
    /// The hash of its key in the memory tier.
    pub(crate) hash: u64,
    pub(crate) client: IpAddr,
    /// The id of the request, if requests have ids.
    pub(crate) id: Option<&'r Arc<str>>,
    pub(crate) rulebook: &'r Rulebook,
    pub(crate) ruling: &'r Ruling,
    pub(crate) method: &'r Method,
    /// The fields that its client sent.
    pub(crate) sent: &'r dyn FieldValues,
    /// Whether it is a prefetch of the client.
    pub(crate) is_prefetch: bool,
    /// Whether another node of the cluster forwards it. That node applies the rules to the reply.
    pub(crate) by_peer: bool,
    /// Whether its client was asked for a certificate.
    pub(crate) asked_for_certificate: bool,
}

impl<'r> Destination<'r> {
    /// Returns the destination of a reply to `request` by this worker.
    pub(crate) fn of(worker: usize, plan: &'r Plan, request: &'r Request) -> Self {
        Self {
            worker,
            site: request.route.number(),
            key: &request.key,
            hash: request.hash,
            client: request.client.ip(),
            id: request.id.as_ref(),
            rulebook: request.route.rulebook(&plan.forward),
            ruling: &request.ruling,
            method: &request.method,
            sent: request.sent_fields(),
            is_prefetch: request.is_prefetch,
            by_peer: request.by_peer,
            asked_for_certificate: request.asked_for_certificate,
        }
    }
}

impl Destination<'_> {
    /// Returns `edits` with the parts of the request in the places of placeholders.
    #[cold]
    fn fill(&self, edits: &Edits, outcome: &Outcome, origin: Option<&str>) -> Edits {
        let parts = Parts::new(self.key, self.client, self.id.map(|id| &**id), self.sent);
        let parts = parts.with_outcome(outcome, origin);
        self.rulebook.fill(&self.ruling.numbers, edits, &parts, |effects| &effects.reply)
    }
}

/// Takes the last steps of `reply`, whose form has been chosen, and counts it for the rules that apply.
#[inline]
pub(crate) fn finish(to: &Destination<'_>, reply: &mut Reply) {
    reply.site = to.site;
    reply.hash = to.hash;
    reply.outcome.is_prefetch = to.is_prefetch;
    if to.asked_for_certificate {
        client_cert::keep_from_client_caches(reply);
    }
    if to.by_peer {
        return reply.for_node();
    }
    reply.outcome.logged_from =
        to.ruling.log.as_ref().and_then(|own| own.from(reply.status, reply.outcome.kind));
    to.rulebook.counts().count(to.worker, &to.ruling.numbers, &reply.outcome);
    reply.edits = to.ruling.reply_edits(to.worker).map(|edits| match edits.0.has_placeholders {
        true => Arc::new(ReplyEdits(to.fill(&edits.0, &reply.outcome, reply.origin.as_deref()))),
        false => Arc::clone(edits),
    });
    reply.bandwidth = to.ruling.bandwidth.map(|bandwidth| paced::schedule(bandwidth, to.site, to.client));
    pages::replace(to.ruling, to.method, reply);
}

/// [`finish`] for a hit that is answered at once. `selecting` are the fields by which the request selects its response,
/// `sent` those that its client sent. Returns false if the reply cannot be sent: its form has to be made first, or an
/// error page replaces it, which would hide the stored response from the validator.
#[inline]
pub(crate) fn finish_at_once(
    cache: &Arc<Cache>,
    to: &Destination<'_>,
    (selecting, sent): (&impl Fields, &impl Fields),
    reply: &mut Reply,
) -> bool {
    if !to.by_peer {
        let compression = &to.ruling.caching.compression;
        if compression.is_on()
            && coded_forms::choose(cache, compression, (selecting, &AcceptedCodings::of(sent)), reply)
                .is_some()
        {
            return false;
        }
        if to.ruling.pages.as_ref().is_some_and(|pages| pages.of(reply.status).is_some()) {
            return false;
        }
    }
    finish(to, reply);
    true
}

/// Chooses the form of a reply that took some waiting, also by rules on the response, and without a coding for the few
/// clients that do not accept the coding of the origin. Another node that requests a response compresses it itself.
pub(crate) async fn negotiate(worker: &Arc<Worker>, plan: &Plan, request: &Request, reply: &mut Reply) {
    let Some(accepted) = request.accepted.as_ref().filter(|_| !request.by_peer) else { return };
    let by_response = request.route.rulebook(&plan.forward).compresses_by_response();
    let ruling = by_response.then(|| ruling(plan, request, reply)).flatten();
    let Rules { compression, .. } = &ruling.as_ref().unwrap_or(&request.ruling).caching;
    if !compression.is_on() {
        return;
    }
    let is_stored = matches!(reply.fields, Source::Entry(_) | Source::NotModified(_))
        || matches!(reply.content, Content::Pieces(_));
    if !is_stored {
        coded_stream::choose((plan, &worker.cache), compression, (request, accepted), reply);
    } else if let Some(coding) =
        coded_forms::choose(&worker.cache, compression, (&request.fields, accepted), reply)
        && let (Source::Entry(entry), Content::Stored(..)) = (&reply.fields, &reply.content)
    {
        let entry = entry.clone();
        Box::pin(undo(worker, coding, entry, request, reply)).await;
    }
}

/// Removes the announcement of trailers that do not reach a client of this version: those of content that is also stored, and
/// those for which HTTP/1 has no place.
pub(crate) fn announce_trailers(version: Version, reply: &mut Reply) {
    let content = if let Content::Encoded(content, _) = &reply.content { content } else { &reply.content };
    let has_place = version >= Version::HTTP_2 || version == Version::HTTP_11 && reply.length.is_none();
    if let Source::Answer(lines) = &mut reply.fields
        && !(has_place && matches!(content, Content::Origin(_)))
        && lines.contains("trailer")
    {
        lines.remove("trailer");
    }
}

/// Returns the ruling on the request and on the response of which `reply` is made; `None` if it is that of the request.
fn ruling(plan: &Plan, request: &Request, reply: &Reply) -> Option<Arc<Ruling>> {
    match &reply.fields {
        Source::Entry(entry) | Source::NotModified(entry) => {
            let about = (entry.status(), Some(entry.body().len()), &entry.fields());
            request.rule_response(plan, about)
        }
        Source::Fill(head) => request.rule_response(plan, (head.status, head.length, &head.fields.view())),
        Source::Answer(lines) => request.rule_response(plan, (reply.status, reply.length, &**lines)),
        Source::Fields(fields) if reply.status == StatusCode::OK => {
            request.rule_response(plan, (reply.status, reply.length, &**fields))
        }
        Source::Fields(_) => None,
    }
}

/// Replaces the content of the reply with the decoded content of `entry`, if that is possible.
async fn undo(worker: &Arc<Worker>, coding: Coding, entry: Entry, request: &Request, reply: &mut Reply) {
    if request.method == Method::HEAD {
        (reply.length, reply.content) = (None, Content::None);
        reply.negotiated = reply.negotiated.undone();
        return;
    }
    match decoder::decoded(&worker.cache, entry, coding, request.client.ip()).await {
        Some(DecodedContent::Stored(entry)) => {
            let length = entry.coded().and_then(|coded| coded.form(None)).map(Body::len);
            reply.fields = Source::Entry(entry);
            coded_forms::replace(reply, length, Content::Coded(None));
        }
        Some(DecodedContent::Loose(bytes)) => {
            coded_forms::replace(reply, Some(bytes.len() as u64), Content::Bytes(bytes));
        }
        None => {}
    }
}
