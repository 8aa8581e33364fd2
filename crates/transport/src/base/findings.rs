//! Findings about origins, as the admin listener returns them and `larder stats` reads them: comparisons of hits with
//! the origin's current responses, and writes that seem to change the responses for other paths. The modules
//! `validator` and `observe::couplings` produce them.

use serde::{Deserialize, Serialize};

use super::counted::counted;

/// The response to `GET /validator`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The share of hits that is selected, 0 to 1.
    pub sample: f64,
    /// Maximum of requests to origins per second.
    pub rate: u32,
    /// Whether requests with credentials are repeated.
    pub cookies: bool,
    /// Checks in progress.
    pub under_way: usize,
    /// The results of all checks.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Selected hits that were not checked.
    pub skipped: SkipCounts,
    /// Results by site and first path segment, those with the most stale hits first.
    pub routes: Vec<Route>,
}

/// The results of checked hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// All checked hits.
    pub checked: u64,
    /// The origin's response was the same.
    pub ok: u64,
    /// The origin's response differed, without the cache's knowledge.
    pub stale: u64,
    /// The response at the origin changed after the hit, and the cache has the new one as well.
    pub changed_meanwhile: u64,
    /// The origin's response differs on every request.
    pub unstable: u64,
    /// The origin sent no comparable response.
    pub failed: u64,
}

impl Verdicts {
    /// Returns the sums of these and other results.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            checked: self.checked + other.checked,
            ok: self.ok + other.ok,
            stale: self.stale + other.stale,
            changed_meanwhile: self.changed_meanwhile + other.changed_meanwhile,
            unstable: self.unstable + other.unstable,
            failed: self.failed + other.failed,
        }
    }
}

counted! {
    /// The selected hits that were not checked, by reason.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SkipCounts, SkipCounters {
        /// The maximum of checks in this second was reached.
        rate,
        /// The maximum of concurrent checks was reached, or origins were busy.
        busy,
        /// The request had a cookie or an authorization.
        credentials,
        /// The content is too large to be fetched again.
        large,
    }
}

/// The findings about one site and first path segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The site; `forward` for requests of the forward proxy.
    pub site: String,
    /// The first path segment; `*` for all segments beyond the capacity.
    pub route: String,
    /// The results for its hits.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// The staleness of the stale hits.
    pub staleness: Option<Percentiles>,
    /// A possible lifetime of responses.
    pub lifetime: Option<Lifetime>,
}

/// Percentiles in seconds, each rounded up to the bound of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50: u32,
    /// The 90th percentile.
    pub p90: u32,
    /// The 99th percentile.
    pub p99: u32,
    /// The maximum.
    pub max: u32,
}

/// The longest lifetime with less than one stale hit in a hundred, as observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The lifetime in seconds; 0: less than a second.
    pub seconds: u32,
    /// Whether no older hits were observed, so that a longer lifetime may be possible.
    pub at_least: bool,
}

/// The response to `GET /couplings`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Couplings {
    /// Comparisons of the response for a URL with its previous response.
    pub looks: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// First path segments that were dropped for lack of capacity.
    pub left_out: u64,
    /// The couplings, the most significant first.
    pub couplings: Vec<Coupling>,
    /// Proposed settings of gateways, by site, for couplings that are not configured yet.
    pub config: Vec<Proposal>,
}

/// A write that seems to change the responses for paths with another first segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coupling {
    /// The site.
    pub site: String,
    /// The first path segment of the writes.
    pub written: String,
    /// The methods of the writes.
    pub methods: Vec<String>,
    /// The first path segment of the changed responses.
    pub read: String,
    /// The share of comparisons after such a write that found a change.
    pub confidence: f64,
    /// The share of comparisons that found a change after the same time without such a write.
    pub otherwise: f64,
    /// Number of comparisons after such a write.
    pub support: u64,
    /// Time in seconds after the write within which nine of ten changes were found.
    pub within: u32,
    /// The significance: standard deviations between the observation and chance.
    pub deviations: f64,
    /// Whether a gateway of this process is configured for the coupling.
    pub configured: bool,
    /// The coupling as a sentence.
    pub text: String,
}

/// A proposed line for the table of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The site with the couplings.
    pub site: String,
    /// The line, such as `couple = { users = ["feeds"] }`.
    pub line: String,
}
