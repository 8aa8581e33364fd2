//! What `/stats` says of each site: the figures of all, for this one, and how its origins are.

use serde::Serialize;

use crate::counts::counters::Totals;
use crate::exchange::route::{FORWARD, SiteState};
use crate::exchange::rule_counts::RuleReport;
use crate::flow::worker::Shared;
use crate::origin::Pool;

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
        let rules = match state {
            Some(state) => state.rulebook.report(),
            None if &**account.site() == FORWARD => plan.forward.report(),
            None => Vec::new(),
        };
        (totals.requests > 0 || state.is_some() || !rules.is_empty()).then(|| Site {
            site: account.site().to_string(),
            totals,
            hit_ratio: totals.hit_ratio(),
            validated_hit_ratio: totals.validated_hit_ratio(),
            byte_hit_ratio: totals.byte_hit_ratio(),
            origins: state.map(|state| origins(state)).unwrap_or_default(),
            rules,
        })
    });
    sites.collect()
}

/// One that the site and its rules name counts once for each, and is shown once: as it is where it is worst.
fn origins(site: &SiteState) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::new();
    for turn in site.pools().flat_map(Pool::all) {
        let health = turn.health();
        let (down_seconds, trouble) = health.down.map(|(time, why)| (time.as_secs(), why)).unzip();
        let (healthy, mut failures) = (health.is_well, health.failures);
        let address = turn.origin().to_string();
        match origins.iter_mut().find(|other| other.address == address) {
            Some(other) if healthy || !other.healthy => other.failures += failures,
            other => {
                failures += other.as_ref().map_or(0, |other| other.failures);
                let origin = Origin { address, healthy, failures, down_seconds, trouble };
                match other {
                    Some(other) => *other = origin,
                    None => origins.push(origin),
                }
            }
        }
    }
    origins
}
