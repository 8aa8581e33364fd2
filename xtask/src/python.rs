//! The Python library of a client of the tests, of which Debian has no package.

use crate::root;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// The library, and the libraries that it needs.
const LIBRARIES: [&str; 3] = ["tlslite-ng==0.8.2", "ecdsa==0.19.2", "six==1.17.0"];
/// The folder that pip makes for this version.
const INSTALLED: &str = "tlslite_ng-0.8.2.dist-info";

/// Installs the library in `target/tools`, where `tests/tls` expects it. Fails if pip cannot install it.
pub(crate) fn for_tests() -> Result<()> {
    let folder = root().join("target/tools/tlslite-ng");
    if folder.join(INSTALLED).is_dir() {
        return Ok(());
    }
    println!("  installing {} with pip", LIBRARIES[0]);
    let mut pip = Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--root-user-action=ignore"]);
    pip.arg("--target").arg(&folder).args(LIBRARIES);
    let status = pip.status().context("cannot start python3")?;
    ensure!(status.success(), "`pip install {}` failed", LIBRARIES.join(" "));
    Ok(())
}
