//! What `/stats` says of each site: the figures of all, for this one, and how its origins are.

use serde::Serialize;

use crate::counts::counters::Totals;
use crate::exchange::route::{FORWARD, SiteState};
use crate::exchange::rule_counts::RuleReport;
use crate::flow::worker::Shared;

/// The figures of one site.
#[derive(Debug, Serialize)]
pub(super) struct Site {
    /// `forward` for what the forward proxy is asked; empty for what is for no site.
    pub(super) site: String,
    #[serde(flatten)]
    totals: Totals,
    hit_ratio: f64,
    validated_hit_ratio: f64,
    byte_hit_ratio: f64,
    /// None for a site that the config no longer has.
    pub(super) origins: Vec<Origin>,
    /// Its rules and what they held for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<RuleReport>,
}

/// How an origin is.
#[derive(Debug, Serialize)]
pub(super) struct Origin {
    pub(super) address: String,
    /// Whether it is asked in its turn.
    pub(super) healthy: bool,
    /// Requests that it did not answer since the config was read.
    pub(super) failures: u64,
    /// For how long it has failed, in seconds, if it is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<u64>,
    /// Why it failed first, if it is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// The configured sites, and all else that there were requests for.
pub(super) fn report(shared: &Shared) -> Vec<Site> {
    let plan = shared.plan();
    let configured = |name: &str| plan.sites.iter().find(|site| site.settings.name == name);
    let sites = shared.observers.accounts.all().into_iter().filter_map(|account| {
        let (totals, state) = (account.counts().totals(), configured(account.site()));
        (totals.requests > 0 || state.is_some()).then(|| Site {
            site: account.site().to_string(),
            totals,
            hit_ratio: totals.hit_ratio(),
            validated_hit_ratio: totals.validated_hit_ratio(),
            byte_hit_ratio: totals.byte_hit_ratio(),
            origins: state.map(|state| origins(state)).unwrap_or_default(),
            rules: match state {
                Some(state) => state.rulebook.report(),
                None if &**account.site() == FORWARD => plan.forward.report(),
                None => Vec::new(),
            },
        })
    });
    sites.collect()
}

fn origins(site: &SiteState) -> Vec<Origin> {
    let origins = site.pool.all().map(|turn| {
        let health = turn.health();
        let (down_seconds, trouble) = health.down.map(|(time, why)| (time.as_secs(), why)).unzip();
        let (healthy, failures) = (health.is_well, health.failures);
        Origin { address: turn.origin().to_string(), healthy, failures, down_seconds, trouble }
    });
    origins.collect()
}
