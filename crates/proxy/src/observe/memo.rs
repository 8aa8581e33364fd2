//! What is remembered of a request until its answer has left, and how that ended. The access log, the
//! live log and the statistics are written from it.

use std::net::SocketAddr;
use std::sync::Arc;
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
use crate::http::head::{Head, Target};
use crate::net::tls::client_certificates::ClientIdentity;

/// The target of what could not be read.
const UNREAD: &str = "-";

/// What is remembered of a request.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    pub(super) client: SocketAddr,
    /// What the client has shown where certificates are asked for.
    pub(super) identity: Option<Arc<ClientIdentity>>,
    /// The user whose password or token it has shown to rules.
    pub(super) user: Option<Arc<str>>,
    pub(super) method: Method,
    /// The URL, as the client wrote it, without its query string where those are dropped; `-` if it cannot be told.
    pub(super) target: String,
    /// The site that it is for, if any is.
    pub(super) site: Option<Arc<str>>,
    /// The door it came through, if not by HTTP.
    pub(super) door: Option<Door>,
    /// The version of HTTP, if it came by HTTP and could be read.
    pub(crate) version: Option<Version>,
    pub(super) visit: Visit,
    /// When it came.
    pub(super) begun: Instant,
    /// Its span, while requests are traced.
    pub(crate) trace: Option<Arc<Trace>>,
}

/// What only some forms of the access log want to know. It stays empty for the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    pub(super) referer: Option<String>,
    pub(super) agent: Option<String>,
    /// The answer's.
    pub(super) content_type: Option<String>,
}

impl Visit {
    fn of(plan: &Plan, head: &Head<'_>) -> Self {
        if !matches!(plan.settings.access_log, AccessLog::Combined | AccessLog::Json) {
            return Self::default();
        }
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let field = |name| head.fields.first(name).map(text);
        Self {
            referer: field("referer").map(|referer| plan.settings.statistics.query.kept(&referer).to_owned()),
            agent: field("user-agent"),
            content_type: None,
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) status: u16,
    pub(crate) site: SiteNumber,
    pub(crate) outcome: Outcome,
    /// Seconds since the answer was made or validated, if it was stored.
    pub(crate) age: Option<u32>,
    /// Bytes sent.
    pub(crate) bytes: u64,
    /// Bytes by which content that was compressed here is shorter.
    pub(crate) saved: Option<u64>,
}

impl Ended {
    /// With `reply`, of which `bytes` bytes were sent.
    pub(crate) fn by(reply: &Reply, bytes: u64) -> Self {
        let Reply { site, outcome, age, .. } = *reply;
        // A reply to HEAD has the length only.
        let sent = reply.length.filter(|length| outcome.coding.is_some() && *length <= bytes);
        let saved = match (&reply.fields, sent) {
            (Source::Entry(entry), Some(sent)) => Some(entry.body().len().saturating_sub(sent)),
            _ => None,
        };
        Self { status: reply.status.as_u16(), site, outcome, age, bytes, saved }
    }
}

impl Memo {
    /// Of a request that was read at `begun`.
    pub(crate) fn begin(
        plan: &Plan,
        role: Role,
        head: &Head<'_>,
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
        let (site, visit, version) = (site(plan, role, head), Visit::of(plan, head), Some(head.version));
        Self {
            client,
            identity: identity.cloned(),
            user: None,
            method: head.method.clone(),
            target,
            site,
            door: None,
            version,
            visit,
            begun,
            trace: None,
        }
    }

    /// Of a request that could not be read.
    pub(crate) fn unread(client: SocketAddr) -> Self {
        // A hyphen is a token, as every method is.
        let method = Method::from_bytes(b"-").unwrap_or_default();
        let (target, visit) = (UNREAD.to_owned(), Visit::default());
        let (identity, site, begun) = (None, None, Instant::now());
        Self {
            client,
            identity,
            user: None,
            method,
            target,
            site,
            door: None,
            version: None,
            visit,
            begun,
            trace: None,
        }
    }

    /// Of a call for `url` through `door`.
    pub(crate) fn of_call(plan: &Plan, door: Door, url: &str, client: SocketAddr) -> Self {
        let target = plan.settings.statistics.query.kept(url).escape_debug().to_string();
        let site = plan.sites.name(Role::Forward, "", "");
        let (method, visit, begun) = (Method::GET, Visit::default(), Instant::now());
        let identity = None;
        Self {
            client,
            identity,
            user: None,
            method,
            target,
            site,
            door: Some(door),
            version: None,
            visit,
            begun,
            trace: None,
        }
    }

    /// Remembers what the log wants to know of the answer.
    pub(crate) fn answered(&mut self, plan: &Plan, reply: &Reply) {
        self.user.clone_from(&reply.user);
        if plan.settings.access_log == AccessLog::Squid {
            self.visit.content_type = reply.field("content-type");
        }
    }

    /// The user, or else the subject of the client's certificate.
    pub(super) fn user_or_subject(&self) -> Option<&str> {
        self.user.as_deref().or_else(|| self.subject())
    }

    /// The subject of the certificate that the client has shown.
    pub(super) fn subject(&self) -> Option<&str> {
        self.identity.as_ref()?.subject()
    }

    /// Whether it was understood as a request.
    pub(super) fn is_read(&self) -> bool {
        self.target != UNREAD
    }

    /// Whether any origin might be asked.
    pub(super) fn is_forward(&self) -> bool {
        self.site.as_deref() == Some(FORWARD)
    }

    /// The host of its URL, without a port.
    pub(super) fn host(&self) -> &str {
        let rest = self.target.split_once("://").map_or(&*self.target, |(_, rest)| rest);
        host_of(rest.split(['/', '?', ' ']).next().unwrap_or_default())
    }

    /// Since it came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The URL, as far as it is kept; `-` if it cannot be told.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// The first segment of its path.
    pub(super) fn route(&self) -> &str {
        let rest = self.target.split_once("://").map_or("", |(_, rest)| rest);
        rest.find(['/', '?']).map_or("", |at| first_segment(&rest[at..]))
    }
}

/// What statistics call the site that a request is for, if it is for any.
pub(super) fn site(plan: &Plan, role: Role, head: &Head<'_>) -> Option<Arc<str>> {
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
            let memo = Memo { target: target.to_owned(), ..Memo::unread(([127, 0, 0, 1], 1).into()) };
            assert_eq!(memo.route(), route, "{target}");
        }
    }
}
