//! Programs that are built from Go modules, where they are not installed.

use crate::root;
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::programs::find;
use std::path::PathBuf;
use std::process::Command;

/// The ACME server of the tests. `tests/acme` looks for it where it is built.
const PEBBLE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1";

/// The program called `name`: on the path, or else in `target/tools`, where it is built from `module` once.
///
/// # Errors
/// When there is no Go, or it cannot build the module.
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

/// Builds what the tests need.
///
/// # Errors
/// Those of [`program`].
pub(crate) fn for_tests() -> Result<()> {
    program("pebble", PEBBLE).map(drop)
}
