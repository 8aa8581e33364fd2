//! `/advise`: what other policies and sizes would bring. `POST /advise/apply`: puts another policy in force.

use std::time::Duration;

use http::StatusCode;
use larder_advise::{Prices, Report};
use larder_evict::Spec;
use serde::Serialize;

use super::{Call, Outcome, Refusal, json};

/// Returns the table about the last `since` seconds; without that, about all that is kept.
pub(super) fn answer(call: &Call<'_>) -> Outcome {
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let since = call.query.parse("since", "seconds", seconds)?;
    let shared = &call.state.shared;
    match &shared.advisor {
        Some(advisor) => {
            let report = advisor.report(since.unwrap_or(Duration::MAX));
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
    let change =
        PolicyChange { before: shared.plan().settings.memory.policy.to_string(), policy: policy.to_string() };
    tracing::info!("an administrator puts memory under {policy} instead of {}", change.before);
    shared.run_policy(policy);
    Ok(json(&change))
}
