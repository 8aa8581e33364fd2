//! Early hints (RFC 8297): a client whose request is sent to the origin gets a 103 with the links of the stored
//! response at once.
//!
//! The links come from a shareable response that was evicted or has to be validated. A client gets hints only if no
//! condition of `is_hinted` and `gives_hints` forbids them.

use http::{StatusCode, Version, header};
use larder_semantics::early_hints::{self, EarlyHints};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Flags;
use larder_store::Entry;

use crate::base::clock;
use crate::base::settings::Edits;
use crate::exchange::client_cert;
use crate::exchange::link::Interim;
use crate::exchange::request::Request;
use crate::flow::context::Context;
use crate::http::response::Lines;

/// How long after its receipt or validation a response gives hints, in seconds. Later, its links may lead to removed
/// resources.
const LONGEST: u32 = 86_400;

/// Sends the links of the response to `request` that is stored, or was stored until its eviction, if the client gets
/// hints. `stored` is the response to be validated, if there is one.
pub(crate) fn send(cx: Context<'_>, request: &Request, stored: Option<&Entry>) {
    let Some(link) = request.link.as_ref().filter(|_| is_hinted(cx, request)) else { return };
    let (store, own) = (&cx.worker.cache.store, stored.filter(|entry| *entry.key() == *request.key));
    let Some(entry) = own.cloned().or_else(|| store.hint(&request.key, request.hash)) else { return };
    if !gives_hints(&entry, request) {
        return;
    }
    let (response, mut fields) = (entry.fields(), Lines::default());
    fields.rebuild(|_, _| true, early_hints::links(&response).map(|link| ("link", link)));
    if fields.contains("link") {
        link.forward(Interim { status: StatusCode::EARLY_HINTS, fields });
        cx.worker.cache.count_hint();
    }
}

/// Whether the client of `request` gets hints.
fn is_hinted(cx: Context<'_>, request: &Request) -> bool {
    let speaks = match cx.rules.early_hints {
        EarlyHints::Http2 => request.version >= Version::HTTP_2,
        EarlyHints::Always => request.version >= Version::HTTP_11,
        EarlyHints::Off => false,
    };
    speaks
        && !request.by_peer
        && !request.is_prefetch
        // This node knows all purges that it must know.
        && request.awaited.is_none()
        && cx.worker.shared.may_serve_stored()
        && !request.fields.contains("authorization")
        && !client_cert::names_client(&request.fields)
        && !request.fields.contains("range")
        // Browsers use hints only when they load a page, and most mark such requests.
        && request.fields.first("sec-fetch-mode").is_none_or(|mode| mode.eq_ignore_ascii_case(b"navigate"))
        && !changes_links(&request.ruling.reply)
}

/// Whether `entry` may give hints to this client now.
fn gives_hints(entry: &Entry, request: &Request) -> bool {
    let (freshness, now) = (entry.freshness(), clock::now());
    let is_guess = request.forbids_guess && freshness.flags.contains(Flags::HEURISTIC);
    !is_guess
        && !freshness.is_taken_back()
        && now.saturating_sub(freshness.received) <= LONGEST
        && early_hints::may_hint(entry.status(), entry.signature())
}

/// Whether the edits of a rule change the links that clients get.
fn changes_links(edits: &Edits) -> bool {
    let Edits { remove, set, default, add, .. } = edits;
    let changed = set.iter().chain(default).chain(add).map(|(name, _)| name);
    remove.iter().chain(changed).any(|name| *name == header::LINK)
}
