//! Combines a config file with the flags. Only this module validates; the modules below trust its [`Settings`].
//!
//! `includes` finds the files; `raw` turns the text of each into a draft by the table in `keys`; `flags` override it;
//! `settle` checks combinations of values and makes the settings.

pub(crate) mod authority;
pub(crate) mod bounds;
mod buckets;
pub(crate) mod docs;
mod draft;
mod environment;
pub(crate) mod flags;
mod foreign;
mod hsts;
mod includes;
mod keys;
mod kinds;
mod lists;
pub(crate) mod machine;
pub(crate) mod names;
mod parents;
pub(crate) mod places;
mod raw;
pub(crate) mod registries;
mod rules;
pub(crate) mod self_signed;
pub(crate) mod session_key;
mod settle;
mod summary;
mod warnings;
mod written;

#[cfg(test)]
mod tests;

use std::fmt::{self, Display};
use std::path::Path;

use larder_proxy::Settings;
use larder_proxy::base::whole_file;

use crate::cli::files::unread;
use crate::cli::units::counted;
pub(crate) use draft::DatabasePlace;
use draft::Draft;
use flags::Flags;
pub(crate) use summary::{needs_restart, summary};
pub(crate) use warnings::warnings;

/// All errors of a config, one line each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The errors, each with the file and line, or the flag.
    pub(crate) problems: Vec<String>,
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

/// Returns the settings: the defaults, then the file, then the flags.
pub(crate) fn load(path: Option<&Path>, flags: &Flags) -> Result<Settings, ConfigError> {
    let Some(path) = path else { return parse("", "", flags) };
    match whole_file::text(path, whole_file::LARGEST) {
        Ok(text) => parse(&path.display().to_string(), &text, flags),
        Err(error) => {
            let problem = format!("cannot read {}: {}", path.display(), unread(&error));
            Err(ConfigError { problems: vec![problem] })
        }
    }
}

/// Returns the settings of a config `text` that the command `name` has written, with its `flags`.
pub(crate) fn of_command(name: &str, text: &str, flags: &Flags) -> Result<Settings, ConfigError> {
    parse(name, text, flags)
}

/// Returns the errors of the config `text` of the file called `file`, one line each; none if it can be used.
pub fn problems(file: &str, text: &str) -> Vec<String> {
    parse(file, text, &Flags::default()).err().map_or_else(Vec::new, |error| error.problems)
}

/// Reads a config as [`load`] does, given the file's name and text.
fn parse(file: &str, text: &str, flags: &Flags) -> Result<Settings, ConfigError> {
    let mut draft = Draft::default();
    let mut problems = includes::read(file, text, &mut draft);
    flags.override_file(&mut draft);
    if flags.tls_cert.len() != flags.tls_key.len() {
        let (certs, keys) = (flags.tls_cert.len(), flags.tls_key.len());
        let certs = counted(certs as u64, "certificate", "certificates");
        problems.push(format!(
            "--tls-key: {} for {certs}; write one for each",
            counted(keys as u64, "key", "keys")
        ));
    }
    if let (disks, sizes @ 2..) = (flags.disk.len(), flags.disk_size.len())
        && disks != sizes
    {
        problems.push(format!(
            "--disk-size: {sizes} sizes for {}; write one for all, or one for each",
            counted(disks as u64, "directory", "directories")
        ));
    }
    match settle::settle(draft) {
        Ok(settings) if problems.is_empty() => Ok(settings),
        settled => {
            problems.extend(settled.err().unwrap_or_default());
            Err(ConfigError { problems })
        }
    }
}
