//! Resolves the names of sites' origins again, at the sites' intervals or when the answers do not hold any more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::base::networks::host_of;
use crate::base::settings::{Origin, ResolveInterval, Site, socket_of};
use crate::flow::worker::ProcessState;
use crate::origin::Parents;

/// The time after which a name is resolved again if it is not known how long the answer holds.
const UNKNOWN: Duration = Duration::from_secs(30);
/// The same, while the name cannot be resolved.
const FAILING: Duration = Duration::from_secs(5);

/// Starts the resolution for the current plan; dropping the set ends it.
pub(crate) fn start(shared: &Arc<ProcessState>) -> JoinSet<()> {
    let plan = shared.plan();
    let mut intervals = HashMap::new();
    for site in plan.sites.iter() {
        for (name, interval) in names(&site.settings, plan.parents_of(site)) {
            // The lifetime of records is not known here, and mostly shorter than a fixed interval.
            let shortest = intervals.entry(name).or_insert(interval);
            *shortest = (*shortest).min(interval);
        }
    }
    shared.origins.sites.watch(&intervals.keys().cloned().collect::<Vec<_>>());
    let mut all = JoinSet::new();
    for (name, interval) in intervals {
        all.spawn(again(Arc::clone(shared), name, interval));
    }
    all
}

/// Returns the names of a site's origins, each with its interval if that is fixed. The names of those behind parent proxies
/// are resolved there.
fn names(site: &Site, parents: &Parents) -> impl Iterator<Item = (String, Option<Duration>)> {
    let by_name =
        |authority: &&str| socket_of(authority).is_none() && host_of(authority).parse::<IpAddr>().is_err();
    let is_direct = |origin: &&Origin| !parents.lead_to(origin.https, &origin.authority);
    let origins = site.all_origins().filter(is_direct);
    let authorities = origins.map(|origin| origin.authority.as_str()).filter(by_name);
    let hosts = authorities.map(host_of).filter(|host| !host.starts_with('['));
    let interval = match site.resolve_interval {
        ResolveInterval::Off => None,
        ResolveInterval::Auto => Some(None),
        ResolveInterval::Every(interval) => Some(Some(interval)),
    };
    interval.into_iter().flat_map(move |interval| hosts.clone().map(move |host| (host.to_owned(), interval)))
}

async fn again(shared: Arc<ProcessState>, name: String, interval: Option<Duration>) {
    let mut was_failing = false;
    loop {
        let found = shared.origins.sites.resolve_again(&name).await;
        let then = found.as_ref().map_or(FAILING, |left| left.unwrap_or(UNKNOWN));
        let is_failing = found.is_err();
        match found {
            Err(why) if !was_failing => {
                let use_of_old = match shared.origins.sites.has_addresses(&name) {
                    true => "its last addresses stay in use",
                    false => "no address of it is known, and its requests fail",
                };
                tracing::warn!("cannot resolve the origin's name {name}: {why}; {use_of_old}");
            }
            Ok(_) if was_failing => tracing::warn!("the origin's name {name} can be resolved again"),
            _ => {}
        }
        was_failing = is_failing;
        tokio::time::sleep(interval.unwrap_or(then)).await;
    }
}
