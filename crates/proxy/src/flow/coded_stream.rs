//! Compresses content of origins while it is sent: that of responses that are not stored, and the first reply of one that
//! is being stored.
//!
//! Clients that share a fetch get the content as it arrives: each of them would have it compressed for itself.

use std::mem;

use http::{Method, StatusCode, Version};
use larder_semantics::coding::{AcceptedCodings, Coding, Compression, is_streamable, undoable, varies};
use larder_semantics::fields::Fields;

use crate::base::outcome::Kind;
use crate::cache::compressor::Compressor;
use crate::exchange::encoded::ContentEncoder;
use crate::exchange::negotiation::Negotiation;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::flow::coded_forms::shows_weak_tag;
use crate::net::concurrency::Permit;

/// How the codings that clients accept matter to a response of an origin.
#[derive(Clone, Copy, Default)]
pub(crate) struct ArrivingResponse {
    pub(crate) negotiated: Negotiation,
    /// Whether its content may be compressed while it is sent.
    is_streamable: bool,
    /// Whether its `Vary` names `Accept-Encoding`.
    is_said: bool,
}

/// Marks `reply` as negotiated if clients may get its response in other codings, and compresses its content if its client
/// accepts that and few replies are being compressed.
pub(crate) fn choose(
    (plan, compressor): (&Plan, &Compressor),
    compression: &Compression,
    (request, accepted): (&Request, &AcceptedCodings),
    reply: &mut Reply,
) {
    let streams = plan.settings.limits.compressions > 0 && !matches!(reply.fields, Source::Fields(_));
    let ArrivingResponse { negotiated, is_streamable, is_said } = arriving(compression, streams, reply);
    reply.negotiated = negotiated;
    if streams && reply.status == StatusCode::NOT_MODIFIED && shows_weak_tag(&request.fields) {
        // The client has a coded form, whose tag is weak.
        reply.negotiated = Negotiation::new(None, is_said).weakened(true);
    }
    let is_whole = reply.status == StatusCode::OK && reply.content_range.is_none();
    if !is_streamable || !is_whole || request.version < Version::HTTP_11 || reply.length == Some(0) {
        return;
    }
    let Some(coding) = accepted.best(compression.codings.iter().copied()) else { return };
    match &reply.content {
        Content::Origin(_) => {}
        Content::Fill(_) if reply.outcome.kind != Kind::Coalesced => {}
        Content::None if request.method == Method::HEAD => return encode(reply, coding, None),
        _ => return,
    }
    let claim = plan.compressions.claim(request.route.number(), request.client.ip());
    let permit = plan.compressions.try_enter(claim);
    compressor.count_passing(permit.is_some());
    if let Some(permit) = permit {
        encode(reply, coding, Some(permit));
    }
}

/// Makes `reply` one in this coding; without a permit, one without content.
fn encode(reply: &mut Reply, coding: Coding, permit: Option<Permit>) {
    if let Some(permit) = permit {
        let Ok(encoder) = ContentEncoder::new(coding, permit) else { return };
        let content = mem::replace(&mut reply.content, Content::None);
        reply.content = Content::Encoded(Box::new(content), Box::new(encoder));
    }
    (reply.length, reply.outcome.coding) = (None, Some(coding));
    reply.negotiated = reply.negotiated.coded(coding);
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
    let is_said = varies(fields);
    match is_streamable || (stored && (compresses || undoable(status, fields).is_some())) {
        true => ArrivingResponse { negotiated: Negotiation::new(None, is_said), is_streamable, is_said },
        false => ArrivingResponse { is_said, ..ArrivingResponse::default() },
    }
}
