//! State that the clients of all workers share, across reloads.

use std::sync::Arc;
use std::time::Duration;

use super::careless::CarelessOrigins;
use super::quota::Quota;
use super::resolve::Resolver;

/// State that clients share for one kind of destination.
#[derive(Debug)]
pub struct Common {
    pub(super) careless: Arc<CarelessOrigins>,
    pub(super) quota: Arc<Quota>,
    pub(super) resolver: Arc<Resolver>,
    /// The responses in HTTP/2 from origins that the config does not name.
    pub(super) windows: Arc<Quota>,
}

/// The most responses in HTTP/2 at once from origins that the config does not name. Others come in HTTP/1.1.
const MOST_WINDOWS: usize = 128;

/// The shared state for each kind of destination. So a client of the forward proxy that requests many hosts neither
/// closes the connections to sites nor delays the resolution of their names.
#[derive(Debug)]
pub struct Destinations {
    /// Origins of sites.
    pub sites: Common,
    /// Destinations that clients of the forward proxy request.
    pub named: Common,
    /// Nodes of the cluster.
    pub nodes: Common,
}

impl Common {
    /// Watches the names of these hosts, and no others: connections to addresses that are no longer in their DNS
    /// answers get no further requests.
    pub fn watch(&self, hosts: &[String]) {
        self.resolver.watch(hosts);
    }

    /// Resolves the name of a watched host again. Returns the time for which the answer holds, if it is known.
    ///
    /// # Errors
    /// A description of the failure, in one line; the known addresses stay as they were.
    pub async fn resolve_again(&self, host: &str) -> Result<Option<Duration>, String> {
        self.resolver.resolve_again(host).await.map_err(|why| why.to_string())
    }

    /// Whether addresses of a watched name are known.
    pub fn has_addresses(&self, host: &str) -> bool {
        self.resolver.has_addresses(host)
    }

    /// Sets the function that removes the responses under a cache key, if they may be bytes that belong to no request.
    pub fn withdraw_by(&self, withdraw: impl Fn(&[u8]) + Send + Sync + 'static) {
        self.careless.withdraw_by(withdraw);
    }

    /// Creates shared state with this `resolver`.
    #[cfg(test)]
    pub(super) fn by(resolver: Resolver) -> Self {
        Self { resolver: Arc::new(resolver), ..Self::new(8) }
    }

    /// Creates shared state with at most `most_idle` idle connections.
    fn new(most_idle: usize) -> Self {
        let quota = Arc::new(Quota::new(most_idle));
        let windows = Arc::new(Quota::new(MOST_WINDOWS));
        Self { careless: Arc::default(), quota, resolver: Arc::default(), windows }
    }

    /// Resolves names of services, too.
    fn with_services(self) -> Self {
        Self { resolver: Arc::new(Resolver::with_services()), ..self }
    }
}

impl Destinations {
    /// Creates shared state with at most `most_idle` idle connections to all destinations together.
    pub fn new(most_idle: usize) -> Self {
        let of = |eighths: usize| Common::new((most_idle * eighths / 8).max(1));
        Self { sites: of(4).with_services(), named: of(3), nodes: of(1) }
    }
}
