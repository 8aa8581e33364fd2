//! What the clients of all workers share, across reloads.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use super::careless::Careless;
use super::idle::Quota;
use super::resolve::Resolver;

/// Connections to origins that wait for another request, however many files the system allows.
const MOST_IDLE: u64 = 8192;

/// What clients share for one kind of destination.
#[derive(Debug)]
pub struct Common {
    pub(super) careless: Arc<Careless>,
    pub(super) quota: Arc<Quota>,
    pub(super) resolver: Arc<Resolver>,
}

/// The same by who names the destination: a client of the forward proxy that names many hosts neither closes the
/// connections to sites nor keeps their names from being resolved.
#[derive(Debug)]
pub struct Destinations {
    /// Origins of sites.
    pub sites: Common,
    /// Whatever clients of the forward proxy name.
    pub named: Common,
    /// Nodes of the cluster.
    pub nodes: Common,
}

impl Common {
    /// Watches the names of these hosts, and no others: addresses that leave their answers get no further requests.
    pub fn watch(&self, hosts: &[String]) {
        self.resolver.watch(hosts);
    }

    /// Resolves the name of a watched host again.
    ///
    /// # Errors
    /// Why that was not possible, in one line; nothing has changed then.
    pub async fn resolve_again(&self, host: &str) -> Result<(), String> {
        self.resolver.resolve_again(host).await.map_err(|why| why.to_string())
    }

    /// With names that are resolved by `resolver`.
    #[cfg(test)]
    pub(super) fn by(resolver: Resolver) -> Self {
        Self { resolver: Arc::new(resolver), ..Self::new(8) }
    }

    /// At most `most_idle` connections wait for another request.
    fn new(most_idle: u64) -> Self {
        let quota = Arc::new(Quota::new(usize::try_from(most_idle).unwrap_or(usize::MAX)));
        Self { careless: Arc::default(), quota, resolver: Arc::default() }
    }
}

impl Default for Destinations {
    fn default() -> Self {
        let all = most_idle(getrlimit(Resource::Nofile).current);
        let of = |eighths: u64| Common::new((all / 8 * eighths).max(1));
        Self { sites: of(4), named: of(3), nodes: of(1) }
    }
}

/// How many connections to origins may wait for another request where the process may open this many files.
pub fn most_idle(files: Option<u64>) -> u64 {
    files.map_or(MOST_IDLE, |files| MOST_IDLE.min(files / 8))
}
