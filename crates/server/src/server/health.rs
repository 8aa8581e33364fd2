//! Active health checks: sends requests to the origins of sites with active checks, at the sites' intervals.

use std::sync::Arc;

use http::{HeaderMap, Method};
use tokio::task::JoinSet;

use crate::base::networks::host_of;
use crate::base::settings::{Health, HostHeader, Origin, socket_of};
use crate::exchange::route::SiteState;
use crate::flow::worker::ProcessState;
use crate::http::body::Upload;
use crate::http::fields::FieldWriter;
use crate::origin::{
    Chunk, Client, Connector, Download, OriginRequest, OutgoingHead, Pool, Turn, tls_config,
};

/// Starts the checks of the current plan; dropping the set ends them.
pub(crate) fn start(shared: &Arc<ProcessState>) -> JoinSet<()> {
    let plan = shared.plan();
    let mut checks = JoinSet::new();
    let wanted = plan.sites.iter().filter_map(|site| Some((site, site.settings.health.clone()?)));
    for (site, health) in wanted {
        let timeouts = &plan.settings.timeouts;
        match tls_config::tls() {
            Ok(tls) => {
                let common = &shared.origins.sites;
                let connector = Connector::new(timeouts.connect, false, common).never_to(&shared.own);
                let connector = connector.through(plan.parents_of(site));
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
        for turn in site.pools().flat_map(Pool::all) {
            let found = look(&client, &turn, &health, host(&site, turn.origin())).await;
            if turn.checked(&found, health.thresholds) {
                let (name, origin) = (&site.settings.name, &turn.origin().authority);
                match found {
                    Ok(()) => tracing::warn!("origin {origin} of {name} is healthy again"),
                    Err(why) => tracing::warn!("origin {origin} of {name} is unhealthy: {why}"),
                }
            }
        }
    }
}

/// Returns the host of the checks of `origin`: that of clients' requests, as far as it is known, since a server of several
/// hosts answers for one of them.
fn host<'h>(site: &'h SiteState, origin: &'h Origin) -> &'h str {
    let own = site.settings.hosts.iter().find(|host| !host.starts_with('*'));
    match (&site.settings.host, own) {
        (HostHeader::Set(host), _) if origin.bucket.is_none() => host,
        (HostHeader::Preserve, Some(host)) if origin.bucket.is_none() => host,
        _ => origin.host(),
    }
}

/// Requests the health check path from an origin. The error is the reason why the origin is not well.
async fn look(client: &Client, turn: &Turn<'_>, health: &Health, host: &str) -> Result<(), String> {
    let origin = turn.origin();
    let authority = &match health.port {
        Some(port) if socket_of(&origin.authority).is_none() => {
            format!("{}:{port}", host_of(&origin.authority))
        }
        _ => origin.authority.clone(),
    };
    let signed = match turn.signer() {
        Some(signer) => {
            Some(signer.sign(client, &Method::GET, (host, &health.path), &HeaderMap::new()).await)
        }
        None => None,
    };
    let signed = signed.transpose().map_err(|error| error.to_string())?;
    let path = signed.as_ref().map_or(&health.path, |signed| &signed.path);
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    let fields = signed.iter().flat_map(|signed| &signed.fields);
    fields.for_each(|(name, value)| text.field(name.as_bytes(), value.as_bytes()));
    text.extend_from_slice(b"\r\n");
    let head = match origin.http2 {
        true => OutgoingHead::Http2 { host, path, fields: Box::default() },
        false => OutgoingHead::Http1(&text),
    };
    let mut content = Upload::Empty;
    let mut request = OriginRequest::new(origin.https, authority, &Method::GET, &mut content);
    let answered = async {
        let (head, download) = client.send(head, &mut request).await.map_err(|error| error.to_string())?;
        if !health.statuses.iter().any(|own| own.contains(&head.status.as_u16())) {
            return Err(format!("status {} for its health check {path}", head.status.as_u16()));
        }
        match &health.text {
            Some(text) if !has(download, text).await => {
                Err(format!("its answer to the health check {path} lacks '{}'", text.escape_debug()))
            }
            _ => Ok(()),
        }
    };
    let late = |_| Err(format!("no answer to its health check {path} in {:?}", health.interval));
    tokio::time::timeout(health.interval, answered).await.unwrap_or_else(late)
}

/// The longest content in which the text is looked for, in bytes.
const LONGEST: usize = 64 << 10;

/// Whether the content of `download` has `text`.
async fn has(mut download: Box<Download>, text: &str) -> bool {
    let mut content = Vec::new();
    while let Ok(Some(chunk)) = download.next().await
        && content.len() < LONGEST
    {
        if let Chunk::Data(data) = chunk {
            content.extend_from_slice(data);
        }
    }
    content.windows(text.len()).any(|part| part == text.as_bytes())
}
