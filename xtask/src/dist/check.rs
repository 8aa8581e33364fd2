//! Checks of a package: installed, upgraded under traffic, removed and purged, in a root and a network that nobody else
//! sees.

use super::{Release, deb, output};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks `package`. Errors: the first thing that is not as expected.
pub(super) fn run(release: &Release, package: &Path) -> Result<()> {
    let work = tempfile::tempdir().context("cannot create a folder")?;
    let next = Release { version: "999.0.0".to_owned(), ..release.clone() };
    let next = deb::pack(&next, work.path())?;
    let script = work.path().join("check.sh");
    fs::write(&script, include_str!("check.sh")).context("cannot write the check")?;
    let base = base(work.path());
    let mut check = Command::new("unshare");
    check.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-eu"]).arg(&script);
    print!("{}", output(check.args([&base, work.path(), package, &next].map(Path::as_os_str)))?);
    Ok(())
}

/// Returns the root below the package's: an installation of this machine's version of Debian with what is essential if
/// `mmdebstrap` can make it, or this machine's own files.
fn base(work: &Path) -> PathBuf {
    let base = work.join("base");
    let mut make = Command::new("mmdebstrap");
    let made = output(make.args(["--quiet", "--variant=essential", &version()]).arg(&base));
    if let Err(error) = made {
        let why = error.to_string();
        println!("this machine's files are below the package: {}", why.lines().next().unwrap_or_default());
        return "/".into();
    }
    base
}

/// Returns the name of this machine's version of Debian, whose keys it has, or `stable`.
fn version() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("stable").trim_matches('"').to_owned()
}
