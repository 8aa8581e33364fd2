//! Selects the form of a stored response that a client gets: as the origin sent it, or in a content coding that it
//! accepts.
//!
//! The selection follows all other decisions, when the reply exists, and changes none of them: entity-tags of coded
//! forms are weak, so that conditions hold for all forms alike, and ranges are ranges of the uncoded content.

use std::sync::Arc;

use http::StatusCode;
use larder_semantics::coding::{AcceptedCodings, Coding, Compression};
use larder_semantics::fields::Fields;
use larder_store::{Body, Entry};

use crate::base::outcome::Tier;
use crate::cache::Cache;
use crate::exchange::negotiation::Negotiation;
use crate::exchange::pieces::Piece;
use crate::exchange::reply::{Content, Reply, Source};

/// Replaces the content of `reply` by the form that the client prefers among those that exist, and marks the reply as
/// negotiated. `accepted` has the codings that the client accepted before rules changed the request. Returns the coding
/// of the content if the client does not accept it and it may be decoded.
pub(crate) fn choose(
    cache: &Arc<Cache>,
    compression: &Compression,
    (request, accepted): (&impl Fields, &AcceptedCodings),
    reply: &mut Reply,
) -> Option<Coding> {
    let (entry, is_range) = match (&reply.fields, &reply.content) {
        (Source::Entry(entry), _) => (entry, reply.content_range.is_some()),
        (Source::NotModified(entry), _) => (entry, false),
        // Several ranges of one response.
        (_, Content::Pieces(pieces)) => (pieces.iter().find_map(Piece::entry)?, true),
        _ => return None,
    };
    let terms = entry.coding_terms();
    if let Some(own) = terms.undoable {
        return uncoded(own, &entry.clone(), accepted, reply);
    }
    let is_wanted = || terms.is_changeable && compression.selects(&entry.fields(), Some(entry.body().len()));
    if entry.coded().is_none() && !is_wanted() {
        return None;
    }
    // A response that is not in memory has no other form there.
    let is_resident = reply.outcome.tier == Tier::Memory
        && entry.body().record().is_none()
        && entry.body().slices().is_none();
    let coding = match is_range {
        true => None,
        false => form(is_resident.then_some(cache), compression, accepted, entry),
    };
    if let (Some(coding), Content::Stored(..)) = (coding, &reply.content) {
        reply.length = entry.coded().and_then(|coded| coded.form(coding)).map(Body::len);
        reply.content = Content::Coded(Some(coding));
        reply.outcome.coding = Some(coding);
    }
    // A client that has a coded form keeps its weak tag, even if this cache no longer has that form.
    let is_weak = matches!(reply.fields, Source::NotModified(_)) && shows_weak_tag(request);
    reply.negotiated = Negotiation::new(coding, terms.varies).weakened(is_weak);
    None
}

/// Marks the reply as negotiated between the origin's `coding` and the form of `entry` without it, which replaces the
/// content for a client that does not accept the coding. Returns the coding if that form has to be made first.
fn uncoded(coding: Coding, entry: &Entry, accepted: &AcceptedCodings, reply: &mut Reply) -> Option<Coding> {
    reply.negotiated = Negotiation::new(None, entry.coding_terms().varies);
    let form = match entry.coded() {
        _ if accepted.takes(coding) => return None,
        Some(coded) if coded.is_tried(None) => coded.form(None),
        _ if matches!(reply.fields, Source::NotModified(_)) => {
            reply.negotiated = reply.negotiated.undone();
            return None;
        }
        // A part cannot be decoded.
        _ if entry.status() == StatusCode::PARTIAL_CONTENT => return None,
        _ => return Some(coding),
    };
    match reply.fields {
        Source::NotModified(_) if form.is_some() => reply.negotiated = reply.negotiated.undone(),
        Source::Entry(_) => {
            if let Some(form) = form {
                replace(reply, Some(form.len()), Content::Coded(None));
            }
        }
        _ => {}
    }
    None
}

/// Replaces the content of `reply` by `content` without the coding of the origin. The client gets all of it, even if it
/// requested a range: it may have the beginning in another form.
pub(crate) fn replace(reply: &mut Reply, length: Option<u64>, content: Content) {
    (reply.status, reply.content_range) = (StatusCode::OK, None);
    (reply.length, reply.content) = (length, content);
    reply.negotiated = reply.negotiated.undone();
}

/// Returns the coding of the most preferred form that exists. If the client prefers a form that does not exist yet, the
/// compressor makes it in `cache` for later requests.
fn form(
    cache: Option<&Arc<Cache>>,
    compression: &Compression,
    accepted: &AcceptedCodings,
    entry: &Entry,
) -> Option<Coding> {
    let offered = || compression.codings.iter().copied();
    let is_made = |coding: &Coding| entry.coded().is_some_and(|coded| coded.form(*coding).is_some());
    let is_tried = |coding: &Coding| entry.coded().is_some_and(|coded| coded.is_tried(*coding));
    let best = accepted.best(offered().filter(|coding| is_made(coding) || !is_tried(coding)))?;
    if is_made(&best) {
        return Some(best);
    }
    if let Some(cache) = cache {
        cache.compressor.want(cache, entry, best);
    }
    accepted.best(offered().filter(is_made))
}

/// Whether a request is conditional on a weak entity-tag.
pub(super) fn shows_weak_tag(request: &impl Fields) -> bool {
    request.lines("if-none-match").any(|line| line.windows(2).any(|two| two == b"W/"))
}
