//! The count of open connections, and the notification of connections when the process drains.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Method, StatusCode};

use super::worker::{ProcessState, Worker};
use crate::exchange::plan::Plan;
use crate::http::head::{Refusal, RequestHead};

const TOO_MANY_TUNNELS: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "too many connections and tunnels (limits.connections)",
};

/// One open connection in the count. Dropping the permit releases it.
pub(crate) struct ConnectionPermit {
    shared: Arc<ProcessState>,
    /// The number of open connections when the permit was taken, this one included.
    pub(crate) number: usize,
}

impl ConnectionPermit {
    pub(crate) fn take(shared: &Arc<ProcessState>) -> Self {
        let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Self { shared: Arc::clone(shared), number }
    }
}

impl ProcessState {
    /// Returns the permit of a request for a tunnel, whose other end takes a file as a connection does; `None` for other
    /// requests.
    ///
    /// # Errors
    /// The refusal, if there are too many connections.
    pub(crate) fn permit_of_tunnel(
        self: &Arc<Self>,
        plan: &Plan,
        head: &RequestHead<'_>,
    ) -> Result<Option<ConnectionPermit>, Refusal> {
        if head.method != Method::CONNECT && !head.upgrade {
            return Ok(None);
        }
        let permit = ConnectionPermit::take(self);
        if permit.number > plan.settings.limits.connections {
            self.closed_on_arrival.fetch_add(1, Ordering::Relaxed);
            return Err(TOO_MANY_TUNNELS);
        }
        Ok(Some(permit))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Notifies a task when a drain begins. Before that, a check costs one atomic load.
pub(crate) struct Drain {
    worker: Arc<Worker>,
    number: u64,
    enlisted: bool,
}

impl Drain {
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        Self { worker: Arc::clone(worker), number: worker.enlist(), enlisted: false }
    }

    /// Whether the drain has begun. If not, the task is woken when it begins.
    pub(crate) fn poll(&mut self, cx: &std::task::Context<'_>) -> bool {
        if !self.enlisted {
            self.worker.wake_on_drain(self.number, cx.waker());
            self.enlisted = true;
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
        if self.enlisted {
            self.worker.resign(self.number);
        }
    }
}
