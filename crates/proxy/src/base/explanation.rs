//! The explanation of a request that was not sent ([`crate::features::why`]): plain data, as `GET /why` answers it.

use std::collections::BTreeMap;

use larder_semantics::status::Why;
use serde::{Deserialize, Serialize};

use crate::base::clock;

/// A request that was written down.
pub(crate) struct Written {
    /// When it came, in milliseconds since 1970.
    pub(crate) time: u64,
    pub(crate) method: String,
    pub(crate) status: u16,
    pub(crate) outcome: String,
    pub(crate) reason: String,
}

/// A reason in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The word that `Cache-Status`, logs and metrics have.
    pub reason: String,
    /// Where the rule stands.
    pub section: String,
    /// What it means.
    pub explanation: String,
    /// What could be changed by who does not like it; empty if nothing.
    pub help: String,
}

impl Reason {
    /// `why` in words.
    pub fn of(why: Why) -> Self {
        Self {
            reason: why.token().to_owned(),
            section: why.section().to_owned(),
            explanation: why.explanation().to_owned(),
            help: why.help().to_owned(),
        }
    }
}

/// What would be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// How it would count: `hit`, `stale-hit`, `miss`, `pass`, `refused`, `failed`. Of a miss, the origin's answer
    /// decides its outcome.
    pub outcome: String,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
    /// Whether the origin would be asked.
    pub asks_origin: bool,
    /// Whether it would be asked if what is stored is still good.
    pub validates: bool,
    /// Whether a newer response would be fetched meanwhile.
    pub refreshes: bool,
}

/// The stored response that the request selects. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The URL that it is stored for, if that is another: `No-Vary-Search` makes both equivalent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `memory` or `disk`.
    pub tier: String,
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
    /// How old it is (`Age`).
    pub age: u32,
    /// How old it may become and still be fresh.
    pub lifetime: u32,
    /// The directive or field that says so; `nothing` if none does.
    pub lifetime_from: String,
    /// How long it stays fresh; negative when stale.
    pub ttl: i64,
    /// Whether it may answer without being validated, as far as it is asked for without conditions.
    pub fresh: bool,
    /// Whether the origin can be asked if it is still good.
    pub validator: bool,
    /// The request fields it was selected by: `null` for those that were not sent.
    pub vary: BTreeMap<String, Option<String>>,
    /// Bytes of content in the codings that it has been compressed with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forms: BTreeMap<String, u64>,
    /// Whether no client had asked for it when it was fetched, as far as that is remembered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefetched: bool,
}

/// What the second tier of a cluster has for the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondTier {
    /// As the metrics call it: `hit`, `miss`, `outdated`, `damaged`, `failed`, or `skipped` while the tier is left alone.
    pub result: String,
    /// Why.
    pub explanation: String,
    /// Whether the node that was asked would answer with it.
    pub answers: bool,
    /// The node that owns the key; `null` while this one knows of no member.
    pub owner: Option<String>,
    /// The response, if there is one that can be read.
    pub kept: Option<Kept>,
}

/// A response on the engine. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
    /// How old it is.
    pub age: u32,
    /// How old it may become and still be fresh.
    pub lifetime: u32,
    /// For how long the engine still keeps it.
    pub expires: u64,
    /// The last entry of the stream of purges that had been obeyed when its fetch began.
    pub position: String,
}

/// What the origin last answered, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// When, in seconds since 1970.
    pub time: u32,
    /// Its status; nothing if there was no answer.
    pub status: Option<u16>,
    /// The fields of it that caching depends on.
    pub fields: Vec<(String, String)>,
    /// Whether such an answer to this request would be stored.
    pub storable: bool,
    /// Why not.
    pub why_not: Option<Reason>,
    /// What in it has no effect, or not the one that one may think of: each thing, and what is to be said of it.
    pub notes: Vec<(String, String)>,
}

/// A rule that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRule {
    /// Its name, or its number.
    pub name: String,
    /// Where it begins in the config, such as `larder.toml:12`.
    pub place: String,
    /// The keys that it sets.
    pub sets: Vec<String>,
}

/// What would become of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The URL that was asked about.
    pub url: String,
    /// The method.
    pub method: String,
    /// The listeners that this is about: `forward` or `reverse`.
    pub role: String,
    /// What it is stored under, as a URL.
    pub key: Option<String>,
    /// The site that it is for; `forward` where any origin may be asked.
    pub site: Option<String>,
    /// Where its answer would come from.
    pub origins: Vec<String>,
    /// Those of them that did not answer when they were asked last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// What would be done.
    pub decision: Decision,
    /// The rules that hold for the request and for what is stored for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AppliedRule>,
    /// What would be done if there were no rules; not there if none holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_rules: Option<Decision>,
    /// What in the origin or in the site's table may be set otherwise, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// What is stored for it.
    pub stored: Option<Stored>,
    /// Responses that memory has for the URL, whatever request fields select them.
    pub variants: u64,
    /// The node of the cluster that is asked before an origin: name and address. Not there if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What the second tier has; not there without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_tier: Option<SecondTier>,
    /// What the origin last answered.
    pub answer: Option<Answer>,
    /// The outcomes of the last requests for the URL, the latest first: as a client watches them, or else as the
    /// statistics database has them, which is told of a request within a second or so.
    pub last: Vec<Ended>,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Seconds since it came.
    pub ago: u64,
    /// Its method.
    pub method: String,
    /// The version of HTTP: `1.0`, `1.1` or `2`; none if it came through an RPC listener, and in what is read from the
    /// statistics database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_version: Option<String>,
    /// What was answered.
    pub status: u16,
    /// Its outcome.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

impl Ended {
    /// As it was written down.
    pub(crate) fn of(written: Written) -> Self {
        let Written { time, method, status, outcome, reason } = written;
        let ago = clock::unix_millis().saturating_sub(time) / 1_000;
        Self { ago, method, http_version: None, status, outcome, reason }
    }
}
