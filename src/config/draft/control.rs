//! A site's keys for changing data, as written.

use std::collections::BTreeMap;

use larder_tags::Settings;

/// The role of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It stores responses.
    Cache,
    /// It stores entity tags only.
    Tags,
}

/// When stored responses are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validate {
    /// Once they are stale.
    Stale,
    /// At each use.
    Always,
}

/// Pools, and for each the further pools that a change to it blanks.
pub(crate) type Coupled = BTreeMap<Box<str>, Vec<Box<str>>>;

/// The values as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) role: Role,
    pub(crate) validate: Validate,
    /// Whether `stale_if_error` was written.
    pub(crate) stale_if_error: bool,
    pub(crate) couple: Coupled,
    pub(crate) transitive: bool,
    /// All keys of tags, except couplings and push.
    pub(crate) tags: Settings,
    pub(crate) push: bool,
    pub(crate) push_lifetime: u32,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            role: Role::Cache,
            validate: Validate::Stale,
            stale_if_error: false,
            couple: Coupled::new(),
            transitive: false,
            tags: Settings::default(),
            push: false,
            push_lifetime: 3_600,
        }
    }
}
