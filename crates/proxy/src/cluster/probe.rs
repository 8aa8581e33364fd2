//! Checks whether a silent node is still present.
//!
//! An owner may be silent because it waits for a slow origin. Or it hangs, or packets do not reach it; the requests
//! that wait for its answer cannot distinguish these cases. So while it is silent, one of the waiting requests sends
//! it a probe that it answers at once ([`answer`]), on behalf of all of them. If there is no answer, all of them are
//! sent to the origin, and the owner gets no requests until it answers again. A separate task checks that, so no
//! request waits for it.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use larder_semantics::fields::Fields;
use larder_store::lines::write_line;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::peer::{Life, OwnerNode};
use super::peer_request::FIELD;
use crate::base::settings::Origin;
use crate::http::body::Upload;
use crate::http::head;
use crate::origin::{Client, OriginRequest, OutgoingHead};

/// How long a node may be silent before it is probed.
pub(crate) const SILENCE: Duration = Duration::from_millis(250);
/// How long the answer to a probe may take.
pub(crate) const PATIENCE: Duration = Duration::from_millis(750);
/// The pause before a lost node is probed again.
const PAUSE: Duration = Duration::from_secs(1);
/// The value of the field that describes a client, in requests without a client.
pub(super) const NO_CLIENT: &[u8] = b"?";

/// Whether `head`, sent to the listener for nodes, is a probe of this node.
pub(crate) fn is_asked(head: &head::RequestHead<'_>) -> bool {
    head.method == Method::HEAD && head.fields.first(FIELD).is_some_and(|value| value.starts_with(NO_CLIENT))
}

/// Appends the answer to a probe: that this node is present, and if it was challenged, the [proof](super::proof) that
/// it is a node.
pub(crate) fn answer(out: &mut Vec<u8>, cluster: Option<&Cluster>, head: &head::RequestHead<'_>) {
    out.extend_from_slice(b"HTTP/1.1 204 No Content\r\n");
    if let Some(proof) = cluster.and_then(|cluster| cluster.proof(head)) {
        write_line(out, FIELD.as_bytes(), proof.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Returns when the node at `origin` is found not to answer any more.
pub(super) async fn lost(client: &Client, life: &Life, origin: &Origin) {
    loop {
        sleep(SILENCE).await;
        if life.is_lost() {
            return;
        }
        if let Some(_asking) = life.turn().filter(|_| life.is_silent(SILENCE)) {
            if answers(client, origin).await { life.heard() } else { return }
        }
    }
}

async fn answers(client: &Client, origin: &Origin) -> bool {
    let mut head = b"HEAD / HTTP/1.1\r\n".to_vec();
    write_line(&mut head, b"host", origin.authority.as_bytes());
    write_line(&mut head, FIELD.as_bytes(), NO_CLIENT);
    head.extend_from_slice(b"\r\n");
    let mut content = Upload::Empty;
    let mut outgoing = OriginRequest::new(origin.https, &origin.authority, &Method::HEAD, &mut content);
    matches!(timeout(PATIENCE, client.send(OutgoingHead::Http1(&head), &mut outgoing)).await, Ok(Ok(_)))
}

/// Sends a node no requests until it answers, or is no member any more.
pub(super) fn leave_alone(cluster: &Arc<Cluster>, client: Client, node: OwnerNode) {
    let OwnerNode { busy, id, origin, .. } = node;
    let peer = busy.peer();
    if !peer.life.lose() {
        return;
    }
    let cluster = Arc::clone(cluster);
    tokio::spawn(async move {
        loop {
            sleep(PAUSE).await;
            let is_member = cluster.members.view().nodes.iter().any(|other| other.id == id);
            if !is_member || answers(&client, &origin).await {
                break;
            }
        }
        peer.life.restore();
    });
}
