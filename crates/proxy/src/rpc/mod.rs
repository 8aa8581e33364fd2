//! Doors: thin fronts by which programs that speak RPC get pages through the same flow.
//!
//! `page` turns a URL into requests and follows redirects; `deliver` sends a page as it is, `content`
//! reads it where it has to be put together first, `decode` undoes codings; `connection` is what a TCP client
//! meets, `datagram` what one over UDP does, `rate` how much of it; `rpcbind` tells ONC clients where we are; `figures` counts.
//! The protocols themselves are `larder-rpc`'s, what may be cached is `larder-semantics`'.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use larder_rpc::{Failure, Limits};

use crate::base::settings::Door;
use crate::exchange::plan::Plan;
use crate::flow::worker::Worker;
use crate::observe::memo::{Ended, Memo};

mod budget;
mod connection;
mod content;
mod datagram;
mod decode;
mod deliver;
mod figures;
mod page;
mod rate;
mod rpcbind;

use budget::Budget;
pub(crate) use connection::welcome;
pub(crate) use datagram::serve as serve_datagrams;
pub(crate) use figures::RpcReport;
use figures::{Figures, statistics};
pub(crate) use rpcbind::Registration;

/// What all workers share of the doors.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What the doors counted.
    pub(crate) figures: Figures,
    /// What the doors may hold.
    budget: Budget,
}

/// Who asks, and through which door.
struct Visitor {
    worker: Arc<Worker>,
    doors: Arc<State>,
    door: Door,
    client: SocketAddr,
}

impl Visitor {
    /// The record of a call for `url`; `None` if nothing needs it.
    fn note(&self, plan: &Plan, url: &str) -> Option<Memo> {
        self.worker.note_call(plan, self.door, url, self.client)
    }

    /// Counts a call that came at `begun`.
    fn record(&self, plan: &Plan, begun: Instant, ended: &Ended, memo: Option<Memo>) {
        let tally = self.doors.figures.of(self.door);
        let took = begun.elapsed();
        tally.record(&ended.outcome, ended.bytes, took);
        self.worker.times.served(ended.outcome.kind, took);
        self.worker.record(plan, ended, memo);
    }
}

/// How much a call may make us hold: a URL, and what frames it.
fn limits(plan: &Plan) -> Limits {
    Limits { message: plan.settings.limits.target_bytes + 1024, ..Limits::default() }
}

fn failure(url: &str, status: u16, why: impl Into<String>) -> Failure {
    Failure { what: url.to_owned(), why: why.into(), status }
}
