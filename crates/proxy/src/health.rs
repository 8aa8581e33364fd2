//! Active health checks: asks each origin of the sites that want it, at their interval.

use std::sync::Arc;

use http::{Request, header};
use tokio::task::JoinSet;

use crate::origin::{Client, Connector, Turn, Upload, connect, uri};
use crate::route::SiteState;
use crate::settings::Health;
use crate::worker::Shared;

/// Starts the checks of the plan in force; dropping the set ends them.
pub(crate) fn start(shared: &Arc<Shared>) -> JoinSet<()> {
    let plan = shared.plan();
    let mut checks = JoinSet::new();
    let wanted = plan.sites.iter().filter_map(|site| Some((site, site.settings.health.clone()?)));
    for (site, health) in wanted {
        let timeouts = &plan.settings.timeouts;
        match connect::tls() {
            Ok(tls) => {
                let client = Client::new(Connector::new(timeouts.connect, false).with_tls(&tls), timeouts);
                checks.spawn(check(Arc::clone(site), health, client));
            }
            Err(error) => tracing::error!("no health checks: {error}"),
        }
    }
    checks
}

async fn check(site: Arc<SiteState>, health: Health, client: Client) {
    let mut interval = tokio::time::interval(health.interval);
    loop {
        interval.tick().await;
        for turn in site.pool.all() {
            let well = is_well(&client, &turn, &health).await;
            if turn.checked(well) {
                let (name, origin) = (&site.settings.name, &turn.origin().authority);
                tracing::warn!("origin {origin} of {name} is {}", if well { "well again" } else { "sick" });
            }
        }
    }
}

async fn is_well(client: &Client, turn: &Turn<'_>, health: &Health) -> bool {
    let origin = turn.origin();
    let Ok(uri) = uri(origin.https, &origin.authority, &health.path) else { return false };
    let request = Request::get(uri).header(header::HOST, &origin.authority).body(Upload::Empty);
    let Ok(request) = request else { return false };
    let answer = tokio::time::timeout(health.interval, client.send(request)).await;
    matches!(answer, Ok(Ok(response)) if response.status().is_success() || response.status().is_redirection())
}
