//! Following another request's fetch: how long to wait, and the reply to a client whose wait timed out or that has left.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use http::StatusCode;
use larder_semantics::status::Why;
use larder_store::fill::{Reader, Verdict};
use tokio::time::{Instant, timeout, timeout_at};

use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::context::failure;
use crate::flow::upstream;

/// The interval after which a claim to a permit is lent again: since the last time, the fetch may have begun to wait
/// for a permit.
const LEND_AGAIN: Duration = Duration::from_secs(1);

/// Returns the deadline of a wait for another request's fetch: the sum of the time limits for a permit, the connection
/// and the answer.
pub(crate) fn patience(plan: &Plan, request: &Request) -> Instant {
    let timeouts = &plan.settings.timeouts;
    let first_byte = request.ruling.first_byte.unwrap_or(timeouts.first_byte);
    let connect = request.ruling.connect.unwrap_or(timeouts.connect);
    Instant::now() + timeouts.first_byte + connect + first_byte
}

/// Waits for the verdict on the fetch that `reader` follows, until `patience` at the latest. While the fetch waits for
/// a permit, it may use this client's claim to one. Errors: the reply, if the deadline passes or the client leaves.
pub(crate) async fn verdict(
    plan: &Plan,
    request: &Request,
    reader: &Reader,
    patience: Instant,
) -> Result<Verdict, Box<Reply>> {
    let verdict = async {
        loop {
            plan.concurrency.lend(reader.fetch(), upstream::claim(plan, request));
            if let Ok(verdict) = timeout(LEND_AGAIN, reader.verdict()).await {
                return verdict;
            }
        }
    };
    match timeout_at(patience, request.unless_left(pin!(verdict), ready(()))).await {
        Ok(Some(verdict)) => Ok(verdict),
        Ok(None) => Err(Box::new(left())),
        Err(_) => Err(Box::new(failure(StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout))),
    }
}

/// Returns the reply that is recorded for a client that has left.
pub(crate) fn left() -> Reply {
    let status = StatusCode::from_u16(CLIENT_LEFT).unwrap_or(StatusCode::REQUEST_TIMEOUT);
    Reply { close: true, ..failure(status, Why::ClientLeft) }
}

/// The status by which logs conventionally mark a client that has left; no standard defines it.
const CLIENT_LEFT: u16 = 499;
