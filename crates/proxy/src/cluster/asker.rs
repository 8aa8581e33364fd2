//! Who asks on the listener for nodes: a node, with a field that says for whom, and by which listener of its own.
//! What comes that way is never sent on to yet another node.

use std::io::Write;
use std::net::SocketAddr;

use http::{Method, StatusCode};
use larder_semantics::fields::Fields;

use super::Cluster;
use crate::http1::head::{Head, Refusal};
use crate::request::Request;
use crate::settings::Role;

/// The field by which one node tells another for whom it asks: role, address and token; and how far it has followed what
/// is purged.
pub(crate) const FIELD: &str = "larder-peer";

/// Stands for a token where there is none.
const NO_TOKEN: &str = "-";

const STRANGER: Refusal =
    Refusal { status: StatusCode::FORBIDDEN, reason: "only nodes of the cluster are answered here" };

/// Who asks, and by which kind of listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) role: Role,
    pub(crate) client: SocketAddr,
    /// It comes by way of another node.
    pub(crate) by_peer: bool,
    /// That node has heard of more purges: this is how far it is.
    pub(crate) awaited: Option<Box<str>>,
}

impl Asker {
    /// Who asks with `head` on a listener for nodes of `cluster`.
    ///
    /// # Errors
    /// The refusal of what comes from no node.
    pub(crate) fn of_peer(cluster: Option<&Cluster>, head: &Head<'_>) -> Result<Self, Refusal> {
        let cluster =
            cluster.filter(|_| matches!(head.method, Method::GET | Method::HEAD)).ok_or(STRANGER)?;
        let value = head.fields.first(FIELD).and_then(|value| std::str::from_utf8(value).ok());
        let mut words = value.ok_or(STRANGER)?.split(' ');
        let (role, client, shown) = (words.next(), words.next(), words.next().unwrap_or_default());
        let awaited = words.next().filter(|place| !cluster.news.has_reached(place)).map(Into::into);
        let is_known = match &cluster.settings.token {
            Some(token) => token.is(shown.as_bytes()),
            None => shown == NO_TOKEN,
        };
        let role = [Role::Reverse, Role::Forward].into_iter().find(|known| Some(known.name()) == role);
        let client = client.and_then(|client| client.parse().ok());
        match (role, client) {
            (Some(role), Some(client)) if is_known => Ok(Self { role, client, by_peer: true, awaited }),
            _ => Err(STRANGER),
        }
    }
}

/// Appends the line that says for whom `request` is asked.
pub(super) fn introduce(out: &mut Vec<u8>, cluster: &Cluster, request: &Request) {
    let role = if request.key.last() == Some(&b'F') { Role::Forward } else { Role::Reverse };
    let token = cluster.settings.token.as_ref().map_or(NO_TOKEN, |token| token.secret());
    let place = cluster.news.place();
    // Writing to a vector does not fail.
    let _ = write!(out, "{FIELD}: {} {} {token} {place}\r\n", role.name(), request.client);
}
