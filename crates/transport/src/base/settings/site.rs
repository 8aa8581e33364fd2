//! The requests that a site serves, its rules and its origins.

use std::path::PathBuf;

use larder_rules::Rule;

use super::effects::Effects;
use super::{Origin, Site};
use crate::base::networks::stands_for;

/// A rule of a site or of the forward proxy.
#[derive(Clone, Debug)]
pub struct SiteRule {
    /// The name in explanations and statistics.
    pub name: String,
    /// The beginning of the rule in the config, such as `larder.toml:12`.
    pub place: String,
    /// The conditions.
    pub rule: Rule,
    /// The effects.
    pub effects: Effects,
    /// Further files that the rule was read from. A change of one of them causes a reload of the config.
    pub files: Vec<PathBuf>,
}

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
