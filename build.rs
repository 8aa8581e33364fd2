//! Tells the program the commit that it is built from, for `larder --version`.
//!
//! `LARDER_COMMIT` in the environment replaces it, for builds outside of a clone. Debug builds have none: they would be
//! built again after each commit.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LARDER_COMMIT");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = env::var("LARDER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| is_release.then(head).flatten());
    println!("cargo:rustc-env=LARDER_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// Returns the commit of the clone that this folder is the root of.
fn head() -> Option<String> {
    let root = env::var("CARGO_MANIFEST_DIR").ok()?;
    if !Path::new(&root).join(".git").exists() {
        return None;
    }
    // Cargo would run this at each build if the file were missing.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    log.iter().for_each(|log| println!("cargo:rerun-if-changed={log}"));
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
