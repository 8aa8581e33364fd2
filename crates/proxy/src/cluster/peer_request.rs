//! The senders of requests on the listener for nodes: each request has a field that names the client and the kind of
//! listener for which the node asks. Such a request is sent on at most to a node that drains and owned its key before.

use std::io::Write;
use std::net::SocketAddr;

use http::{Method, StatusCode};
use larder_cluster::seal::MessageKind;
use larder_semantics::fields::Fields;

use super::sealed::ForgeryCounts;
use super::{Cluster, session};
use crate::base::settings::Role;
use crate::exchange::position::RequiredPosition;
use crate::exchange::request::Request;
use crate::exchange::target::key_role;
use crate::http::head::{Refusal, RequestHead, Target};

/// The field in which a node describes the client of a request to another node: role and address; then the seal of
/// this request, and the position up to which the node has followed the purges.
pub(crate) const FIELD: &str = "larder-peer";

const STRANGER: Refusal = Refusal::new(StatusCode::FORBIDDEN, "only nodes of the cluster are answered here");

/// The sender of a request, and the kind of listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerRequest {
    pub(crate) role: Role,
    pub(crate) client: SocketAddr,
    /// Whether the request comes through another node.
    pub(crate) by_peer: bool,
    /// Set if the asking node or the client knows of more purges than this node has obeyed.
    pub(crate) awaited: Option<RequiredPosition>,
}

impl PeerRequest {
    /// Returns the client that sends `head` on a listener of this role. A position that it shows counts if this node,
    /// of `cluster`, has not reached it yet.
    #[inline]
    pub(crate) fn of_client(
        cluster: Option<&Cluster>,
        role: Role,
        client: SocketAddr,
        head: &RequestHead<'_>,
    ) -> Self {
        let shown = || {
            let (cluster, value) = (cluster?, session::last_shown(&head.fields)?);
            let is_read = matches!(head.method, Method::GET | Method::HEAD);
            is_read.then(|| cluster.awaited(value))?
        };
        let awaited = shown().map(RequiredPosition::Shown);
        Self { role, client, by_peer: false, awaited }
    }

    /// Returns the sender of `head` on a listener for nodes of `cluster`. Errors: the refusal of a request that does
    /// not come from a node.
    pub(crate) fn of_peer(cluster: Option<&Cluster>, head: &RequestHead<'_>) -> Result<Self, Refusal> {
        // By a PUT, a node offers a stored response.
        let is_known = matches!(head.method, Method::GET | Method::HEAD | Method::PUT);
        let cluster = cluster.filter(|_| is_known).ok_or(STRANGER)?;
        let value = head.fields.first(FIELD).and_then(|value| std::str::from_utf8(value).ok());
        let mut words = value.ok_or(STRANGER)?.split(' ');
        let [role, client, shown, place] = [(); 4].map(|()| words.next().unwrap_or_default());
        let asked = SealedRequest {
            to: &cluster.id,
            method: head.method.as_str(),
            url: url_of(head),
            role,
            client,
            place,
        };
        if !asked.is_sealed(cluster, shown) {
            return Err(STRANGER);
        }
        let awaited =
            Some(place).filter(|place| !place.is_empty() && !cluster.invalidations.has_reached(place));
        match (Role::of_name(role), client.parse()) {
            (Some(role), Ok(client)) => {
                let awaited = awaited.map(|place| RequiredPosition::Place(place.into()));
                Ok(Self { role, client, by_peer: true, awaited })
            }
            _ => Err(STRANGER),
        }
    }
}

/// The parts of a request to a node that are sealed. A request copied from the network is useless for another page,
/// another node, or the same one after a restart.
struct SealedRequest<'a> {
    /// The process to which the request is sent.
    to: &'a str,
    method: &'a str,
    /// Scheme, authority and path.
    url: [&'a str; 3],
    role: &'a str,
    client: &'a str,
    place: &'a str,
}

impl SealedRequest<'_> {
    fn parts(&self) -> [&[u8]; 8] {
        let [scheme, authority, path] = self.url;
        [self.to, self.method, scheme, authority, path, self.role, self.client, self.place].map(str::as_bytes)
    }

    fn is_sealed(&self, cluster: &Cluster, shown: &str) -> bool {
        let is_sealed = cluster.seal.is(MessageKind::Request, &self.parts(), shown.as_bytes());
        if !is_sealed {
            ForgeryCounts::count(&cluster.forged.requests, "a request on the listener for nodes");
        }
        is_sealed
    }
}

fn url_of<'b>(head: &RequestHead<'b>) -> [&'b str; 3] {
    match head.target {
        Target::Absolute { scheme, authority, path } => [scheme, authority, path],
        Target::Origin { host, path } => ["", host, path],
        Target::Authority(authority) => ["", authority, ""],
        Target::Asterisk { host } => ["", host, "*"],
    }
}

/// Appends the field that names the client of `request` to the process called `to`, which has to be at `place`.
pub(super) fn introduce(out: &mut Vec<u8>, cluster: &Cluster, to: &str, request: &Request, place: &str) {
    let role = key_role(&request.key).unwrap_or(Role::Reverse);
    let client = request.client.to_string();
    let (method, role) = (request.method.as_str(), role.name());
    let url = [request.scheme, &*request.authority, &*request.path];
    let asked = SealedRequest { to, method, url, role, client: &client, place };
    let seal = cluster.seal.text(MessageKind::Request, &asked.parts());
    // Writing to a vector does not fail.
    let _ = write!(out, "{FIELD}: {role} {client} {seal} {place}\r\n");
}
