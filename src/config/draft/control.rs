//! A site's keys for changing data, as written.

use std::collections::BTreeMap;

use larder_semantics::with_defaults;
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
pub(crate) enum ValidationTime {
    /// Once they are stale.
    Stale,
    /// At each use.
    Always,
}

/// Pools, and for each the further pools that a change to it blanks.
pub(crate) type PoolCouplings = BTreeMap<Box<str>, Vec<Box<str>>>;

with_defaults! {
    /// The values as written.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Draft {
        role: Role = Role::Cache,
        validate: ValidationTime = ValidationTime::Stale,
        /// Whether `stale_if_error` was written.
        stale_if_error: bool = false,
        couple: PoolCouplings = PoolCouplings::new(),
        transitive: bool = false,
        /// All keys of tags, except couplings and push.
        tags: Settings = Settings::default(),
        push: bool = false,
        push_lifetime: u32 = 3_600,
    }
}
