//! Programs that are built from Go modules if they are not installed.

use crate::packages::find;
use crate::root;
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The ACME server of the tests. `tests/acme` expects it at the location of the build.
const PEBBLE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1";

/// Returns the program called `name`: from the path, or otherwise from `target/tools`, where it is built from `module`
/// once.
///
/// # Errors
/// If Go is missing, or cannot build the module.
pub(crate) fn program(name: &str, module: &str) -> Result<PathBuf> {
    if let Some(found) = find(name) {
        return Ok(found);
    }
    let folder = root().join("target/tools");
    let program = folder.join(name);
    if !program.is_file() {
        let Some(go) = find("go") else {
            bail!("{name} needs Go to be built: install Go 1.24 or later, or {name} itself")
        };
        println!("  building {name} from its Go module");
        let status = Command::new(go).args(["install", module]).env("GOBIN", &folder).status();
        ensure!(status.context("cannot start go")?.success(), "`go install {module}` failed");
    }
    Ok(program)
}

/// Builds the programs that the tests need.
///
/// # Errors
/// The same as for [`program`].
pub(crate) fn for_tests() -> Result<()> {
    program("pebble", PEBBLE).map(drop)
}
