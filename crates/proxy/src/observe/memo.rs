//! The data of a request that is kept until its response is sent, and the result. The access log, the live log and the
//! statistics are written from it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use http::{Method, Version};
use larder_semantics::fields::Fields;

use crate::base::networks::host_of;
use crate::base::outcome::Outcome;
use crate::base::settings::{AccessLog, Door, Role};
use crate::counts::span::Trace;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::route::{FORWARD, SiteNumber, first_segment};
use crate::exchange::target::Address;
use crate::http::head::{RequestHead, Target};
use crate::net::tls::client_certificates::ClientIdentity;

/// The target of a request that could not be parsed.
const UNREAD: &str = "-";

/// The data of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestRecord {
    pub(super) client: SocketAddr,
    /// The client's identity on listeners that request certificates.
    pub(super) identity: Option<Arc<ClientIdentity>>,
    /// The id of the request, if requests have ids.
    pub(crate) id: Option<Arc<str>>,
    /// The user whose password or token a rule has accepted.
    pub(super) user: Option<Arc<str>>,
    pub(super) method: Method,
    /// The URL from the client, without its query string if that is not stored; `-` if it is unknown.
    pub(super) target: String,
    /// The site of the request, if there is one.
    pub(super) site: Option<Arc<str>>,
    /// The RPC listener of the request, if it did not arrive by HTTP.
    pub(super) door: Option<Door>,
    /// The version of HTTP, if the request arrived by HTTP and could be parsed.
    pub(crate) version: Option<Version>,
    pub(super) visit: Visit,
    /// The arrival of the request.
    pub(super) begun: Instant,
    /// The span of the request, if requests are traced.
    pub(crate) trace: Option<Arc<Trace>>,
}

/// Data for some formats of the access log; empty for the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    pub(super) referer: Option<String>,
    pub(super) agent: Option<String>,
    /// The media type of the response.
    pub(super) content_type: Option<String>,
    /// The bytes of a response in slices that were not stored.
    pub(super) fetched: Option<Arc<AtomicU64>>,
    /// The origin that has answered.
    pub(super) origin: Option<Box<str>>,
}

impl Visit {
    fn of(plan: &Plan, head: &RequestHead<'_>) -> Self {
        if !matches!(plan.settings.access_log, AccessLog::Combined | AccessLog::Json) {
            return Self::default();
        }
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let field = |name| head.fields.first(name).map(text);
        Self {
            referer: field("referer").map(|referer| plan.settings.statistics.query.kept(&referer).to_owned()),
            agent: field("user-agent"),
            content_type: None,
            fetched: None,
            origin: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestResult {
    pub(crate) status: u16,
    pub(crate) site: SiteNumber,
    /// The hash of its key in the memory tier; 0 for calls, and for requests that could not be read.
    pub(crate) hash: u64,
    pub(crate) outcome: Outcome,
    /// Seconds since the response was generated or validated, if it was stored.
    pub(crate) age: Option<u32>,
    /// Bytes sent.
    pub(crate) bytes: u64,
    /// Bytes saved by compressing the content here.
    pub(crate) saved: Option<u64>,
}

impl RequestResult {
    /// Returns the result of a request with `reply`, of which `bytes` bytes were sent.
    #[inline]
    pub(crate) fn by(reply: &Reply, bytes: u64) -> Self {
        let Reply { site, hash, outcome, age, .. } = *reply;
        // A response to HEAD has a length, but no content.
        let sent = reply.length.filter(|length| outcome.coding.is_some() && *length <= bytes);
        let saved = match (&reply.fields, sent) {
            (Source::Entry(entry), Some(sent)) => Some(entry.body().len().saturating_sub(sent)),
            _ => None,
        };
        Self { status: reply.status.as_u16(), site, hash, outcome, age, bytes, saved }
    }
}

impl RequestRecord {
    /// Creates the data of a request that was read at `begun`.
    pub(crate) fn begin(
        plan: &Plan,
        role: Role,
        head: &RequestHead<'_>,
        (client, identity): (SocketAddr, Option<&Arc<ClientIdentity>>),
        begun: Instant,
    ) -> Self {
        let kept = |path| plan.settings.statistics.query.kept(path);
        let target = match head.target {
            Target::Origin { host, path } => ["http://", host, kept(path)].concat(),
            Target::Absolute { scheme, authority, path } => [scheme, "://", authority, kept(path)].concat(),
            Target::Authority(authority) => authority.to_owned(),
            Target::Asterisk { host } => ["http://", host, " *"].concat(),
        };
        Self {
            identity: identity.cloned(),
            site: site(plan, role, head),
            version: Some(head.version),
            visit: Visit::of(plan, head),
            ..Self::of(client, head.method.clone(), target, begun)
        }
    }

    /// Creates the data of a request that could not be parsed.
    pub(crate) fn unread(client: SocketAddr) -> Self {
        // `-` is a token, so it is a valid method.
        let method = Method::from_bytes(b"-").unwrap_or_default();
        Self::of(client, method, UNREAD.to_owned(), Instant::now())
    }

    /// Creates the data of a call for `url` through `door`.
    pub(crate) fn of_call(plan: &Plan, door: Door, url: &str, client: SocketAddr) -> Self {
        let target = plan.settings.statistics.query.kept(url).escape_debug().to_string();
        let site = plan.sites.name(Role::Forward, "", "");
        Self { site, door: Some(door), ..Self::of(client, Method::GET, target, Instant::now()) }
    }

    fn of(client: SocketAddr, method: Method, target: String, begun: Instant) -> Self {
        Self {
            client,
            identity: None,
            id: None,
            user: None,
            method,
            target,
            site: None,
            door: None,
            version: None,
            visit: Visit::default(),
            begun,
            trace: None,
        }
    }

    /// Begins to count the bytes of a response in slices that were not stored, if the access log has them.
    pub(crate) fn count_fetched(&mut self, plan: &Plan) -> Option<Arc<AtomicU64>> {
        self.visit.fetched = (plan.settings.access_log == AccessLog::Json).then(Arc::default);
        self.visit.fetched.clone()
    }

    /// Adds the data of the response for the logs.
    pub(crate) fn answered(&mut self, plan: &Plan, reply: &Reply) {
        self.user.clone_from(&reply.user);
        if plan.settings.access_log == AccessLog::Squid {
            self.visit.content_type = reply.field("content-type");
        }
        if plan.settings.access_log == AccessLog::Json {
            self.visit.origin.clone_from(&reply.origin);
        }
    }

    /// Returns the user, or else the subject of the client's certificate.
    pub(super) fn user_or_subject(&self) -> Option<&str> {
        self.user.as_deref().or_else(|| self.subject())
    }

    /// Returns the subject of the client's certificate.
    pub(super) fn subject(&self) -> Option<&str> {
        self.identity.as_ref()?.subject()
    }

    /// Whether the request could be parsed.
    pub(super) fn is_read(&self) -> bool {
        self.target != UNREAD
    }

    /// Whether the request is one of the forward proxy.
    pub(super) fn is_forward(&self) -> bool {
        self.site.as_deref() == Some(FORWARD)
    }

    /// Returns the host in the URL, without a port.
    pub(super) fn host(&self) -> &str {
        let rest = self.target.split_once("://").map_or(&*self.target, |(_, rest)| rest);
        host_of(rest.split(['/', '?', ' ']).next().unwrap_or_default())
    }

    /// Returns the time since the arrival.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the stored part of the URL; `-` if it is unknown.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the first segment of the path.
    pub(super) fn route(&self) -> &str {
        let rest = self.target.split_once("://").map_or("", |(_, rest)| rest);
        rest.find(['/', '?']).map_or("", |at| first_segment(&rest[at..]))
    }
}

/// Returns the name of the request's site in statistics, if it has one.
pub(super) fn site(plan: &Plan, role: Role, head: &RequestHead<'_>) -> Option<Arc<str>> {
    let address = Address::of(head.target, role).ok()?;
    plan.sites.name(role, address.authority, address.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_the_first_segment_of_the_path() {
        for (target, route) in [
            ("http://a/", ""),
            ("http://a", ""),
            ("http://a?b/c", ""),
            ("http://a/b", "b"),
            ("http://a/b/c?d", "b"),
            ("http://a/b?c/d", "b"),
            ("http://a//b", ""),
            ("https://[::1]:8/\u{e4}/", "\u{e4}"),
            ("a:443", ""),
            ("http://a *", ""),
            ("-", ""),
        ] {
            let memo = RequestRecord {
                target: target.to_owned(),
                ..RequestRecord::unread(([127, 0, 0, 1], 1).into())
            };
            assert_eq!(memo.route(), route, "{target}");
        }
    }
}
