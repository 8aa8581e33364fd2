//! Packages of npm that tests use: a registry, and two clients of registries.

use crate::root;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;

/// The packages. Verdaccio depends on two versions of `node-fetch`, of which one is enough.
const MANIFEST: &str = r#"{
  "private": true,
  "dependencies": { "pnpm": "9.15.9", "verdaccio": "6.8.0", "yarn": "1.22.22" },
  "overrides": { "node-fetch": "2.7.0" }
}
"#;
/// Later versions of what these packages need are not installed, so that each machine has the same.
const BEFORE: &str = "2026-11-01";

/// Installs the packages in `target/tools/npm`, where `tests/run` expects them. Fails if npm cannot install them.
pub(crate) fn for_tests() -> Result<()> {
    let folder = root().join("target/tools/npm");
    let manifest = folder.join("package.json");
    if fs::read_to_string(&manifest).is_ok_and(|text| text == MANIFEST) {
        return Ok(());
    }
    println!("  installing verdaccio, pnpm and yarn with npm");
    // The manifest is complete only beside what it names.
    let unfinished = folder.with_extension("part");
    fs::create_dir_all(&unfinished)
        .and_then(|()| fs::write(unfinished.join("package.json"), MANIFEST))
        .with_context(|| format!("cannot write {}", unfinished.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]);
    let status = npm.args(["--omit=optional", "--before", BEFORE]).current_dir(&unfinished).status();
    ensure!(
        status.context("cannot start npm")?.success(),
        "`npm install` failed in {}",
        unfinished.display()
    );
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&unfinished, &folder).with_context(|| format!("cannot move {}", unfinished.display()))
}
