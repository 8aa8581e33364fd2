//! The part of `/stats` about each site: the figures of the site, and the health of its origins.

use serde::{Serialize, Serializer};

use crate::counts::counters::{Ratios, Totals};
use crate::exchange::route::{FORWARD, SiteState};
use crate::exchange::rule_counts::RuleReport;
use crate::flow::worker::ProcessState;
use crate::origin::{OriginHealth, OriginState, Pool};

/// The figures of one site.
#[derive(Debug, Serialize)]
pub(super) struct Site {
    /// `forward` for requests to the forward proxy; empty for requests without a site.
    pub(super) site: String,
    #[serde(flatten)]
    totals: Totals,
    #[serde(flatten)]
    ratios: Ratios,
    /// Empty for a site that the config no longer has.
    pub(super) origins: Vec<Origin>,
    /// Its rules and the counts of requests for which they held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<RuleReport>,
}

/// The health of an origin.
#[derive(Debug, Serialize)]
pub(super) struct Origin {
    pub(super) address: String,
    /// `up`; `down`; `unknown` before it is asked for the first time.
    state: &'static str,
    /// Whether it is up; absent while that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) healthy: Option<bool>,
    /// Requests that it has not answered, or with 5xx, since the config was read.
    pub(super) failures: u64,
    /// Its answers since then, by status or class.
    #[serde(skip_serializing_if = "AnswerCounts::is_none")]
    pub(super) answers: AnswerCounts,
    /// Seconds for which it has failed, if it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<u64>,
    /// The reason of its first failure, if it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// Answers by status or class, all of them known to the metrics; those without answers are not shown.
#[derive(Debug)]
pub(super) struct AnswerCounts(pub(super) Vec<(&'static str, u64)>);

impl AnswerCounts {
    fn some(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().copied().filter(|(_, answers)| *answers > 0)
    }

    fn is_none(&self) -> bool {
        self.some().next().is_none()
    }
}

impl Serialize for AnswerCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.some())
    }
}

/// Returns the configured sites, and all others that had requests.
pub(super) fn report(shared: &ProcessState) -> Vec<Site> {
    let plan = shared.plan();
    let configured = |name: &str| plan.sites.iter().find(|site| site.settings.name == name);
    let sites = shared.observers.accounts.all().into_iter().filter_map(|account| {
        let (totals, state) = (account.counts().totals(), configured(account.site()));
        let rules = match state {
            Some(state) => state.rulebook.report(),
            None if &**account.site() == FORWARD => plan.forward.report(),
            None => Vec::new(),
        };
        (totals.requests > 0 || state.is_some() || !rules.is_empty()).then(|| Site {
            site: account.site().to_string(),
            totals,
            ratios: totals.ratios(),
            origins: state.map(|state| origins(state)).unwrap_or_default(),
            rules,
        })
    });
    sites.collect()
}

/// Returns the origins of a site. The site and its rules may name an origin several times: it is shown once, with the
/// sum of its failures and its worst state.
fn origins(site: &SiteState) -> Vec<Origin> {
    let mut origins: Vec<(OriginHealth, String)> = Vec::new();
    for turn in site.pools().flat_map(Pool::all) {
        let (health, address) = (turn.health(), turn.origin().to_string());
        match origins.iter_mut().find(|(_, other)| *other == address) {
            Some((known, _)) => {
                let failures = known.failures + health.failures;
                let sum = |((code, one), (_, other)): (&(_, u64), &(_, u64))| (*code, one + other);
                let answers = known.answers.iter().zip(&health.answers).map(sum).collect();
                let worst = if health.state > known.state { health } else { known.clone() };
                *known = OriginHealth { failures, answers, ..worst };
            }
            None => origins.push((health, address)),
        }
    }
    origins.into_iter().map(|(health, address)| Origin::of(health, address)).collect()
}

impl Origin {
    fn of(health: OriginHealth, address: String) -> Self {
        let OriginHealth { state, failures, answers, down } = health;
        let (down_seconds, trouble) = down.map(|(time, why)| (time.as_secs(), why)).unzip();
        let healthy = (state != OriginState::Unknown).then_some(state == OriginState::Up);
        let answers = AnswerCounts(answers);
        Self { address, state: state.word(), healthy, failures, answers, down_seconds, trouble }
    }
}
