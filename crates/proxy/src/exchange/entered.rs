//! The limits against which a request counts.

use std::sync::{Mutex, PoisonError};

use crate::net::limiter::InProgress;

/// The limits against which a request counts until its reply is sent.
#[derive(Debug, Default)]
pub(crate) struct Entered(Mutex<Vec<InProgress>>);

impl Entered {
    /// Takes them out; `None` if there is none.
    pub(crate) fn take(&self) -> Option<Box<[InProgress]>> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!all.is_empty()).then(|| all.into())
    }

    /// Adds more.
    pub(crate) fn extend(&self, new: Vec<InProgress>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
    }
}
