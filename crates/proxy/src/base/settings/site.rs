//! The requests that a site serves, and its origins.

use super::{Origin, Site};
use crate::base::networks::stands_for;

impl Site {
    /// Whether the site serves `host`, which has no port.
    pub fn is_for(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|pattern| stands_for(pattern, host))
    }

    /// Returns the origins of the site and of its rules.
    pub fn all_origins(&self) -> impl Iterator<Item = &Origin> + Clone {
        let of_rules = self.site_rules.iter().flat_map(|rule| rule.effects.origin.iter().flatten());
        self.origins.iter().chain(of_rules)
    }
}
