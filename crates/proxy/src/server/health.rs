//! Active health checks: asks each origin of the sites that want it, at their interval.

use std::sync::Arc;

use http::Method;
use tokio::task::JoinSet;

use crate::base::settings::Health;
use crate::exchange::route::SiteState;
use crate::flow::worker::Shared;
use crate::http::body::Upload;
use crate::origin::{Client, Connector, Outgoing, Turn, connect};

/// Starts the checks of the plan in force; dropping the set ends them.
pub(crate) fn start(shared: &Arc<Shared>) -> JoinSet<()> {
    let plan = shared.plan();
    let mut checks = JoinSet::new();
    let wanted = plan.sites.iter().filter_map(|site| Some((site, site.settings.health.clone()?)));
    for (site, health) in wanted {
        let timeouts = &plan.settings.timeouts;
        match connect::tls() {
            Ok(tls) => {
                let common = &shared.origins.sites;
                let connector = Connector::new(timeouts.connect, false, common).never_to(&shared.own);
                let connector = connector.with_tls_of(site.settings.tls.as_deref(), &tls);
                let client = Client::new(connector, timeouts, common);
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
    let (authority, path) = (&origin.authority, &health.path);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let request = Outgoing {
        https: origin.https,
        authority,
        method: &Method::GET,
        head: head.as_bytes(),
        content: &mut Upload::Empty,
        on_interim: &mut drop,
        lost_try: None,
    };
    let answer = tokio::time::timeout(health.interval, client.send(request)).await;
    matches!(answer, Ok(Ok((head, _))) if head.status.is_success() || head.status.is_redirection())
}
