//! For whom a response is fetched.

use larder_store::fill::{Epoch, FillWriter, Verdict};

use crate::flow::worker::Worker;

/// For whom a fetch is made.
pub(crate) enum Fetching {
    /// For all who follow. The writer is large, and each function that passes it on would have room for it.
    Leads(Box<FillWriter>),
    /// For one request, begun then; it costs a fill only if there is something to store.
    Alone(Epoch),
}

impl Fetching {
    pub(super) fn settle(self, verdict: Verdict) {
        if let Self::Leads(writer) = self {
            writer.settle(verdict);
        }
    }

    /// Tells a fetch that others may follow from all others.
    pub(super) fn id(&self) -> Option<usize> {
        match self {
            Self::Leads(writer) => Some(writer.fetch()),
            Self::Alone(_) => None,
        }
    }

    /// Ends when only the request itself waits for it.
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
