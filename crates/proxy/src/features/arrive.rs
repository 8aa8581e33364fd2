//! The arrival of a request, for all protocols: its sender, and the answer that the cache has at once.
//!
//! A protocol makes a head of its client's message and asks for the next [`Step`]. Then it writes the answer, passes
//! the owned request to [`dispatch`](super::dispatch), or writes the refusal.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_stats::BatchSums;

use super::{certificate_file, pac, validator};
use crate::base::clock;
use crate::base::settings::Role;
use crate::cluster::peer_request::PeerRequest;
use crate::exchange::arrival::{Arrival, Requester, is_https};
use crate::exchange::forwarded;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::exchange::request_id;
use crate::exchange::target::HashedKey;
use crate::flow::drain::ConnectionPermit;
use crate::flow::serve;
use crate::flow::worker::Worker;
use crate::http::head::{Framing, Refusal, RequestHead};
use crate::net::byte_budget::Share;
use crate::net::tls::client_certificates::ClientIdentity;
use crate::observe::memo::RequestRecord;
use crate::observe::sums::Hit;

/// The client at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) entrance: Entrance,
    pub(crate) address: SocketAddr,
    /// Its identity, perhaps without a certificate; `None` if the listener requests no certificates.
    pub(crate) identity: Option<Arc<ClientIdentity>>,
    /// The host of its tunnel, and the port if it is not 443, if the tunnel is intercepted.
    pub(crate) tunnel: Option<Arc<str>>,
}

/// Where the requests of a connection come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// A listener for clients that speak HTTP.
    Clients(Arrival),
    /// The listener for nodes of the cluster.
    Nodes,
    /// A listener for RPC. A call is counted and recorded as such, not as the requests that it takes.
    Calls,
}

/// The refusal of a request whose answer is missing, which does not occur.
pub(crate) const NO_REPLY: Refusal = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no reply");

/// The next step for a request.
pub(crate) enum Step<'c> {
    /// The cache answers it at once: the reply is in its place.
    Answer(Visit<'c>),
    /// The flow answers it.
    Ask(PendingRequest),
    /// It is refused.
    Refuse(Refusal, Option<Box<RequestRecord>>),
}

/// The arrival of a request that is answered at once.
pub(crate) struct Visit<'c> {
    pub(crate) role: Role,
    client: SocketAddr,
    identity: Option<&'c Arc<ClientIdentity>>,
    id: Option<Arc<str>>,
    by_peer: bool,
    now: u32,
    begun: Option<Instant>,
}

/// A request that the cache cannot answer at once.
pub(crate) struct PendingRequest {
    pub(crate) request: Box<Request>,
    pub(crate) role: Role,
    /// The framing of its content.
    pub(crate) delimited: Framing,
    /// Whether the client waits for `100 Continue`.
    pub(crate) expects: bool,
    pub(crate) memo: Option<Box<RequestRecord>>,
    /// Counts the other end as a connection, if it requests a tunnel.
    pub(crate) permit: Option<ConnectionPermit>,
}

impl Client {
    /// Returns the next step for the request with this head, whose target becomes what the client requested, and puts the
    /// answer of the cache into `place`. `key` is room for its key; an ordinary hit allocates nothing.
    #[inline]
    pub(crate) fn step(
        &self,
        worker: &Arc<Worker>,
        plan: &Plan,
        head: &mut RequestHead<'_>,
        sheet: Option<&mut BatchSums>,
        (key, place): (&mut HashedKey, &mut Option<Reply>),
    ) -> Step<'_> {
        key.bytes.clear();
        let sender = match self.sender(worker, plan, head) {
            Ok(sender) => sender,
            Err(refusal) => return Step::Refuse(refusal, None),
        };
        let now = clock::now();
        let begun = worker.witness.begun(plan, sheet, now);
        if self.entrance != Entrance::Calls {
            worker.versions.count(head.version);
        }
        let PeerRequest { role, client, by_peer, .. } = sender;
        let id = self.id(plan, head);
        let asker =
            Requester { role, address: client, identity: self.identity.as_deref(), id: id.as_ref(), by_peer };
        let is_answered =
            sender.awaited.is_none() && serve::at_once(worker, plan, head, &asker, now, key, place).is_some();
        let Some(reply) = place.as_ref().filter(|_| is_answered) else {
            *place = None;
            return self.take(worker, plan, (head, key, place), sender, (id, begun));
        };
        if worker.sampler.picks(plan.settings.validate.sample) {
            validator::check_hit(worker, head, &asker, reply);
        }
        let identity = self.identity.as_ref();
        Step::Answer(Visit { role, client, identity, id, by_peer, now, begun })
    }

    /// Returns the sender of a request: the client at the other end, or the client for which a node or a trusted proxy
    /// forwards it.
    #[inline]
    fn sender(
        &self,
        worker: &Worker,
        plan: &Plan,
        head: &mut RequestHead<'_>,
    ) -> Result<PeerRequest, Refusal> {
        let cluster = worker.shared.cluster.as_deref();
        match self.entrance {
            Entrance::Clients(arrival) => {
                if let Some(site) = &self.tunnel {
                    forwarded::direct(site, head)?;
                }
                let client = forwarded::believe(&plan.settings.trust, arrival, self.address, head)?;
                Ok(PeerRequest::of_client(cluster, arrival.role, client, head))
            }
            Entrance::Nodes => PeerRequest::of_peer(cluster, head),
            Entrance::Calls => {
                let (role, client) = (Role::Forward, self.address);
                Ok(PeerRequest { role, client, by_peer: false, awaited: None })
            }
        }
    }

    /// Returns the id of the request with this head, if requests have ids: the one that a trusted proxy or another node
    /// sends, or a new one.
    #[inline]
    fn id(&self, plan: &Plan, head: &RequestHead<'_>) -> Option<Arc<str>> {
        let name = plan.settings.request_id.as_ref()?;
        let is_trusted = match self.entrance {
            Entrance::Clients(_) => plan.settings.trust.has(self.address.ip()),
            Entrance::Nodes => true,
            Entrance::Calls => false,
        };
        Some(request_id::of(head.fields.first(name.as_str()).filter(|_| is_trusted)))
    }

    /// Makes a request that outlives its head.
    fn take(
        &self,
        worker: &Arc<Worker>,
        plan: &Plan,
        (head, key, place): (&RequestHead<'_>, &HashedKey, &mut Option<Reply>),
        sender: PeerRequest,
        (id, begun): (Option<Arc<str>>, Option<Instant>),
    ) -> Step<'_> {
        let PeerRequest { role, client, by_peer, awaited } = sender;
        if let Entrance::Clients(Arrival { role: Role::Forward, tls }) = self.entrance
            && let Some(reply) = pac::answer(&plan.settings.forward, head, tls)
                .or_else(|| certificate_file::answer(worker, head))
        {
            let (identity, now) = (self.identity.as_ref(), clock::now());
            *place = Some(reply);
            return Step::Answer(Visit { role, client, identity, id, by_peer, now, begun });
        }
        let mut memo = match self.entrance {
            Entrance::Calls => None,
            _ => worker.witness.note(plan, role, head, (client, self.identity.as_ref()), begun),
        };
        if let Some(memo) = &mut memo {
            memo.id.clone_from(&id);
        }
        let held = worker.permit_of_tunnel(plan, head);
        let held =
            held.and_then(|permit| Ok((permit, share_of_head(worker, (head, &key.bytes), client.ip())?)));
        let asker =
            Requester { role, address: client, identity: self.identity.as_deref(), id: id.as_ref(), by_peer };
        let request = Request::take_with(key, head, &worker.cache.store.memory, plan, &asker);
        match request.and_then(|request| Ok((request, held?))) {
            Ok((mut request, (permit, long_head))) => {
                request.entered.long_head = long_head;
                request.trace = memo.as_ref().and_then(|memo| memo.trace.clone());
                request.fetched = memo.as_mut().and_then(|memo| memo.count_fetched(plan));
                request.awaited = awaited;
                let (delimited, expects) = (head.framing, head.expects_continue);
                Step::Ask(PendingRequest { request, role, delimited, expects, memo, permit })
            }
            Err(refusal) => Step::Refuse(refusal, memo),
        }
    }
}

/// The length of the URL and the fields, in bytes, from which a head is long.
const LONG: usize = 4 << 10;
const TOO_MANY_LONG_HEADS: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "too many requests with long heads are in progress",
};

/// Returns the share of a long head in the memory for those of all requests in progress; `None` for a short one. Errors: the
/// refusal, if the client, or all of them, hold too much already.
fn share_of_head(
    worker: &Worker,
    (head, url): (&RequestHead<'_>, &[u8]),
    client: IpAddr,
) -> Result<Option<Box<Share>>, Refusal> {
    let fields = head.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    let length = url.len() + fields;
    if length <= LONG {
        return Ok(None);
    }
    let mut share = worker.shared.long_heads.share(client);
    share.grow(length).then(|| Some(Box::new(share))).ok_or(TOO_MANY_LONG_HEADS)
}

impl Visit<'_> {
    /// Whether the client itself used https.
    #[inline]
    pub(crate) fn is_secure(&self, head: &RequestHead<'_>) -> bool {
        !self.by_peer && is_https(&head.target)
    }

    /// Returns the hit for the counters and the statistics.
    #[inline]
    pub(crate) fn hit<'h>(&'h self, head: &'h RequestHead<'h>) -> Hit<'h> {
        let Self { role, client, identity, now, begun, .. } = *self;
        Hit { role, head, client, identity, id: self.id.as_ref(), now, begun }
    }

    /// Returns the record of the request, if its reply takes longer to send; `None` if no observer needs it.
    pub(crate) fn note(
        &self,
        worker: &Worker,
        plan: &Plan,
        head: &RequestHead<'_>,
    ) -> Option<Box<RequestRecord>> {
        let mut memo =
            worker.witness.note(plan, self.role, head, (self.client, self.identity), self.begun)?;
        memo.id.clone_from(&self.id);
        Some(memo)
    }
}
