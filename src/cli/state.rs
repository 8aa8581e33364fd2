//! The directory where a process leaves state for the next one.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the state directory: that of the service, or else of the user. For root, it is the directory of services.
pub(crate) fn state_directory() -> Option<PathBuf> {
    directory(|name| env::var_os(name), rustix::process::geteuid().is_root())
}

fn directory(environment: impl Fn(&str) -> Option<OsString>, is_root: bool) -> Option<PathBuf> {
    let directory = |name: &str, below: &str| {
        let value = environment(name)?;
        // A service may have several directories; the first is used here.
        let first = env::split_paths(&value).next()?;
        first.is_absolute().then(|| first.join(below))
    };
    directory("STATE_DIRECTORY", "")
        .or_else(|| directory("XDG_STATE_HOME", "larder"))
        .or_else(|| is_root.then(|| PathBuf::from("/var/lib/larder")))
        .or_else(|| directory("HOME", ".local/state/larder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables, whether the user is root, and the directory.
    type Case = (&'static [(&'static str, &'static str)], bool, Option<&'static str>);

    #[test]
    fn the_nearest_state_directory_is_used() {
        let table: &[Case] = &[
            (
                &[("STATE_DIRECTORY", "/var/lib/a:/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")],
                true,
                Some("/var/lib/a"),
            ),
            (&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")], true, Some("/x/larder")),
            (
                &[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")],
                false,
                Some("/h/.local/state/larder"),
            ),
            (&[("HOME", "/root")], true, Some("/var/lib/larder")),
            (&[("HOME", "")], false, None),
            (&[], false, None),
        ];
        for (environment, is_root, expected) in table {
            let value = |name: &str| {
                environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(directory(value, *is_root), expected.map(PathBuf::from), "{environment:?}");
        }
    }
}
