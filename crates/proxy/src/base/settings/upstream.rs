//! Where rules send requests for a part of a site's paths.

use std::time::Duration;

use super::{HostHeader, Origin, Site, Template};
use crate::base::networks::stands_for;

/// What a rule sets in place of what its site does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upstream {
    /// The origins; none: those of the site, or of an earlier rule.
    pub origins: Vec<Origin>,
    /// The path that they are asked for.
    pub rewrite: Option<Template>,
    /// What they see as `Host`.
    pub host: Option<HostHeader>,
}

/// How often and how long origins are asked, where a rule sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Retries of an idempotent request without an answer.
    pub retries: Option<u32>,
    /// For the origin's answer to begin.
    pub first_byte: Option<Duration>,
    /// Between two reads of that answer.
    pub origin_idle: Option<Duration>,
}

impl Tries {
    /// Adds what a later rule sets.
    pub(super) fn extend(&mut self, later: &Self) {
        self.retries = later.retries.or(self.retries);
        self.first_byte = later.first_byte.or(self.first_byte);
        self.origin_idle = later.origin_idle.or(self.origin_idle);
    }
}

impl Upstream {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.rewrite.is_none() && self.host.is_none()
    }

    /// Whether paths become others at origins.
    pub(crate) fn changes_paths(&self) -> bool {
        self.rewrite.is_some() || self.origins.iter().any(|origin| origin.path.is_some())
    }

    /// Adds what a later rule sets.
    pub(super) fn extend(&mut self, later: &Self) {
        if !later.origins.is_empty() {
            self.origins.clone_from(&later.origins);
        }
        self.rewrite = later.rewrite.clone().or_else(|| self.rewrite.take());
        self.host = later.host.clone().or_else(|| self.host.take());
    }
}

impl Site {
    /// Whether it is for `host`, without a port.
    pub fn is_for(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|pattern| stands_for(pattern, host))
    }

    /// Its origins, and those of its rules.
    pub fn all_origins(&self) -> impl Iterator<Item = &Origin> + Clone {
        self.origins.iter().chain(self.site_rules.iter().flat_map(|rule| &rule.effects.upstream.origins))
    }
}
