//! A site's keys for changing data, as written.

use std::collections::BTreeMap;

use larder_tags::Settings;
use larder_words::with_defaults;

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
        pub(crate) role: Role = Role::Cache,
        pub(crate) validate: ValidationTime = ValidationTime::Stale,
        /// Whether `stale_if_error` was written.
        pub(crate) stale_if_error: bool = false,
        pub(crate) couple: PoolCouplings = PoolCouplings::new(),
        pub(crate) transitive: bool = false,
        /// All keys of tags, except couplings and push.
        pub(crate) tags: Settings = Settings::default(),
        pub(crate) push: bool = false,
        pub(crate) push_lifetime: u32 = 3_600,
    }
}
