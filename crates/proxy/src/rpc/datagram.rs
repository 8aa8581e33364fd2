//! ONC RPC over UDP: one socket, with one datagram for each call and each reply.
//!
//! Clients repeat calls without a reply, so calls beyond a limit are dropped. A reply is much longer than its call, and
//! its destination address can be forged: beyond loopback, only listed clients get replies, and few per second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_rpc::onc::{self, Reply as Encoder};
use larder_rpc::{Call, CallRequest, Failure, ReplyEncoder};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;

use super::content::collect;
use super::page::{self, Page, undelivered};
use super::rate::Rate;
use super::{State, Visitor, deliver, failure, statistics};
use crate::base::settings::Door;
use crate::base::{clock, networks};
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::route::SiteNumber;
use crate::flow::drain::{ConnectionPermit, Drain};
use crate::flow::worker::Worker;
use crate::observe::memo::RequestResult;

/// Maximum of concurrent calls.
const CALLS: usize = 64;
/// The maximum length of a datagram, which also bounds the page in it.
const LONGEST: usize = 64 << 10;

/// Replies to calls until the drain begins.
pub(crate) async fn serve(worker: Arc<Worker>, doors: Arc<State>, socket: UdpSocket) {
    let (socket, places) = (Arc::new(socket), Arc::new(Semaphore::new(CALLS)));
    let mut drain = Drain::new(&worker);
    let (mut buffer, mut rate) = (vec![0; LONGEST], Rate::default());
    loop {
        let received = tokio::select! {
            biased;
            () = drain.begun() => if worker.shared.phases.accepts().await { continue } else { return },
            received = socket.recv_from(&mut buffer) => received,
        };
        let (length, client) = match received {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!("cannot receive a datagram: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let plan = worker.plan();
        let settings = &plan.settings.doors;
        if !networks::have(&settings.clients, client.ip()) {
            tracing::debug!(%client, "dropped: not among the clients of this listener");
            continue;
        }
        if !rate.admits(client.ip(), clock::now(), settings.onc_udp_rate) {
            tracing::debug!(%client, "dropped: too many calls in a second");
            continue;
        }
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let visitor =
            Visitor { worker: Arc::clone(&worker), doors: Arc::clone(&doors), door: Door::Onc, client };
        // The process must not end during a call.
        let permit = ConnectionPermit::take(&worker);
        let (socket, call) = (Arc::clone(&socket), buffer[..length].to_vec());
        tokio::spawn(async move {
            let _held = (place, permit);
            answer(&visitor, &socket, client, &call).await;
        });
    }
}

async fn answer(visitor: &Visitor, socket: &UdpSocket, client: SocketAddr, call: &[u8]) {
    let answer = match onc::datagram(call) {
        Ok(CallRequest { call, reply: encoder }) => match call {
            Call::Fetch { url } => fetch(visitor, &url, &encoder).await,
            Call::Statistics => encoder.statistics(&statistics(visitor)),
            Call::Ping | Call::Reset => encoder.done(),
        },
        Err(rejected) => {
            tracing::debug!(%client, "rejected: {}", rejected.why);
            rejected.reply
        }
    };
    if !answer.is_empty()
        && let Err(error) = socket.send_to(&answer, client).await
    {
        tracing::debug!(%client, "cannot send a datagram: {error}");
    }
}

async fn fetch(visitor: &Visitor, url: &str, encoder: &Encoder) -> Bytes {
    let begun = Instant::now();
    let plan = visitor.worker.plan();
    let memo = visitor.note(&plan, url);
    let page = match page::look(visitor, &plan, url, memo.as_ref().and_then(|memo| memo.trace.clone())) {
        Ok(look) => Box::pin(page::follow(visitor, &plan, url, look)).await,
        Err(failure) => Page { found: Err(failure), outcome: page::refusal() },
    };
    let age = page.age();
    let (answer, outcome) = match page.found {
        Ok(mut reply) => match whole(visitor, &plan, url, &mut reply, encoder).await {
            Ok(answer) => (Ok(answer), page.outcome),
            Err(failure) => (Err(failure), undelivered(page.outcome)),
        },
        Err(failure) => (Err(failure), page.outcome),
    };
    let (status, answer) = match answer {
        Ok(answer) => (200, answer),
        Err(failure) => {
            tracing::debug!(client = %visitor.client, url, "{}", failure.why);
            (failure.status, encoder.failure(&failure))
        }
    };
    let (site, bytes) = (SiteNumber::FORWARD, answer.len() as u64);
    let ended = RequestResult { status, site, hash: 0, outcome, age, bytes, saved: None };
    visitor.record(&plan, begun, &ended, memo);
    answer
}

/// Returns the reply that contains the whole page.
async fn whole(
    visitor: &Visitor,
    plan: &Plan,
    url: &str,
    reply: &mut Reply,
    encoder: &Encoder,
) -> Result<Bytes, Failure> {
    let too_long = || failure(url, 502, "the page is too long for a datagram");
    let (coding, length) = deliver::shape(reply).map_err(|why| failure(url, 502, why))?;
    if length.is_some_and(|length| length > LONGEST as u64) {
        return Err(too_long());
    }
    let most = plan.settings.doors.max_page.min(LONGEST as u64);
    let page = collect(reply, coding, most, visitor).await;
    let page = page.map_err(|obstacle| obstacle.failure(url))?.bytes;
    deliver::check_nul(encoder, url, &page)
        .inspect_err(|failure| tracing::warn!(client = %visitor.client, url, "{}", failure.why))?;
    let envelope = encoder.page(page.len()).ok_or_else(too_long)?;
    Ok(envelope.around(page).concat().into())
}
