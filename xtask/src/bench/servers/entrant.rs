//! A measured server.

use crate::bench::measure::{Object, Sample};
use crate::bench::server::RunningServer;

/// A measured server, the object of its load, and its sample of each round.
pub(super) struct Entrant<'a> {
    pub(super) server: &'a RunningServer,
    pub(super) object: Object,
    pub(super) samples: Vec<Sample>,
}

impl<'a> Entrant<'a> {
    pub(super) fn new(server: &'a RunningServer, object: Object) -> Self {
        Self { server, object, samples: Vec::new() }
    }
}
