//! The origins that a request may reach, and their state.

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::Method;
use larder_semantics::reuse::Failure;
use larder_semantics::storable::Rules;
use larder_store::Entry;

use super::Run;
use crate::base::clock;
use crate::base::networks::host_of;
use crate::exchange::request_destination;
use crate::exchange::route::Route;
use crate::flow::decide::{is_port_forbidden, may_stand_in};
use crate::flow::stored::StoredVariants;
use crate::net::guard;
use crate::origin::Turn;

impl Run<'_> {
    /// Whether the URL names an address or a port that clients of the forward proxy must not reach. The address of a
    /// name is known only when the name is resolved.
    pub(super) fn is_forbidden(&self) -> bool {
        if is_port_forbidden(self.plan, &self.request) {
            return true;
        }
        let host = host_of(&self.request.authority).trim_matches(['[', ']']);
        matches!(self.request.route, Route::Anywhere)
            && !self.plan.settings.forward.allow_private
            && host.parse::<IpAddr>().is_ok_and(|address| !guard::is_public(address))
    }

    pub(super) fn origins(&self) -> Vec<String> {
        let all = request_destination::of_request(&self.request)
            .map(|chosen| chosen.pool.all().map(|turn| turn.origin().to_string()).collect());
        all.unwrap_or_else(|| vec![format!("{}://{}", self.request.scheme, self.request.authority)])
    }

    /// Returns the origins of a site that did not answer when they were last asked.
    pub(super) fn failing(&self) -> Vec<String> {
        let all =
            request_destination::of_request(&self.request).into_iter().flat_map(|chosen| chosen.pool.all());
        all.filter(Turn::is_failing).map(|turn| turn.origin().to_string()).collect()
    }

    /// Returns why origins get no requests at the moment.
    pub(super) fn troubles(&self) -> BTreeMap<String, String> {
        let chosen = request_destination::of_request(&self.request);
        let all = chosen.into_iter().flat_map(|chosen| chosen.pool.all());
        all.filter_map(|turn| Some((turn.origin().to_string(), turn.trouble()?))).collect()
    }

    /// Whether no origin is likely to answer, and a stored response may be used then.
    pub(super) fn may_fail_over(&self, held: &StoredVariants, rules: &Rules) -> bool {
        let Some(chosen) = request_destination::of_request(&self.request) else { return false };
        let stands_in =
            |entry: &Entry| may_stand_in(rules, &self.request, entry, Failure::Unreachable, clock::now());
        matches!(self.request.method, Method::GET | Method::HEAD)
            && chosen.pool.all().all(|turn| turn.is_failing())
            && held.entry.as_ref().is_some_and(stands_in)
    }
}
