//! A request in the live log, and the filter of requests.

use std::time::Duration;

use serde::Serialize;

use super::watch::EndedRequest;
use crate::base::clock;
use crate::base::outcome::Kind;
use crate::base::settings::Door;
use crate::counts::versions;

/// A request in the live log, with its outcome and reason.
#[derive(Debug, Serialize)]
pub struct Transaction<'s> {
    /// The arrival, in milliseconds since 1970.
    time: u64,
    client: String,
    /// The subject of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_subject: Option<&'s str>,
    /// The user whose password or token a rule has accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'s str>,
    door: &'static str,
    /// Empty if no site serves the host.
    site: &'s str,
    route: &'s str,
    method: &'s str,
    url: &'s str,
    /// Absent if the request came through an RPC listener, or could not be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_version: Option<&'static str>,
    status: u16,
    outcome: &'static str,
    reason: &'static str,
    /// The section of the specification with the reason's rule.
    section: &'static str,
    /// The tier of the stored response, if there was one: `memory` or `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    /// Seconds since the response was generated or validated, if it was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<u32>,
    /// Remaining freshness in seconds; negative when stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<i64>,
    /// The status of the origin's response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_status: Option<u16>,
    /// Whether the response was being stored.
    stored: bool,
    /// Bytes sent.
    bytes: u64,
    /// Time from the request's arrival to the end of the response.
    service_us: u64,
    /// Time until the first byte of origins' responses, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_us: Option<u64>,
    /// `prefetch`, if the client sent that purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'static str>,
}

impl<'s> Transaction<'s> {
    /// Returns the parts of a request by their names.
    pub fn of(seen: &'s EndedRequest) -> Self {
        let EndedRequest { memo, ended, took } = seen;
        let outcome = ended.outcome;
        let since = memo.begun.elapsed().as_millis() as u64;
        Self {
            time: clock::unix_millis().saturating_sub(since),
            client: memo.client.ip().to_canonical().to_string(),
            client_subject: memo.subject(),
            user: memo.user.as_deref(),
            door: memo.door.map_or("http", Door::name),
            site: memo.site.as_deref().unwrap_or_default(),
            route: memo.route(),
            method: memo.method.as_str(),
            url: &memo.target,
            http_version: memo.version.map(versions::name),
            status: ended.status,
            outcome: outcome.kind.word(),
            reason: outcome.why.token(),
            section: outcome.why.section(),
            tier: outcome.is_hit().then(|| outcome.tier.name()),
            age: ended.age,
            ttl: outcome.shown_ttl(),
            origin_status: outcome.origin_status,
            stored: outcome.stored,
            bytes: ended.bytes,
            service_us: took.as_micros() as u64,
            origin_us: outcome.origin_time.map(|time| time.as_micros() as u64),
            purpose: outcome.purpose(),
        }
    }
}

/// A filter of status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// Exactly this status.
    One(u16),
    /// All codes that begin with this digit.
    Class(u16),
}

/// A filter of requests, which have to meet all conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The name of the site.
    pub site: Option<String>,
    /// The statuses.
    pub statuses: Option<Statuses>,
    /// The outcome.
    pub outcome: Option<Kind>,
    /// A part of the URL.
    pub url: Option<String>,
    /// The request took longer than this.
    pub slower: Option<Duration>,
}

impl Filter {
    /// Whether a request passes the filter.
    pub fn takes(&self, seen: &EndedRequest) -> bool {
        let EndedRequest { memo, ended, took } = seen;
        self.site.as_deref().is_none_or(|site| memo.site.as_deref().unwrap_or_default() == site)
            && self.statuses.is_none_or(|statuses| statuses.take(ended.status))
            && self.outcome.is_none_or(|kind| ended.outcome.kind == kind)
            && self.url.as_deref().is_none_or(|part| memo.target.contains(part))
            && self.slower.is_none_or(|slower| *took > slower)
    }
}

impl Statuses {
    /// Parses `404` or `4xx`.
    pub fn read(text: &str) -> Option<Self> {
        let number =
            |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        match text.strip_suffix("xx") {
            Some(class) => number(class).filter(|class| (1..=5).contains(class)).map(Self::Class),
            None => number(text).filter(|status| (100..=599).contains(status)).map(Self::One),
        }
    }

    fn take(self, status: u16) -> bool {
        match self {
            Self::One(wanted) => status == wanted,
            Self::Class(class) => status / 100 == class,
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::status::Why;
    use serde_json::json;

    use super::*;
    use crate::base::outcome::Outcome;
    use crate::exchange::route::SiteNumber;
    use crate::observe::memo::{RequestRecord, RequestResult};

    fn seen() -> EndedRequest {
        let outcome = Outcome::hit(Kind::Hit, Why::Fresh, 7);
        let mut memo = RequestRecord::unread(([192, 0, 2, 1], 1).into());
        memo.version = Some(http::Version::HTTP_2);
        "http://a/b/c".clone_into(&mut memo.target);
        let ended = RequestResult {
            status: 204,
            site: SiteNumber::NONE,
            hash: 0,
            outcome,
            age: Some(3),
            bytes: 9,
            saved: None,
        };
        EndedRequest { memo, ended, took: Duration::from_micros(1_500) }
    }

    #[test]
    fn a_transaction_says_what_was_decided() {
        let mut shown = serde_json::to_value(Transaction::of(&seen())).unwrap();
        assert!(shown.as_object_mut().unwrap().remove("time").is_some_and(|time| time.is_u64()));
        let expected = json!({
            "client": "192.0.2.1", "door": "http", "site": "", "route": "b", "method": "-", "url": "http://a/b/c",
            "http_version": "2", "status": 204, "outcome": "hit", "reason": "fresh", "section": "RFC 9111 4.2", "tier": "memory",
            "age": 3, "ttl": 7, "stored": false, "bytes": 9, "service_us": 1500,
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_condition_has_to_be_met() {
        let any = Filter::default();
        let status = |text| Filter { statuses: Statuses::read(text), ..Filter::default() };
        let slower = |micros| Filter { slower: Some(Duration::from_micros(micros)), ..Filter::default() };
        let table = [
            (any.clone(), true),
            (Filter { site: Some(String::new()), ..any.clone() }, true),
            (Filter { site: Some("a".to_owned()), ..any.clone() }, false),
            (status("204"), true),
            (status("2xx"), true),
            (status("200"), false),
            (status("4xx"), false),
            (Filter { outcome: Some(Kind::Hit), ..any.clone() }, true),
            (Filter { outcome: Some(Kind::Miss), ..any.clone() }, false),
            (Filter { url: Some("/b/".to_owned()), ..any.clone() }, true),
            (Filter { url: Some("/d/".to_owned()), ..any.clone() }, false),
            (slower(1_499), true),
            (slower(1_500), false),
            (Filter { url: Some("/b/".to_owned()), outcome: Some(Kind::Miss), ..any }, false),
        ];
        for (filter, expected) in table {
            assert_eq!(filter.takes(&seen()), expected, "{filter:?}");
        }
    }

    #[test]
    fn statuses_are_numbers_or_classes() {
        for text in ["", "x", "xx", "+200", "99", "1000", "6xx", "0xx", "2xxx"] {
            assert_eq!(Statuses::read(text), None, "{text}");
        }
    }
}
