//! The client's certificate in requests: `Client-Cert` (RFC 9440). Clients cannot set that field: it always contains
//! the certificate that was verified.

use std::iter;

use http::{HeaderName, HeaderValue, header};
use larder_semantics::fields::{Fields, members};

use super::arrival::Requester;
use super::reply::{Reply, Source};
use super::request::Request;
use crate::base::settings::{CookieFilter, Edits, Role};
use crate::http::head::Lines;
use crate::http::names::{CLIENT_CERT, CLIENT_CERT_CHAIN};
use crate::net::tls::client_certificates::ClientIdentity;

/// Whether these fields of a request identify its client, so that the response may be for that client only.
pub(crate) fn names_client(fields: &impl Fields) -> bool {
    ["authorization", CLIENT_CERT].iter().any(|name| fields.contains(name))
}

/// Returns the fields by which a request of `asker` selects a stored response: those of its head, with `Client-Cert`
/// from the connection only, and with its id in the field called `id`.
#[inline]
pub(crate) fn selecting<'h>(
    lines: &'h Lines<'h>,
    asker: &Requester<'h>,
    id: Option<&'h HeaderName>,
) -> SelectingFields<'h> {
    let field = asker.identity.filter(|_| asker.role == Role::Reverse).and_then(ClientIdentity::field);
    let id = id.and_then(|name| Some((name.as_str(), &**asker.id?)));
    SelectingFields { lines, field, id, edits: None, drops_cookies: false }
}

/// The fields of a request that [`selecting`] returns.
#[derive(Clone, Copy)]
pub(crate) struct SelectingFields<'h> {
    lines: &'h Lines<'h>,
    field: Option<&'h HeaderValue>,
    /// The field with the id of the request, and that id.
    id: Option<(&'h str, &'h str)>,
    edits: Option<&'h Edits>,
    /// Whether the edits drop all cookies of the request.
    drops_cookies: bool,
}

impl<'h> SelectingFields<'h> {
    /// Adds `edits` to the fields; `None` if they need more than a check of each line.
    #[inline]
    pub(crate) fn edited(self, edits: &'h Edits) -> Option<Self> {
        if edits.is_empty() {
            return Some(self);
        }
        let drops_cookies =
            edits.cookies.as_ref().map_or(Some(false), |filter| self.drops_cookies(filter))?;
        Some(Self { edits: Some(edits), drops_cookies, ..self })
    }

    /// Whether `filter` drops all cookies; `None` if it drops some of them.
    fn drops_cookies(&self, filter: &CookieFilter) -> Option<bool> {
        let parts = self.lines.lines("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
        let (mut kept, mut dropped) = (false, false);
        for part in parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()) {
            let keeps = filter.keeps(part);
            kept |= keeps;
            dropped |= !keeps;
        }
        (!kept || !dropped).then_some(dropped)
    }
}

impl Fields for SelectingFields<'_> {
    #[inline]
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        let id = self.id.filter(|(own, _)| *own == name).map(|(_, id)| id.as_bytes());
        let is_ours = name == CLIENT_CERT || name == CLIENT_CERT_CHAIN || id.is_some();
        let is_dropped = self.drops_cookies && name == header::COOKIE.as_str();
        let is_replaced = is_dropped || self.edits.is_some_and(|edits| edits.replace(name));
        let mut lines = (!is_ours && !is_replaced).then(|| self.lines.lines(name));
        // Most requests have nothing but their lines.
        let has_more = self.edits.is_some() || self.field.is_some() || id.is_some();
        let mut more = has_more.then(|| {
            let certificate = self.field.filter(|_| name == CLIENT_CERT).map(HeaderValue::as_bytes);
            let field = certificate.or(id).filter(|_| !is_replaced);
            let default = self.edits.and_then(|edits| edits.default_of(name));
            let default = default.filter(|_| is_replaced || (id.is_none() && !self.lines.contains(name)));
            let written = self.edits.into_iter().flat_map(|edits| edits.written(name));
            field.into_iter().chain(default).chain(written)
        });
        iter::from_fn(move || lines.as_mut().and_then(Iterator::next).or_else(|| more.as_mut()?.next()))
    }

    // Most fields that are looked for are absent, which is found out without that iterator.
    #[inline]
    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        let is_id = self.id.is_some_and(|(own, _)| own == name);
        let has_more = self.edits.is_some() || self.field.is_some() || is_id;
        if has_more || self.lines.may_have(name) { self.lines(name).next() } else { None }
    }

    #[inline]
    fn contains(&self, name: &str) -> bool {
        self.first(name).is_some()
    }
}

impl Request {
    /// Adds the client's certificate to a request, on listeners that request certificates. Only origins of sites get
    /// it; origins of forward proxy requests do not.
    pub(super) fn add_certificate(&mut self, role: Role, identity: Option<&ClientIdentity>) {
        self.asked_for_certificate = identity.is_some();
        if let Some(field) = identity.filter(|_| role == Role::Reverse).and_then(ClientIdentity::field) {
            self.fields.insert(HeaderName::from_static(CLIENT_CERT), field.clone());
            self.forbids_guess = self.ruling.caching.forbids_guess(&self.fields);
        }
    }
}

/// Keeps a client from reusing a reply that depends on its certificate: the client's own requests do not have the field
/// that `Vary` names (RFC 9440 section 2.4).
pub(crate) fn keep_from_client_caches(reply: &mut Reply) {
    let varies = match &reply.fields {
        Source::Entry(entry) | Source::NotModified(entry) => varies(&entry.fields()),
        Source::Fill(head) => varies(&head.fields.view()),
        Source::Answer(lines) => varies(&**lines),
        Source::Fields(fields) => varies(&**fields),
    };
    if varies {
        reply.extra.get_or_insert_default().append(header::VARY, HeaderValue::from_static("*"));
    }
}

fn varies(fields: &impl Fields) -> bool {
    members(fields, "vary").any(|name| {
        [CLIENT_CERT, CLIENT_CERT_CHAIN].iter().any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()))
    })
}
