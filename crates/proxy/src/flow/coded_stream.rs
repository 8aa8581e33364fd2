//! Changes the coding of origins' content while it is sent: that of responses that are not stored, and of those that are
//! being stored. It is compressed, or decompressed for clients that do not accept the coding of the origin.
//!
//! Clients that share a fetch get no content compressed: each of them would have it compressed for itself.

use std::mem;

use http::{Method, StatusCode, Version};
use larder_semantics::coding::{AcceptedCodings, Coding, Compression, is_streamable, undoable, varies};
use larder_semantics::fields::Fields;
use larder_store::Entry;

use crate::base::outcome::Kind;
use crate::cache::Cache;
use crate::exchange::encoded::ContentCoder;
use crate::exchange::negotiation::Negotiation;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::flow::coded_forms::shows_weak_tag;
use crate::flow::upstream::Answer;

/// How the codings that clients accept matter to a response of an origin.
#[derive(Clone, Copy, Default)]
pub(crate) struct ArrivingResponse {
    pub(crate) negotiated: Negotiation,
    /// Whether its content may be compressed while it is sent.
    is_streamable: bool,
    /// The coding of the origin, if content may be sent without it.
    undoable: Option<Coding>,
    /// Whether its `Vary` names `Accept-Encoding`.
    is_said: bool,
}

/// Marks `reply` as negotiated if clients may get its response in other codings. Decodes its content if its client does
/// not accept the coding of the origin; otherwise, compresses it if its client accepts that and few replies are being
/// compressed.
pub(crate) fn choose(
    (plan, cache): (&Plan, &Cache),
    compression: &Compression,
    (request, accepted): (&Request, &AcceptedCodings),
    reply: &mut Reply,
) {
    let streams = plan.settings.limits.compressions > 0 && !matches!(reply.fields, Source::Fields(_));
    let ArrivingResponse { negotiated, is_streamable, undoable, is_said } =
        arriving(compression, streams, reply);
    reply.negotiated = negotiated;
    if streams && reply.status == StatusCode::NOT_MODIFIED && shows_weak_tag(&request.fields) {
        // The client has a coded form, whose tag is weak.
        reply.negotiated = Negotiation::new(None, is_said).weakened(true);
    }
    let is_whole = reply.status == StatusCode::OK && reply.content_range.is_none();
    if !is_whole || reply.length == Some(0) {
        return;
    }
    let is_head = request.method == Method::HEAD && matches!(reply.content, Content::None);
    let is_fill = matches!(reply.content, Content::Fill(_));
    let arrives = is_fill || matches!(reply.content, Content::Origin(_));
    if let Some(own) = undoable.filter(|own| !accepted.takes(*own)) {
        let decoder = if arrives { cache.decoder.passing(own, request.client.ip()) } else { None };
        if is_head || decoder.map(|decoder| pass_through(reply, decoder)).is_some() {
            (reply.length, reply.negotiated) = (None, reply.negotiated.undone());
        }
        return;
    }
    let may_compress = is_head || arrives && !(is_fill && reply.outcome.kind == Kind::Coalesced);
    if !is_streamable || !may_compress || request.version < Version::HTTP_11 {
        return;
    }
    let Some(coding) = accepted.best(compression.codings.iter().copied()) else { return };
    if !is_head {
        let claim = plan.compressions.claim(request.route.number(), request.client.ip());
        let permit = plan.compressions.try_enter(claim);
        cache.compressor.count_passing(permit.is_some());
        let encoder = permit.and_then(|permit| ContentCoder::encoder(coding, permit).ok());
        let Some(encoder) = encoder else { return };
        pass_through(reply, encoder);
    }
    (reply.length, reply.outcome.coding) = (None, Some(coding));
    reply.negotiated = reply.negotiated.coded(coding);
}

/// Has the content of `reply` sent through `coder`.
fn pass_through(reply: &mut Reply, coder: ContentCoder) {
    let content = mem::replace(&mut reply.content, Content::None);
    reply.content = Content::Encoded(Box::new(content), Box::new(coder));
}

/// Whether `request` gets a response with these fields without the coding of the origin.
pub(super) fn is_undone(request: &Request, status: StatusCode, fields: &impl Fields) -> bool {
    let accepted = request.accepted.as_ref().filter(|_| !request.by_peer);
    request.ruling.caching.compression.is_on()
        && undoable(status, fields).is_some_and(|own| accepted.is_some_and(|accepted| !accepted.takes(own)))
}

/// [`is_undone`] for a stored response, whole or a part.
pub(super) fn undoes(request: &Request, entry: &Entry) -> bool {
    is_undone(request, entry.status(), &entry.fields())
}

/// Whether `answer` is a part of coded content of which the client gets the whole
/// without its coding: it may have the beginning in that form.
pub(super) fn is_part_of_undone(request: &Request, answer: &Answer) -> bool {
    answer.status == StatusCode::PARTIAL_CONTENT
        && request.method == Method::GET
        && is_undone(request, answer.status, &*answer.fields)
}

/// Returns how codings matter to the response of which `reply` is made; `streams`: whether content is compressed while it
/// is sent.
pub(crate) fn arriving(compression: &Compression, streams: bool, reply: &Reply) -> ArrivingResponse {
    // The status of the whole response: a condition or a range of this client does not matter to other clients.
    let is_part = reply.status == StatusCode::PARTIAL_CONTENT;
    let status =
        if is_part || reply.status == StatusCode::NOT_MODIFIED { StatusCode::OK } else { reply.status };
    let about = (status, reply.length.filter(|_| !is_part));
    let (streams, stored) = (streams && !is_part, reply.outcome.may_be_stored());
    match &reply.fields {
        Source::Fill(head) => {
            noted(compression, (head.status, head.length), &head.fields.view(), (streams, true))
        }
        Source::Answer(lines) => noted(compression, about, &**lines, (streams, stored)),
        Source::Fields(fields) => noted(compression, about, &**fields, (streams, stored)),
        Source::Entry(_) | Source::NotModified(_) => ArrivingResponse::default(),
    }
}

fn noted(
    compression: &Compression,
    (status, length): (StatusCode, Option<u64>),
    fields: &impl Fields,
    (streams, stored): (bool, bool),
) -> ArrivingResponse {
    let compresses = compression.applies(status, fields, length);
    let is_streamable = compresses && streams && is_streamable(fields);
    let (undoable, is_said) = (undoable(status, fields), varies(fields));
    match is_streamable || undoable.is_some() || (stored && compresses) {
        true => {
            let negotiated = Negotiation::new(None, is_said);
            ArrivingResponse { negotiated, is_streamable, undoable, is_said }
        }
        false => ArrivingResponse { is_said, ..ArrivingResponse::default() },
    }
}
