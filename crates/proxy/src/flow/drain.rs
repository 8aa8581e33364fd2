//! Connections that are counted, and that see the process drain.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::worker::{Shared, Worker};

/// A place among the connections, given back however the connection ends.
pub(crate) struct ConnectionPermit {
    shared: Arc<Shared>,
    /// Counted from 1, among those that are open.
    pub(crate) number: usize,
}

impl ConnectionPermit {
    pub(crate) fn take(shared: &Arc<Shared>) -> Self {
        let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Self { shared: Arc::clone(shared), number }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets a task see the begin of a drain, at the cost of one flag while there is none.
pub(crate) struct Drain {
    worker: Arc<Worker>,
    number: u64,
    enlisted: bool,
}

impl Drain {
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        Self { worker: Arc::clone(worker), number: worker.enlist(), enlisted: false }
    }

    /// Whether it has begun; if not, the task is woken when it does.
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
