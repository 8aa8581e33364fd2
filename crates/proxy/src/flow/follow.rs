//! Following another request's fetch: how long, and what a client gets that has waited in vain or has left.

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

/// How soon a claim to a permit is lent again: the fetch may have begun to wait since.
const LEND_AGAIN: Duration = Duration::from_secs(1);

/// How long to wait for another request's fetch: what that may spend waiting for a permit, connecting, and waiting for the
/// answer.
pub(crate) fn patience(plan: &Plan, request: &Request) -> Instant {
    let timeouts = &plan.settings.timeouts;
    let first_byte = request.ruling.tries.first_byte.unwrap_or(timeouts.first_byte);
    Instant::now() + timeouts.first_byte + timeouts.connect + first_byte
}

/// What the fetch that `reader` follows turns out to be, by `patience` at the latest; the reply if that passes, or the
/// client leaves. While the fetch waits for a permit, it may have that of this client.
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

/// The reply to a client that has left.
pub(crate) fn left() -> Reply {
    let status = StatusCode::from_u16(CLIENT_LEFT).unwrap_or(StatusCode::REQUEST_TIMEOUT);
    Reply { close: true, ..failure(status, Why::ClientLeft) }
}

/// No standard's status, but the one by which logs are known to say this.
const CLIENT_LEFT: u16 = 499;
