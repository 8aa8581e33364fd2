//! `cargo x tidy`: automatic checks, so that a review can concentrate on design.
//!
//! Each check is a function from its input to a list of problems; this file only collects the input and prints the
//! problems.

mod cycles;
mod directions;
mod documents;
mod functions;
mod layers;
mod places;
mod sources;
mod test_names;
mod words;

use crate::{cargo, read, root};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A file of the project: its path from the root, with `/`, and its text.
#[derive(Clone)]
struct Text {
    path: String,
    text: String,
}

/// Runs every check over the working tree and prints the problems, one line each. Fails if there is a problem, or the
/// tree cannot be read.
pub(crate) fn run() -> Result<()> {
    let packages = packages()?;
    let files = files()?;
    let version = env!("CARGO_PKG_VERSION");
    sources::warnings(&files).iter().for_each(|warning| println!("warning: {warning}"));
    let mut problems = directions::check(&packages);
    problems.extend(sources::lengths(&files, sources::LONG_FILES));
    problems.extend(functions::lengths(&files));
    problems.extend(layers::check(&files, layers::CRATES));
    problems.extend(cycles::check(&files, cycles::ROOTS));
    problems.extend(places::check(&files));
    problems.extend(test_names::check(&files));
    problems.extend(sources::leftovers(&files));
    problems.extend(sources::machine_paths(&files));
    problems.extend(words::private(&files));
    problems.extend(sources::module_docs(&packages, &files));
    problems.extend(documents::links(&files, &|path| root().join(path).exists()));
    problems.extend(documents::sizes(&files, documents::SIZES));
    problems.extend(documents::tests(&files));
    problems.extend(documents::source_files(&files));
    problems.extend(documents::changelog(&files, version));
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => bail!("tidy found 1 problem"),
        count => bail!("tidy found {count} problems"),
    }
}

/// A crate of the workspace, as its Cargo.toml describes it.
struct Package {
    name: String,
    /// Its dependencies, including those for the build, without those that only its tests use.
    dependencies: Vec<String>,
    /// The first file of each target that ships: library and binaries.
    entries: Vec<String>,
}

fn packages() -> Result<Vec<Package>> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading `cargo metadata`")?;
    Ok(list(&metadata["packages"]).map(package).collect())
}

fn package(value: &Value) -> Package {
    let ships = |kind: &Value| matches!(kind.as_str(), Some("lib" | "bin" | "proc-macro"));
    Package {
        name: word(&value["name"]),
        dependencies: list(&value["dependencies"])
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .map(|dependency| word(&dependency["name"]))
            .collect(),
        entries: list(&value["targets"])
            .filter(|target| list(&target["kind"]).any(ships))
            .map(|target| relative(&word(&target["src_path"])))
            .collect(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn relative(path: &str) -> String {
    let path = PathBuf::from(path);
    path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned()
}

/// Returns every text file that is committed, or could be.
fn files() -> Result<Vec<Text>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    let mut files = Vec::new();
    // Inputs for the fuzzer may contain any bytes.
    for name in names.split_terminator('\0').filter(|name| !name.starts_with("fuzz/corpus/")) {
        let path = root().join(name);
        // A listed file can be missing (deleted, not yet committed), or contain bytes that are not text.
        if let Ok(text) = read(&path) {
            files.push(Text { path: name.to_owned(), text });
        }
    }
    Ok(files)
}
