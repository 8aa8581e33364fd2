//! What the proxy found out about its origins, as the admin listener tells it and `larder stats` reads it: hits that
//! were compared with what the origin would have answered, and writes that seem to change what other paths answer.
//! How it is found out is `validator`'s and `observe::couplings`'.

use serde::{Deserialize, Serialize};

/// What `GET /validator` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The share of hits that is picked, 0 to 1.
    pub sample: f64,
    /// Requests to origins a second at most.
    pub rate: u32,
    /// Whether requests with credentials are repeated.
    pub cookies: bool,
    /// Hits that are being checked at this moment.
    pub under_way: usize,
    /// The outcomes of all.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Hits that were picked and not checked.
    pub skipped: Skipped,
    /// By site and first segment of the path, those with the most stale hits first.
    pub routes: Vec<Route>,
}

/// The outcomes of hits that were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// All of them.
    pub checked: u64,
    /// The origin would have answered the same.
    pub ok: u64,
    /// The origin would have answered something else, and the cache did not know.
    pub stale: u64,
    /// The origin answers something else by now, and so does the cache.
    pub changed_meanwhile: u64,
    /// The origin answers something else each time.
    pub unstable: u64,
    /// The origin gave no answer that could be compared.
    pub failed: u64,
}

impl Verdicts {
    /// These and others.
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

/// Why hits that were picked were not checked, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// There were as many in this second as there may be.
    pub rate: u64,
    /// As many were under way as there may be, or origins had enough to do.
    pub busy: u64,
    /// The request had a cookie or an authorization.
    pub credentials: u64,
    /// The content is larger than what is fetched again for that.
    pub large: u64,
}

/// What was found out about one site and first segment of the path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// `forward` for what the forward proxy is asked.
    pub site: String,
    /// The first segment of the path; `*` for all those that there was no room for.
    pub route: String,
    /// The outcomes of its hits.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// How stale the stale ones were.
    pub staleness: Option<Percentiles>,
    /// How long answers might live.
    pub lifetime: Option<Lifetime>,
}

/// Percentiles in seconds, each rounded up to a whole bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half were no staler than this.
    pub p50: u32,
    /// Nine of ten.
    pub p90: u32,
    /// 99 of a hundred.
    pub p99: u32,
    /// All.
    pub max: u32,
}

/// The longest lifetime of which it was seen that less than one hit in a hundred would be stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// In seconds; 0: not even a second.
    pub seconds: u32,
    /// No older hits were seen: longer may do as well.
    pub at_least: bool,
}

/// What `GET /couplings` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Couplings {
    /// Comparisons of what a URL answered with what it answered before.
    pub looks: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// First segments that there was no room for.
    pub left_out: u64,
    /// What was found, the surest first.
    pub couplings: Vec<Coupling>,
    /// What gateways would have to say of them, by site, where they do not yet.
    pub config: Vec<Proposal>,
}

/// A write that seems to change what paths under another first segment answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coupling {
    /// The site.
    pub site: String,
    /// The first segment of what was written.
    pub written: String,
    /// By these methods.
    pub methods: Vec<String>,
    /// The first segment of what changed.
    pub read: String,
    /// The share of looks after such a write that found a change.
    pub confidence: f64,
    /// The share of looks, after as long a time without such a write, that did.
    pub otherwise: f64,
    /// Looks after such a write.
    pub support: u64,
    /// Nine of ten changes were found so soon after the write, in seconds.
    pub within: u32,
    /// How sure it is: standard deviations between what was seen and what chance would show.
    pub deviations: f64,
    /// A gateway of this process couples them already.
    pub configured: bool,
    /// The same in a sentence.
    pub text: String,
}

/// A line for the table of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The site where the couplings were seen.
    pub site: String,
    /// Such as `couple = { users = ["feeds"] }`.
    pub line: String,
}
