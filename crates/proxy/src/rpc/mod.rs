//! Doors: listeners for RPC clients, which get pages through the same flow as HTTP clients.
//!
//! `page` converts a URL into requests and follows redirects; `deliver` streams a page, `content` buffers it if
//! necessary, `decode` decodes content codings; `connection` serves TCP clients, `datagram` UDP clients, and `rate`
//! limits the latter; `rpcbind` registers the ONC door; `figures` counts. The protocols are implemented in
//! `larder-rpc`, the rules of caching in `larder-semantics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use larder_rpc::{Failure, Limits};

use crate::base::settings::Door;
use crate::exchange::plan::Plan;
use crate::flow::worker::Worker;
use crate::net::byte_budget::ByteBudget;
use crate::observe::memo::{RequestRecord, RequestResult};

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

pub(crate) use connection::welcome;
pub(crate) use datagram::serve as serve_datagrams;
pub use figures::RpcReport;
use figures::{Figures, statistics};
use larder_words::with_defaults;
pub use rpcbind::Registration;

with_defaults! {
    /// State of the doors that all workers share.
    #[derive(Debug)]
    pub struct State {
        /// The counts of the doors.
        pub figures: Figures = Figures::default(),
        /// The memory budget for buffered pages.
        budget: ByteBudget = ByteBudget::new(budget::MOST),
    }
}

/// A client and its door.
struct Visitor {
    worker: Arc<Worker>,
    doors: Arc<State>,
    door: Door,
    client: SocketAddr,
}

impl Visitor {
    /// Returns the data of a call for `url`; `None` if no log or statistics need it.
    fn note(&self, plan: &Plan, url: &str) -> Option<Box<RequestRecord>> {
        self.worker.witness.note_call(plan, self.door, url, self.client)
    }

    /// Counts a call that arrived at `begun`.
    fn record(&self, plan: &Plan, begun: Instant, ended: &RequestResult, memo: Option<Box<RequestRecord>>) {
        let tally = self.doors.figures.of(self.door);
        let took = begun.elapsed();
        tally.record(&ended.outcome, ended.bytes, took);
        self.worker.times.served(ended.outcome.kind, took);
        self.worker.witness.request(plan, ended, memo);
    }
}

/// Returns the limits of a call: the length of a URL, and of its framing.
fn limits(plan: &Plan) -> Limits {
    Limits { message: plan.settings.limits.target_bytes + 1024, ..Limits::default() }
}

fn failure(url: &str, status: u16, why: impl Into<String>) -> Failure {
    Failure { what: url.to_owned(), why: why.into(), status }
}
