//! The requests that a fetch serves.

use larder_store::fill::{Epoch, FillWriter, Verdict};

use crate::flow::worker::Worker;

/// The requests that a fetch serves.
pub(crate) enum FetchScope {
    /// All followers of the fill. The writer is boxed because it is large, and each function that passes it on would
    /// reserve its size.
    Leads(Box<FillWriter>),
    /// One request, whose fetch began at this epoch. It makes a fill only if the response is stored.
    Alone(Epoch),
}

impl FetchScope {
    pub(super) fn settle(self, verdict: Verdict) {
        if let Self::Leads(writer) = self {
            writer.settle(verdict);
        }
    }

    /// Identifies a fetch that other requests may follow; `None` for others.
    pub(super) fn id(&self) -> Option<usize> {
        match self {
            Self::Leads(writer) => Some(writer.fetch()),
            Self::Alone(_) => None,
        }
    }

    /// Waits until the fetch has no followers; returns at once for a fetch of one request.
    pub(super) async fn deserted(&self) {
        if let Self::Leads(writer) = self {
            writer.deserted().await;
        }
    }

    pub(super) fn into_lead(self, worker: &Worker, key: &[u8]) -> FillWriter {
        match self {
            Self::Leads(writer) => *writer,
            Self::Alone(began) => worker.cache.fills.alone(key, began),
        }
    }
}
