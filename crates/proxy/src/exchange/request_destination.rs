//! The destination of a request of a site: the origins, the path and the `Host`.

use std::borrow::Cow;

use larder_rules::is_ambiguous;

use super::placeholders;
use super::request::Request;
use super::route::{Route, SiteState};
use crate::base::settings::{HostHeader, Origin};
use crate::origin::Pool;

/// The destination that a site and its rules choose for a request.
#[derive(Debug)]
pub(crate) struct RequestDestination<'s> {
    pub(crate) site: &'s SiteState,
    pub(crate) pool: &'s Pool,
    host: &'s HostHeader,
    /// The path that a rule has written, if one has.
    path: Option<String>,
}

pub(crate) fn of<'s>(site: &'s SiteState, request: &Request) -> RequestDestination<'s> {
    let mut chosen = RequestDestination { site, pool: &site.pool, host: &site.settings.host, path: None };
    if site.upstreams.is_empty() || !request.path.starts_with('/') {
        return chosen;
    }
    let mut rewrite = None;
    request.judged_as(&request.path, &request.fields, |seen| {
        for branch in site.upstreams.on(seen) {
            chosen.pool = branch.pool.as_ref().unwrap_or(chosen.pool);
            chosen.host = branch.host.as_ref().unwrap_or(chosen.host);
            rewrite = branch.rewrite.as_ref().map(|template| (template, &branch.conditions)).or(rewrite);
        }
    });
    chosen.path = rewrite.map(|(template, rule)| {
        let mut path = placeholders::fill_url(template, &request.parts(), Some(rule));
        if !template.is_about_query() {
            path.push_str(&request.path[request.path.find('?').unwrap_or(request.path.len())..]);
        }
        path
    });
    chosen
}

/// Returns the destination of `request` if it is for a site.
pub(crate) fn of_request(request: &Request) -> Option<RequestDestination<'_>> {
    match &request.route {
        Route::Site(site) => Some(of(site, request)),
        Route::Anywhere => None,
    }
}

impl RequestDestination<'_> {
    /// Returns the path and query of the request to `origin`.
    pub(crate) fn path_at<'p>(&'p self, origin: &Origin, request: &'p Request) -> Cow<'p, str> {
        match &self.path {
            Some(path) => Cow::Borrowed(path),
            None => self.site.path_at(origin, &request.path),
        }
    }

    pub(crate) fn host_at<'h>(&'h self, origin: &'h Origin, request: &'h Request) -> &'h str {
        match self.host {
            // It is signed, and may name the bucket.
            _ if origin.bucket.is_some() => origin.host(),
            HostHeader::Preserve if !request.authority.is_empty() => &request.authority,
            HostHeader::Preserve | HostHeader::Origin => origin.host(),
            HostHeader::Set(host) => host,
        }
    }

    /// Whether parts of the client's request lead out of the path that a rule has written.
    pub(crate) fn leads_out(&self) -> bool {
        self.path.as_ref().is_some_and(|path| is_ambiguous(path.split('?').next().unwrap_or_default()))
    }
}
