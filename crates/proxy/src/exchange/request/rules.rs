//! What rules say about a request and its responses.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use larder_packages::Resource;
use larder_semantics::fields::Fields;
use larder_semantics::revalidate;
use larder_store::Entry;

use super::Request;
use crate::base::clock;
use crate::base::settings::{Edits, Effects, Timeouts};
use crate::exchange::packages;
use crate::exchange::plan::Plan;
use crate::exchange::ruling::Ruling;
use crate::exchange::target::ruled_host;

impl Request {
    /// Returns the settings and rules for it and this response; `None` if they are its own: no rule needs responses.
    pub(crate) fn rule_response(
        &self,
        plan: &Plan,
        (status, length, fields): (StatusCode, Option<u64>, &impl Fields),
    ) -> Option<Arc<Ruling>> {
        let by_rules = self.rule_response_alone(plan, (status, length, fields));
        let ruling = by_rules.as_ref().unwrap_or(&self.ruling);
        let by_protocol = self.package(ruling).and_then(|resource| {
            let is_authorized = self.sent_fields().contains_key(AUTHORIZATION);
            let asked = (&*self.key, &resource, is_authorized);
            packages::ruled(&plan.packages, asked, ruling, (status, fields))
        });
        by_protocol.or(by_rules)
    }

    /// Whether it is a prefetch that may not be sent to an origin. For a prefetch from another node of the cluster, that
    /// node has already decided.
    pub(crate) fn is_for_cache_only(&self) -> bool {
        let is_safe = matches!(self.method, Method::GET | Method::HEAD);
        self.is_prefetch && is_safe && !self.by_peer && self.ruling.caching.declines_prefetches
    }

    /// Whether nothing but a stored response may answer it.
    pub(crate) fn is_for_stored_only(&self) -> bool {
        self.asked.only_if_cached || self.is_for_cache_only()
    }

    /// Returns what it names in a registry of packages, if a rule turns that on.
    pub(crate) fn package(&self, ruling: &Ruling) -> Option<Resource<'_>> {
        let protocols = ruling.packages.filter(|own| !own.is_empty())?;
        let is_read = matches!(self.method, Method::GET | Method::HEAD);
        self.path.split('?').next().filter(|_| is_read).and_then(|path| Resource::of(protocols, path))
    }

    /// [`rule_response`](Self::rule_response) without what follows from protocols of packages.
    fn rule_response_alone(
        &self,
        plan: &Plan,
        (status, length, fields): (StatusCode, Option<u64>, &impl Fields),
    ) -> Option<Arc<Ruling>> {
        let rulebook = self.route.rulebook(&plan.forward);
        if !rulebook.needs_responses() {
            return None;
        }
        let response = larder_rules::Response { status: status.as_u16(), length, fields };
        Some(self.judged(|request| rulebook.on_response(request, &response).share()))
    }

    /// Finds the rules that apply to it again, now that the [`claims`](Self::claims) of its token are known. Returns the
    /// settings before, if there are other ones now.
    pub(crate) fn rule_by_claims(&mut self, plan: &Plan) -> Option<Arc<Ruling>> {
        self.claims.as_ref()?;
        let rulebook = self.route.rulebook(&plan.forward);
        let ruling = self.judged(|request| rulebook.on_request(request).share());
        (ruling.numbers != self.ruling.numbers).then(|| std::mem::replace(&mut self.ruling, ruling))
    }

    /// Passes it to `judge` as its client sent it, in the form for rules.
    fn judged<T>(&self, judge: impl FnOnce(&larder_rules::Request<'_, HeaderMap>) -> T) -> T {
        self.judged_as(self.sent_path(), self.sent_fields(), judge)
    }

    /// Passes it to `judge` with this path and query and these fields, in the form for rules.
    pub(in crate::exchange) fn judged_as<T>(
        &self,
        path: &str,
        fields: &HeaderMap,
        judge: impl FnOnce(&larder_rules::Request<'_, HeaderMap>) -> T,
    ) -> T {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let request = larder_rules::Request {
            method: self.method.as_str(),
            scheme: self.scheme,
            host: ruled_host(&self.authority),
            path: &larder_rules::normal_path(path),
            query,
            client: self.client.ip(),
            certificate: self.certificate.as_deref(),
            claims: self.claims.as_deref(),
            now: clock::now,
            fields,
        };
        judge(&request)
    }

    /// Returns the changes of its response by `ruling`, with parts of the request in the places of placeholders.
    pub(crate) fn response_edits<'r>(&self, plan: &Plan, ruling: &'r Ruling) -> Cow<'r, Edits> {
        match ruling.response.has_placeholders {
            false => Cow::Borrowed(&ruling.response),
            true => {
                let rulebook = self.route.rulebook(&plan.forward);
                let parts = self.parts().as_members();
                Cow::Owned(
                    rulebook.fill(&ruling.numbers, &ruling.response, &parts, |effects| &effects.response),
                )
            }
        }
    }

    /// Returns the settings and rules that apply to it and the stored `entry`, updated with the `news` of a 304 or an
    /// answer to HEAD; `None` as in [`rule_response`](Self::rule_response).
    pub(crate) fn rule_update(&self, plan: &Plan, entry: &Entry, news: &HeaderMap) -> Option<Arc<Ruling>> {
        let updated = revalidate::update(&entry.fields().to_map(), news);
        self.rule_response(plan, (entry.status(), Some(entry.body().len()), &updated))
    }

    /// Returns the most bytes that its content may have.
    pub(crate) fn max_body(&self, plan: &Plan) -> u64 {
        self.ruling.max_body.unwrap_or(plan.settings.limits.body_bytes)
    }

    /// Returns the time limits for its client.
    pub(crate) fn timeouts<'p>(&self, plan: &'p Plan) -> Cow<'p, Timeouts> {
        let (own, Effects { stall, min_rate, tunnel, .. }) = (&plan.settings.timeouts, &**self.ruling);
        if stall.is_none() && min_rate.is_none() && tunnel.is_none() {
            return Cow::Borrowed(own);
        }
        Cow::Owned(Timeouts {
            stall: stall.unwrap_or(own.stall),
            min_rate: min_rate.unwrap_or(own.min_rate),
            tunnel: tunnel.unwrap_or(own.tunnel),
            ..own.clone()
        })
    }
}
