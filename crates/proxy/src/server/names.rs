//! Resolves the names of sites' origins again, at the sites' intervals.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::base::networks::host_of;
use crate::base::settings::{Origin, Site, socket_of};
use crate::flow::worker::ProcessState;
use crate::origin::Parents;

/// Starts the resolution for the current plan; dropping the set ends it.
pub(crate) fn start(shared: &Arc<ProcessState>) -> JoinSet<()> {
    let plan = shared.plan();
    let mut intervals = HashMap::new();
    for site in plan.sites.iter() {
        for (name, interval) in names(&site.settings, plan.parents_of(site)) {
            let shortest = intervals.entry(name).or_insert(interval);
            *shortest = interval.min(*shortest);
        }
    }
    shared.origins.sites.watch(&intervals.keys().cloned().collect::<Vec<_>>());
    let mut all = JoinSet::new();
    for (name, interval) in intervals {
        all.spawn(again(Arc::clone(shared), name, interval));
    }
    all
}

/// Returns the names of a site's origins, each with the interval. The names of those behind parent proxies are resolved
/// there.
fn names(site: &Site, parents: &Parents) -> impl Iterator<Item = (String, Duration)> {
    let by_name =
        |authority: &&str| socket_of(authority).is_none() && host_of(authority).parse::<IpAddr>().is_err();
    let is_direct = |origin: &&Origin| !parents.lead_to(origin.https, &origin.authority);
    let origins = site.all_origins().filter(is_direct);
    let authorities = origins.map(|origin| origin.authority.as_str()).filter(by_name);
    let hosts = authorities.map(host_of).filter(|host| !host.starts_with('['));
    site.resolve_interval
        .into_iter()
        .flat_map(move |interval| hosts.clone().map(move |host| (host.to_owned(), interval)))
}

async fn again(shared: Arc<ProcessState>, name: String, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        let found = shared.origins.sites.resolve_again(&name).await;
        if found.is_err() == is_failing {
            continue;
        }
        is_failing = found.is_err();
        match found {
            Ok(()) => tracing::warn!("the origin's name {name} can be resolved again"),
            Err(why) => {
                let then = match shared.origins.sites.has_addresses(&name) {
                    true => "its last addresses stay in use",
                    false => "no address of it is known, and its requests fail",
                };
                tracing::warn!("cannot resolve the origin's name {name}: {why}; {then}");
            }
        }
    }
}
