//! The base of all layers: the clock, errors, the outcomes of requests, and the settings as plain data.

pub(crate) mod clock;
pub(crate) mod error;
pub mod explanation;
pub mod file_version;
pub mod findings;
pub(crate) mod in_place;
pub(crate) mod inheritance;
pub(crate) mod low_priority;
pub(crate) mod named;
pub(crate) mod networks;
pub mod notify;
pub mod outcome;
pub(crate) mod path_prefix;
pub mod schedule;
pub mod settings;
pub mod shown;
pub mod whole_file;
