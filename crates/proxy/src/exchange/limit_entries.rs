//! The entries of a request in limits on requests in progress.

use crate::net::limiter::LimitEntry;
use parking_lot::Mutex;

/// The entries of a request in limits on requests in progress, until its reply is sent.
#[derive(Debug, Default)]
pub(crate) struct LimitEntries(Mutex<Vec<LimitEntry>>);

impl LimitEntries {
    /// Takes the entries out; `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<Box<[LimitEntry]>> {
        let all = std::mem::take(self.0.get_mut());
        (!all.is_empty()).then(|| all.into())
    }

    /// Adds entries.
    pub(crate) fn extend(&self, new: Vec<LimitEntry>) {
        self.0.lock().extend(new);
    }
}
