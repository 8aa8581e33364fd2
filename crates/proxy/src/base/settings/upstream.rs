//! Upstreams of rules: the origins for a subset of a site's requests.

use std::time::Duration;

use super::{HostHeader, Origin, Site, Template};
use crate::base::networks::stands_for;

/// The upstream settings of a rule, which replace those of its site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upstream {
    /// The origins; empty: those of the site, or of an earlier rule.
    pub origins: Vec<Origin>,
    /// The path of requests to them.
    pub rewrite: Option<Template>,
    /// The value of `Host` in requests to them.
    pub host: Option<HostHeader>,
}

/// Retries and timeouts for origins, as far as a rule sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Maximum of retries of an idempotent request without a response.
    pub retries: Option<u32>,
    /// Timeout until the first byte of the origin's response.
    pub first_byte: Option<Duration>,
    /// Timeout between two reads of that response.
    pub origin_idle: Option<Duration>,
}

impl Tries {
    /// Adds the settings of a later rule, which replace earlier ones.
    pub(super) fn extend(&mut self, later: &Self) {
        self.retries = later.retries.or(self.retries);
        self.first_byte = later.first_byte.or(self.first_byte);
        self.origin_idle = later.origin_idle.or(self.origin_idle);
    }
}

impl Upstream {
    /// Whether no setting is set.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.rewrite.is_none() && self.host.is_none()
    }

    /// Whether paths of requests to origins differ from those of clients.
    pub(crate) fn changes_paths(&self) -> bool {
        self.rewrite.is_some() || self.origins.iter().any(|origin| origin.path.is_some())
    }

    /// Adds the settings of a later rule, which replace earlier ones.
    pub(super) fn extend(&mut self, later: &Self) {
        if !later.origins.is_empty() {
            self.origins.clone_from(&later.origins);
        }
        self.rewrite = later.rewrite.clone().or_else(|| self.rewrite.take());
        self.host = later.host.clone().or_else(|| self.host.take());
    }
}

impl Site {
    /// Whether the site serves `host`, which has no port.
    pub fn is_for(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|pattern| stands_for(pattern, host))
    }

    /// Returns the origins of the site and of its rules.
    pub fn all_origins(&self) -> impl Iterator<Item = &Origin> + Clone {
        self.origins.iter().chain(self.site_rules.iter().flat_map(|rule| &rule.effects.upstream.origins))
    }
}
