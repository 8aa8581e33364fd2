//! `/advise`: what other policies and sizes would bring. `POST /advise/apply`: puts another policy in force.

use std::time::Duration;

use http::StatusCode;
use larder_advise::{LateRoute, Prices, Report};
use larder_evict::Spec;
use serde::Serialize;

use super::{Call, Outcome, Refusal, json};
use crate::base::findings::Route;
use crate::base::settings::Role;
use crate::flow::worker::ProcessState;

/// Returns the table about the last `since` seconds; without that, about all that is kept.
pub(super) fn answer(call: &Call<'_>) -> Outcome {
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let since = call.query.parse("since", "seconds", seconds)?;
    let shared = &call.state.shared;
    match &shared.advisor {
        Some(advisor) => {
            let mut report = advisor.report(since.unwrap_or(Duration::MAX));
            add_staleness(shared, &mut report.lifetimes);
            let prices = Some(shared.plan().settings.cost).filter(Prices::is_set);
            let policy_of_config = shared.applied_policy().map(|applied| applied.of_config.to_string());
            Ok(json(&Report { prices, policy_of_config, ..report }))
        }
        None => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "there are no shadow caches, since the config has advise = \"off\"",
        )),
    }
}

/// Adds what the validator has found out about hits of these routes of sites.
fn add_staleness(shared: &ProcessState, lifetimes: &mut [LateRoute]) {
    let plan = shared.plan();
    let found = shared.observers.validator.report(&plan).routes;
    for late in lifetimes {
        let (host, segment) = late.route.split_once('/').unwrap_or((&late.route, ""));
        let site = plan.sites.name(Role::Reverse, host, &format!("/{segment}"));
        let is_it = |route: &&Route| Some(&*route.site) == site.as_deref() && route.route == segment;
        let verdicts = found.iter().find(is_it).map(|route| route.verdicts);
        late.stale = verdicts.map(|verdicts| verdicts.stale as f64 / verdicts.checked.max(1) as f64);
    }
}

/// The policy before a change, and after it.
#[derive(Debug, Serialize)]
struct PolicyChange {
    before: String,
    policy: String,
}

/// Puts another policy of the memory tier in force, until the config names another one.
pub(super) fn apply(call: &Call<'_>) -> Outcome {
    let name = call.query.get("policy").ok_or_else(|| "which policy? write policy=NAME".to_owned())?;
    let policy = Spec::parse(name).map_err(|error| error.to_string())?;
    if policy.listing().is_offline {
        return Err(format!(
            "policy '{policy}' needs to know later requests: it serves for simulations only"
        )
        .into());
    }
    let shared = &call.state.shared;
    let policy = shared.plan().settings.cost.priced(policy);
    let change =
        PolicyChange { before: shared.plan().settings.memory.policy.to_string(), policy: policy.to_string() };
    tracing::info!("an administrator puts memory under {policy} instead of {}", change.before);
    shared.run_policy(policy);
    Ok(json(&change))
}
