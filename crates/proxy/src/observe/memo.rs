//! What is remembered of a request until its answer has left, and how that ended. The access log, the
//! live log and the statistics are written from it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;

use crate::http1::head::{Head, Target};
use crate::outcome::Outcome;
use crate::reply::Reply;
use crate::request::Address;
use crate::route::SiteNumber;
use crate::settings::{Door, Role};
use crate::worker::Plan;

/// What is remembered of a request.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    pub(super) client: SocketAddr,
    pub(super) method: Method,
    /// The URL, as the client wrote it; `-` if it cannot be told.
    pub(super) target: String,
    /// The site that it is for, if any is.
    pub(super) site: Option<Arc<str>>,
    /// The door it came through, if not by HTTP.
    pub(super) door: Option<Door>,
    begun: Instant,
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
}

impl Ended {
    /// With `reply`, of which `bytes` bytes were sent.
    pub(crate) fn by(reply: &Reply, bytes: u64) -> Self {
        let Reply { site, outcome, age, .. } = *reply;
        Self { status: reply.status.as_u16(), site, outcome, age, bytes }
    }
}

impl Memo {
    /// Of a request that was read at `begun`.
    pub(crate) fn begin(
        plan: &Plan,
        role: Role,
        head: &Head<'_>,
        client: SocketAddr,
        begun: Instant,
    ) -> Self {
        let target = match head.target {
            Target::Origin { host, path } => ["http://", host, path].concat(),
            Target::Absolute { scheme, authority, path } => [scheme, "://", authority, path].concat(),
            Target::Authority(authority) => authority.to_owned(),
            Target::Asterisk { host } => ["http://", host, " *"].concat(),
        };
        let site = site(plan, role, head);
        Self { client, method: head.method.clone(), target, site, door: None, begun }
    }

    /// Of a request that could not be read.
    pub(crate) fn unread(client: SocketAddr) -> Self {
        // A hyphen is a token, as every method is.
        let method = Method::from_bytes(b"-").unwrap_or_default();
        Self { client, method, target: "-".to_owned(), site: None, door: None, begun: Instant::now() }
    }

    /// Of a call for `url` through `door`.
    pub(crate) fn of_call(plan: &Plan, door: Door, url: &str, client: SocketAddr) -> Self {
        let target = url.escape_debug().to_string();
        let site = plan.sites.name(Role::Forward, "");
        Self { client, method: Method::GET, target, site, door: Some(door), begun: Instant::now() }
    }

    /// Since it came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The URL, as the client wrote it; `-` if it cannot be told.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// When it came.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// The first segment of its path.
    pub(super) fn route(&self) -> &str {
        let rest = self.target.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
        path.strip_prefix('/').and_then(|path| path.split(['/', '?', '#']).next()).unwrap_or_default()
    }
}

/// What statistics call the site that a request is for, if it is for any.
pub(super) fn site(plan: &Plan, role: Role, head: &Head<'_>) -> Option<Arc<str>> {
    let address = Address::of(head.target, role).ok()?;
    plan.sites.name(role, address.authority)
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
