//! Purges at edges: at the caches that get their responses from this one. Each purge here is repeated there, by their admin
//! listeners, before it is answered. Edges do not repeat it, so two caches that name each other end no purge in a circle.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Serialize;
use tokio::task::JoinSet;
use url::form_urlencoded::Serializer;

use crate::base::settings::{Origin, Token};
use crate::flow::worker::ProcessState;
use crate::http::body::Upload;
use crate::origin::{Client, Connector, OriginRequest, OutgoingHead};

/// The parameter of a purge that is not to be repeated at edges.
pub const OF_SHIELD: &str = "of_shield";

/// How often a purge is sent to an edge that does not answer, and the time for each answer.
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(2);

/// What a purge purges: a query for the admin listener of another cache, for each kind of scope.
pub(crate) type Queries = Vec<Vec<(&'static str, String)>>;

/// The state of a purge at the edges.
#[derive(Debug, Serialize)]
pub(crate) struct EdgePurges {
    /// The number of edges that have it in force.
    pub(crate) purged: usize,
    /// The number of edges.
    pub(crate) of: usize,
    /// The edges that do not have it in force, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
}

/// Repeats a purge at all edges; `None` if there are no edges, or if none of `queries` is for them.
pub(crate) async fn purge(
    shared: &Arc<ProcessState>,
    queries: &Queries,
    removes: bool,
) -> Option<EdgePurges> {
    let plan = shared.plan();
    let (edges, token) = (&plan.settings.purge_edges, plan.settings.admin_token.as_ref()?);
    if edges.is_empty() || queries.is_empty() {
        return None;
    }
    let effect = if removes { "hard" } else { "soft" };
    let written = |query: &Vec<(&'static str, String)>| {
        let more = [(effect, String::new()), (OF_SHIELD, String::new())];
        Serializer::new(String::new()).extend_pairs(query.iter().chain(&more)).finish()
    };
    let queries: Vec<String> = queries.iter().map(written).collect();
    let (timeouts, common) = (&plan.settings.timeouts, &shared.origins.sites);
    let connector = Connector::new(timeouts.connect, false, common).never_to(&shared.own);
    let client = Client::new(connector.with_tls(&shared.tls), timeouts, common);
    let mut telling = JoinSet::new();
    for edge in edges {
        telling.spawn(tell(client.clone(), edge.clone(), token.clone(), queries.clone()));
    }
    let missing: Vec<_> = telling.join_all().await.into_iter().filter_map(Result::err).collect();
    missing.iter().for_each(|why| tracing::warn!("a purge is not in force at an edge: {why}"));
    Some(EdgePurges { purged: edges.len() - missing.len(), of: edges.len(), missing })
}

/// Sends purges to an edge. Errors: the edge, and why it does not have them in force.
async fn tell(client: Client, edge: Origin, token: Token, queries: Vec<String>) -> Result<(), String> {
    for query in &queries {
        let mut tries = 1;
        while let Err(why) = tell_once(&client, &edge, &token, query).await {
            if tries == TRIES {
                return Err(format!("{edge}: {why}"));
            }
            tokio::time::sleep(PATIENCE / 10 * tries).await;
            tries += 1;
        }
    }
    Ok(())
}

async fn tell_once(client: &Client, edge: &Origin, token: &Token, query: &str) -> Result<(), String> {
    let (host, token) = (edge.host(), token.secret());
    let head = format!(
        "POST /purge?{query} HTTP/1.1\r\nHost: {host}\r\nLarder-Admin: 1\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut content = Upload::Empty;
    let mut request = OriginRequest::new(edge.https, &edge.authority, &Method::POST, &mut content);
    let sending = client.send(OutgoingHead::Http1(head.as_bytes()), &mut request);
    match tokio::time::timeout(PATIENCE, sending).await {
        Ok(Ok((head, _))) if head.status == StatusCode::OK => Ok(()),
        Ok(Ok((head, _))) => Err(format!("status {}", head.status.as_u16())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}
