//! A site's keys for changing data as they were written.

use std::collections::BTreeMap;

use larder_tags::Settings;

/// What a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A cache.
    Cache,
    /// A gateway.
    Tags,
}

/// When stored responses are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validate {
    /// Once it is stale.
    Stale,
    /// Each time.
    Always,
}

/// Pools, and for each the further pools that a change to it blanks.
pub(crate) type Coupled = BTreeMap<Box<str>, Vec<Box<str>>>;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) role: Role,
    pub(crate) validate: Validate,
    /// Whether `stale_if_error` was.
    pub(crate) stale_if_error: bool,
    pub(crate) couple: Coupled,
    pub(crate) transitive: bool,
    /// But for couplings and push.
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
