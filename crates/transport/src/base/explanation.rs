//! The explanation of a hypothetical request (`features::why`): plain data, as `GET /why` returns it.

use std::collections::BTreeMap;

use larder_semantics::status::Why;
use serde::{Deserialize, Serialize};

use crate::base::clock;
use crate::base::settings::Role;

/// A request in the statistics database.
pub struct LoggedRequest {
    /// Its arrival, in milliseconds since 1970.
    pub time: u64,
    /// Its method.
    pub method: String,
    /// The status of the answer.
    pub status: u16,
    /// The outcome, as `Cache-Status` and metrics name it.
    pub outcome: String,
    /// The reason of that outcome.
    pub reason: String,
}

/// A reason, with its explanation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The reason's name in `Cache-Status`, logs and metrics.
    pub reason: String,
    /// The section of the specification with the rule.
    pub section: String,
    /// The meaning.
    pub explanation: String,
    /// Possible changes for a different result; empty if there are none.
    pub help: String,
}

impl Reason {
    /// Returns the explanation of `why`.
    pub fn of(why: Why) -> Self {
        Self {
            reason: why.token().to_owned(),
            section: why.section().to_owned(),
            explanation: why.explanation().to_owned(),
            help: why.help().to_owned(),
        }
    }
}

/// The decision about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The outcome: `hit`, `stale-hit`, `miss`, `pass`, `refused`, `failed`. The final outcome of a miss depends on the
    /// origin's response.
    pub outcome: String,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
    /// Whether the request would go to the origin.
    pub asks_origin: bool,
    /// Whether the request would revalidate the stored response.
    pub validates: bool,
    /// Whether the stored response would be refreshed in the background.
    pub refreshes: bool,
}

/// The stored response that the request selects. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredView {
    /// The URL that it is stored for, if it is a different one that `No-Vary-Search` makes equivalent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `memory` or `disk`.
    pub tier: String,
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
    /// The age of the response (`Age`).
    pub age: u32,
    /// The freshness lifetime.
    pub lifetime: u32,
    /// The directive or field that determines the lifetime; `nothing` if there is none.
    pub lifetime_from: String,
    /// The remaining freshness; negative when stale.
    pub ttl: i64,
    /// Whether it can be used without revalidation, for a request without restricting directives.
    pub fresh: bool,
    /// Whether it has a validator for conditional requests.
    pub validator: bool,
    /// The request fields that selected it: `null` for absent fields.
    pub vary: BTreeMap<String, Option<String>>,
    /// Bytes of content of its compressed forms, by coding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forms: BTreeMap<String, u64>,
    /// Whether it would not be stored without rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_by_rules: bool,
    /// Whether it was fetched without a client's request, as far as that is still known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefetched: bool,
}

/// The result of the lookup in the second tier of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondTier {
    /// The result in metrics: `hit`, `miss`, `outdated`, `damaged`, `failed`, or `skipped` while the tier is in its
    /// backoff.
    pub result: String,
    /// The reason of the result.
    pub explanation: String,
    /// Whether this node would use the response.
    pub answers: bool,
    /// The node that owns the key; `null` while this node knows of no member.
    pub owner: Option<String>,
    /// The response, if there is a readable one.
    pub kept: Option<EngineCopy>,
}

/// A response stored on the engine. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineCopy {
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
    /// The age of the response.
    pub age: u32,
    /// The freshness lifetime.
    pub lifetime: u32,
    /// The remaining time for which the engine stores it.
    pub expires: u64,
    /// The last entry of the purge stream that was applied before its fetch began.
    pub position: String,
}

/// The last response of the origin, if it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The time of the response, in seconds since 1970.
    pub time: u32,
    /// The status; `None` if there was no response.
    pub status: Option<u16>,
    /// The response fields that affect caching.
    pub fields: Vec<(String, String)>,
    /// Whether such a response to this request would be stored.
    pub storable: bool,
    /// The reason why it would not be stored.
    pub why_not: Option<Reason>,
    /// Parts of the response without effect, or with an unexpected one: the part and a note about it.
    pub notes: Vec<(String, String)>,
}

/// A rule that applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRule {
    /// The rule's name, or its number.
    pub name: String,
    /// The beginning of the rule in the config, such as `larder.toml:12`.
    pub place: String,
    /// The keys that the rule sets.
    pub sets: Vec<String>,
}

/// The handling of a hypothetical request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The requested URL.
    pub url: String,
    /// The method.
    pub method: String,
    /// The role of the listeners: `forward` or `reverse`.
    pub role: String,
    /// The cache key, as a URL.
    pub key: Option<String>,
    /// The site of the URL; `forward` if any origin is permitted.
    pub site: Option<String>,
    /// The origins that could serve the request.
    pub origins: Vec<String>,
    /// The origins that failed their last request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// Why origins get no requests at the moment, by their URLs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub troubles: BTreeMap<String, String>,
    /// The decision.
    pub decision: Decision,
    /// The rules that apply to the request and to its stored response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AppliedRule>,
    /// The decision without rules; absent if no rule applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_rules: Option<Decision>,
    /// Possible changes at the origin or in the site's settings, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The stored response for the request.
    pub stored: Option<StoredView>,
    /// Number of responses in memory for the URL, with any values of the selecting request fields.
    pub variants: u64,
    /// The cluster node that gets the request before an origin: name and address. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The result of the second tier; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_tier: Option<SecondTier>,
    /// The last response of the origin.
    pub answer: Option<Answer>,
    /// The outcomes of the last requests for the URL, the latest first: from live watches, or else from the statistics
    /// database, which has a request after about a second.
    pub last: Vec<RequestEnd>,
}

impl Explanation {
    /// Names the table of rules for this role in the help texts, which are the same for all roles.
    pub fn name_table_of_rules(&mut self) {
        let table = if self.role == Role::Forward.name() { "[[forward.rule]]" } else { "[[site.rule]]" };
        let of_answer = self.answer.iter_mut().filter_map(|answer| answer.why_not.as_mut());
        for reason in of_answer.chain([&mut self.decision.reason]) {
            reason.help = reason.help.replace(" in a rule", &format!(" in a {table}"));
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEnd {
    /// Seconds since the request arrived.
    pub ago: u64,
    /// The method.
    pub method: String,
    /// The version of HTTP: `1.0`, `1.1` or `2`; absent for requests of an RPC listener, and for those read from the
    /// statistics database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_version: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// The outcome.
    pub outcome: String,
    /// The reason.
    pub reason: String,
}

impl RequestEnd {
    /// Converts a request from the database.
    pub fn of(written: LoggedRequest) -> Self {
        let LoggedRequest { time, method, status, outcome, reason } = written;
        let ago = clock::unix_millis().saturating_sub(time) / 1_000;
        Self { ago, method, http_version: None, status, outcome, reason }
    }
}
