//! Sends requests to the node that owns the key, before they are sent to the origin.
//!
//! The owner of a key that was another node's until that began to drain asks that node first, for what it has stored.
//! So a node gives its keys away with their responses.
//!
//! A node that cannot be reached, leaves the cluster meanwhile, [hangs](super::probe), or has no answer of an origin
//! only delays a request: this node then sends it to the origin. A node that could not be reached gets no requests
//! until it answers again. If a node has many more requests in flight than the others, the next node of the ring gets
//! the request.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{self, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_cluster::{Load, key_hash};
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use larder_store::lines::write_line;
use serde::Serialize;

use super::members::{MemberState, View};
use super::peer::{OwnerNode, PeerLoad};
use super::sealed::ForgeryCounts;
use super::{Cluster, peer_request, probe};
use crate::base::counted::counted;
use crate::base::settings::{Origin, Timeouts};
use crate::exchange::attempts::interims_of;
use crate::exchange::passes;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::http::body::Upload;
use crate::http::response::Head;
use crate::origin::{Client, Download, OriginError, OriginRequest, OutgoingHead, Waits};

/// How long a connection to a node may take, without the handshake of TLS.
pub(crate) const CONNECT: Duration = Duration::from_millis(500);
/// The initial capacity for the head of a request to a node; few heads need more.
const HEAD: usize = 1 << 10;

counted! {
    /// Counts of requests to nodes, as `/cluster` shows them.
    #[derive(Clone, Copy, Debug, Serialize)]
    pub struct PeersReport, Figures {
        /// Requests for which another node was asked.
        asked,
        /// Asked requests that the node answered from its cache.
        hits,
        /// Asked requests that the node did not answer: this node asked the origin.
        failed,
        /// Requests that did not go to the owner because it had too many in flight.
        spilled,
    }
}

/// The result of asking the node that owns a key: its answer; or this node asks the origin itself, and counts as busy
/// meanwhile if the request was its turn.
pub(crate) type PeerAnswer = ControlFlow<(Head, Box<Download>), Option<PeerLoad>>;

/// The node that is to answer a request.
enum Turn {
    /// This node, which counts as busy if it is its turn among others.
    This(Option<PeerLoad>),
    Other(OwnerNode),
}

/// Returns the timeouts of requests to nodes: those of origins, and some time for the node itself.
pub(crate) fn timeouts(origins: &Timeouts) -> Timeouts {
    Timeouts { first_byte: waiting(origins.first_byte, origins), ..origins.clone() }
}

/// Returns how long to wait for a node that waits for `first_byte` for an origin.
fn waiting(first_byte: Duration, origins: &Timeouts) -> Duration {
    first_byte + origins.connect + CONNECT
}

/// Asks the node that owns `request`'s key, for a stored response only if `only_stored`. Errors: the node got no answer from
/// the origin in time.
pub(crate) async fn ask(
    cluster: &Arc<Cluster>,
    client: impl FnOnce() -> Client,
    plan: &Plan,
    request: &Request,
    fields: &HeaderMap,
    only_stored: bool,
) -> Result<PeerAnswer, OriginError> {
    let (node, busy) = match Turn::of(cluster, request) {
        Some(Turn::Other(node)) => (Some(node), None),
        Some(Turn::This(busy)) => (OwnerNode::former(cluster, &request.key), busy),
        None => (None, None),
    };
    let Some(node) = node else { return Ok(PeerAnswer::Continue(busy)) };
    // Another node cannot know of purges of this node that are not in the stream.
    let stream = &cluster.invalidations.stream;
    if stream.ordered().is_none() && !Box::pin(stream.is_told()).await {
        return Ok(PeerAnswer::Continue(busy));
    }
    let Some(place) = cluster.invalidations.place() else { return Ok(PeerAnswer::Continue(busy)) };
    cluster.figures.asked.fetch_add(1, Ordering::Relaxed);
    let only_stored = only_stored || node.drains;
    let (client, fields) = (client(), asking(fields, only_stored));
    let asked = node.ask(&client, cluster, plan, request, &fields, &place).await;
    let failed = |why: &dyn std::fmt::Display| {
        cluster.figures.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!("{}: node at {}: {why}", request.logged_url(), node.origin);
    };
    match asked {
        Ok((head, _)) if is_its_own(&head) && only_stored => Ok(PeerAnswer::Continue(busy)),
        Ok((head, _)) if is_its_own(&head) && head.status == StatusCode::GATEWAY_TIMEOUT => {
            failed(&"the origin did not answer it in time");
            Err(timed_out())
        }
        Ok((head, _)) if is_its_own(&head) => {
            failed(&head.status);
            Ok(PeerAnswer::Continue(busy))
        }
        Ok((head, download)) => {
            if status_of(&head).is_some_and(|status| status.is_hit) {
                cluster.figures.hits.fetch_add(1, Ordering::Relaxed);
            }
            Ok(PeerAnswer::Break((head, download)))
        }
        Err(error) => {
            failed(&error);
            if cluster.tls.is_some() && is_of_tls(error.why) {
                ForgeryCounts::count(&cluster.forged.proofs, "a server at a node's address");
            }
            probe::leave_alone(cluster, client, node);
            Ok(PeerAnswer::Continue(busy))
        }
    }
}

/// Offers the stored response to `request`, a PUT without content, to the node that owns its key: that node then asks this one
/// for it. Returns the name of the node, and the status of its answer, if there is one; `None` if no other node owns the key.
pub(crate) async fn offer(
    cluster: &Arc<Cluster>,
    client: &Client,
    plan: &Plan,
    request: &Request,
) -> Option<(String, Option<StatusCode>)> {
    let view = cluster.members.view();
    let owner =
        view.ring.owner(key_hash(&request.key)).filter(|owner| view.nodes[*owner].id != cluster.id)?;
    let name = view.nodes[owner].name.clone();
    let ready = OwnerNode::at(cluster, &view, owner).zip(cluster.invalidations.place());
    let Some((node, place)) = ready else { return Some((name, None)) };
    match node.ask(client, cluster, plan, request, &request.fields, &place).await {
        Ok((head, _)) => Some((name, Some(head.status))),
        Err(error) => {
            tracing::debug!("{}: not offered to node {name}: {error}", request.logged_url());
            probe::leave_alone(cluster, client.clone(), node);
            Some((name, None))
        }
    }
}

/// Returns the name and the address of the node that owns `key`, if that is another node and gets requests.
pub(crate) fn owner(cluster: &Cluster, key: &[u8]) -> Option<String> {
    let view = cluster.members.view();
    let owner = view.ring.owner(key_hash(key)).filter(|_| view.standing == MemberState::Member)?;
    OwnerNode::at(cluster, &view, owner)?;
    let node = &view.nodes[owner];
    Some(format!("{} at {}", node.name, node.advertise))
}

/// Whether TLS with a node failed, so that it does not prove to be a node.
fn is_of_tls(why: Why) -> bool {
    use Why::{OriginNotTls, OriginTls, OriginTlsCertificate, OriginTlsName, OriginTlsUntrusted};
    matches!(why, OriginTls | OriginTlsUntrusted | OriginTlsName | OriginTlsCertificate | OriginNotTls)
}

fn timed_out() -> OriginError {
    let detail = "no answer within the time limit of the requesting node".to_owned();
    OriginError::new(StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout, detail)
}

impl Turn {
    /// Returns the node to ask for the response to `request`; `None`: there is none, or it gets no requests at present.
    fn of(cluster: &Cluster, request: &Request) -> Option<Self> {
        let view = cluster.members.view();
        if view.standing != MemberState::Member {
            return None;
        }
        if request.by_peer {
            return Some(Self::This(None));
        }
        let hash = key_hash(&request.key);
        let in_flight: Vec<_> = view.peers.iter().map(|peer| peer.in_flight()).collect();
        let chosen = Load::default().choose(&view.ring, hash, &in_flight)?;
        if view.ring.owner(hash) != Some(chosen) {
            cluster.figures.spilled.fetch_add(1, Ordering::Relaxed);
        }
        if view.nodes[chosen].id == cluster.id {
            return Some(Self::This(Some(PeerLoad::at(&view.peers[chosen]))));
        }
        OwnerNode::at(cluster, &view, chosen).map(Self::Other)
    }
}

impl OwnerNode {
    /// Returns the node with this index, if it is another one and gets requests.
    fn at(cluster: &Cluster, view: &View, index: usize) -> Option<Self> {
        let (node, peer) = (&view.nodes[index], &view.peers[index]);
        (node.id != cluster.id && peer.is_well() && cluster.may_ask(node)).then(|| Self {
            busy: PeerLoad::at(peer),
            id: node.id.clone(),
            origin: node.advertise.clone(),
            drains: node.draining,
        })
    }

    /// Returns the draining node that owned `key` before.
    fn former(cluster: &Cluster, key: &[u8]) -> Option<Self> {
        let view = cluster.members.view();
        Self::at(cluster, &view, view.former_owner(key_hash(key))?)
    }

    async fn ask(
        &self,
        client: &Client,
        cluster: &Cluster,
        plan: &Plan,
        request: &Request,
        fields: &HeaderMap,
        place: &str,
    ) -> Result<(Head, Box<Download>), OriginError> {
        let mut head = Vec::with_capacity(HEAD);
        write_head(&mut head, request, fields, |out| {
            peer_request::introduce(out, cluster, &self.id, request, place);
            // A request that returns to this node through the other one is a loop, too. A draining node sends none on, and
            // may have sent this one.
            if !self.drains {
                passes::write_via(out, plan, request, fields);
            }
        });
        let mut content = Upload::Empty;
        let Origin { https, authority, .. } = &self.origin;
        let mut outgoing = OriginRequest {
            on_interim: Some(&mut interims_of(request)),
            waits: Waits {
                connect: None,
                first_byte: request.ruling.first_byte.map(|time| waiting(time, &plan.settings.timeouts)),
                between: request.ruling.origin_idle,
            },
            ..OriginRequest::new(*https, authority, &request.method, &mut content)
        };
        let given_up =
            |detail: &str| OriginError::new(StatusCode::BAD_GATEWAY, Why::OriginUnreachable, detail);
        tokio::select! {
            answered = client.send(OutgoingHead::Http1(&head), &mut outgoing) => {
                if answered.is_ok() {
                    self.life().heard();
                }
                answered
            }
            () = gone(cluster, &self.id) => Err(given_up("it is no longer in the cluster")),
            () = probe::lost(client, self.life(), &self.origin) => Err(given_up("it hangs, or cannot be reached")),
        }
    }
}

/// Returns these fields of a request to a node, which asks for a stored response only if `only_stored`.
fn asking(fields: &HeaderMap, only_stored: bool) -> Cow<'_, HeaderMap> {
    let mut fields = Cow::Borrowed(fields);
    if only_stored {
        fields.to_mut().append(header::CACHE_CONTROL, HeaderValue::from_static("only-if-cached"));
    }
    fields
}

/// Waits until the process with this id is known not to be a member any more.
async fn gone(cluster: &Cluster, id: &str) {
    let mut changes = cluster.members.changes();
    while changes.changed().await.is_ok() {
        let view = cluster.members.view();
        if view.standing == MemberState::Member && view.nodes.iter().all(|node| node.id != id) {
            return;
        }
    }
    std::future::pending().await
}

/// Writes the request as the client has sent it: the owner of the key treats it as if the client had connected there.
fn write_head(
    out: &mut Vec<u8>,
    request: &Request,
    fields: &HeaderMap,
    introduce: impl FnOnce(&mut Vec<u8>),
) {
    let (authority, scheme) = (request.authority.as_bytes(), request.scheme.as_bytes());
    let line = [request.method.as_str().as_bytes(), b" ", scheme, b"://", authority, request.path.as_bytes()];
    line.into_iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b" HTTP/1.1\r\n");
    write_line(out, b"host", authority);
    introduce(out);
    for (name, value) in fields.iter().filter(|(name, _)| *name != VIA) {
        write_line(out, name.as_str().as_bytes(), value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// The parts of `Cache-Status` that a node adds to an answer.
struct Status {
    is_hit: bool,
    /// Whether an origin has answered.
    is_answered: bool,
}

/// Returns the last member of `Cache-Status`: that of the node which was asked.
fn status_of(head: &Head) -> Option<Status> {
    let member = head.fields.lines("cache-status").last()?;
    let has =
        |word: &[u8]| member.split(|byte| *byte == b';').any(|part| part.trim_ascii().starts_with(word));
    Some(Status { is_hit: has(b"hit"), is_answered: has(b"fwd-status=") || has(b"collapsed") })
}

/// Whether the node made an answer itself, because it has none of an origin.
fn is_its_own(head: &Head) -> bool {
    let is_failure = head.status.is_client_error() || head.status.is_server_error();
    is_failure && status_of(head).is_none_or(|status| !status.is_hit && !status.is_answered)
}

/// Removes the fields that a node added about itself, since its answer is stored as if it were the origin's.
pub(crate) fn unwrite(fields: &mut HeaderMap) {
    for name in [VIA, HeaderName::from_static("cache-status")] {
        let mut values: Vec<_> = fields.get_all(&name).iter().cloned().collect();
        values.pop();
        fields.remove(&name);
        for value in values {
            fields.append(&name, value);
        }
    }
    fields.remove("x-cache");
}
