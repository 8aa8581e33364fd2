//! A measured server.

use crate::bench::measure::{Object, Sample};
use crate::bench::server::Running;

/// A measured server, the object of its load, and its sample of each round.
pub(super) struct Entrant<'a> {
    pub(super) server: &'a Running,
    pub(super) object: Object,
    pub(super) samples: Vec<Sample>,
}

impl<'a> Entrant<'a> {
    pub(super) fn new(server: &'a Running, object: Object) -> Self {
        Self { server, object, samples: Vec::new() }
    }
}
