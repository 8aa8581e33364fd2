//! The entries of a request in limits on requests in progress.

use std::sync::{Mutex, PoisonError};

use crate::net::limiter::InProgress;

/// The entries of a request in limits on requests in progress, until its reply is sent.
#[derive(Debug, Default)]
pub(crate) struct Entered(Mutex<Vec<InProgress>>);

impl Entered {
    /// Takes the entries out; `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<Box<[InProgress]>> {
        let all = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        (!all.is_empty()).then(|| all.into())
    }

    /// Adds entries.
    pub(crate) fn extend(&self, new: Vec<InProgress>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
    }
}
