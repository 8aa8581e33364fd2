//! What every layer uses: the clock, errors, what the cache did with a request, and the settings as plain data.

pub(crate) mod clock;
pub(crate) mod error;
pub mod explanation;
pub mod file_version;
pub mod findings;
pub(crate) mod networks;
pub mod outcome;
pub(crate) mod path_prefix;
pub mod schedule;
pub mod settings;
