//! The count of open connections, and the notification of connections when the process drains.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, StatusCode};

use super::phases::Phase;
use super::worker::{ProcessState, Worker};
use crate::exchange::plan::Plan;
use crate::http::head::{Refusal, RequestHead};

/// The time that a new client has for its first request when the process ends: the request may be on its way.
const FIRST: Duration = Duration::from_secs(1);

const TOO_MANY_TUNNELS: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "too many connections and tunnels (limits.connections)",
};

/// One open connection in the counts. Dropping the permit releases it.
pub(crate) struct ConnectionPermit {
    worker: Arc<Worker>,
    /// The number of open connections when the permit was taken, this one included.
    pub(crate) number: usize,
}

impl ConnectionPermit {
    /// Counts a connection of this worker.
    pub(crate) fn take(worker: &Arc<Worker>) -> Self {
        worker.connections.enter();
        Self { number: worker.shared.connections.enter(), worker: Arc::clone(worker) }
    }
}

/// A task that accepts connections, in their count. Dropping it ends that.
pub(crate) struct Acceptor(Arc<Worker>);

impl Acceptor {
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        worker.shared.accepting.enter();
        Self(Arc::clone(worker))
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.0.shared.accepting.leave();
    }
}

impl ProcessState {
    /// Whether there are connections, or tasks that may just have accepted one.
    pub fn has_clients(&self) -> bool {
        self.accepting.count() > 0 || self.connections.count() > 0
    }

    /// Begins a drain at the end of the process: connections end after their requests.
    pub fn drain(&self) {
        self.phases.enter(&[Phase::Serving, Phase::HandingOver, Phase::HandedOver], Phase::Ending);
        self.cache.reclaim.end();
        self.wake_connections();
    }

    /// Begins a drain for a successor. Returns whether this process served until now.
    pub fn hand_over(&self) -> bool {
        let is_first = self.phases.enter(&[Phase::Serving], Phase::HandingOver);
        self.wake_connections();
        is_first
    }

    /// Accepts connections again, since the successor has failed.
    pub fn take_back(&self) {
        self.phases.enter(&[Phase::HandingOver], Phase::Serving);
    }

    /// Leaves all new connections to the successor. Returns whether that is still wanted.
    pub fn handed_over(&self) -> bool {
        let is_wanted = self.phases.enter(&[Phase::HandingOver], Phase::HandedOver);
        self.cache.reclaim.end();
        is_wanted
    }

    /// Whether the process drains.
    pub fn is_draining(&self) -> bool {
        self.phases.changes.load(Ordering::Acquire) % 2 == 1
    }

    /// Returns how long a client that has sent no request has to begin its first one when the process ends, its handshake
    /// included.
    pub(crate) fn last_wait(&self) -> Duration {
        FIRST.min(self.plan().settings.timeouts.drain / 2)
    }

    /// Returns when new clients have had their [last wait](Self::last_wait), which begins when the process ends.
    pub(crate) async fn last_wait_is_over(&self) {
        let ended = self.phases.ending().await;
        tokio::time::sleep_until(ended + self.last_wait()).await;
    }

    fn wake_connections(&self) {
        self.workers().iter().for_each(|worker| worker.wake_all());
    }
}

impl Worker {
    /// Returns the permit of a request for a tunnel, whose other end takes a file as a connection does; `None` for other
    /// requests. Errors: the refusal, if there are too many connections.
    pub(crate) fn permit_of_tunnel(
        self: &Arc<Self>,
        plan: &Plan,
        head: &RequestHead<'_>,
    ) -> Result<Option<ConnectionPermit>, Refusal> {
        if head.method != Method::CONNECT && !head.upgrade {
            return Ok(None);
        }
        self.permit_of_end(plan).ok_or(TOO_MANY_TUNNELS).map(Some)
    }

    /// Returns the permit of the other end of a tunnel; `None` if there are too many connections.
    pub(crate) fn permit_of_end(self: &Arc<Self>, plan: &Plan) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit::take(self);
        let has_room = permit.number <= plan.settings.limits.connections;
        if !has_room {
            self.shared.closed_on_arrival.fetch_add(1, Ordering::Relaxed);
        }
        has_room.then_some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.worker.connections.leave();
        self.worker.shared.connections.leave();
    }
}

/// Notifies a task when a drain begins. Before that, a check costs one atomic load.
pub(crate) struct Drain {
    worker: Arc<Worker>,
    number: u64,
    /// The change of phases since which the task is registered: each change wakes all tasks once.
    enlisted: Option<u64>,
}

impl Drain {
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        Self { worker: Arc::clone(worker), number: worker.enlist(), enlisted: None }
    }

    /// Whether the drain has begun. The task is woken at the next change of phases.
    pub(crate) fn poll(&mut self, cx: &std::task::Context<'_>) -> bool {
        let change = self.worker.shared.phases.changes.load(Ordering::Acquire);
        if self.enlisted != Some(change) {
            self.worker.wake_on_drain(self.number, cx.waker());
            self.enlisted = Some(change);
        }
        self.worker.shared.is_draining()
    }

    pub(crate) async fn begun(&mut self) {
        std::future::poll_fn(|cx| match self.poll(cx) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        })
        .await;
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if self.enlisted.is_some() {
            self.worker.resign(self.number);
        }
    }
}
