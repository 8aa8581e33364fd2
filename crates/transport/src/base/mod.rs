//! The base of all layers: the clock, errors, the outcomes of requests, and the settings as plain data.

pub mod clock;
pub mod counted;
pub mod error;
pub mod explanation;
pub mod file_version;
pub mod findings;
pub mod in_place;
pub mod inheritance;
pub mod low_priority;
pub mod networks;
pub mod notify;
pub mod outcome;
pub mod path_prefix;
pub mod schedule;
pub mod settings;
pub mod shown;
pub mod whole_file;
