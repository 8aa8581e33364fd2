//! The bill of materials of a release, in JSON of CycloneDX 1.5: every crate that the program is built from, with its
//! licence and the checksum of its source.

use super::{Release, output};
use crate::{cargo, root};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the file into `folder`. Fails if cargo cannot tell the crates, or the file cannot be written.
pub(super) fn write(release: &Release, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(format!("larder-{}-{}.cdx.json", release.version, release.target));
    let text = serde_json::to_string_pretty(&bill(release)?)? + "\n";
    fs::write(&file, text).with_context(|| format!("{}", file.display()))?;
    Ok(file)
}

fn bill(release: &Release) -> Result<Value> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", "larder", "--target", &release.target]);
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}\t{l}"]);
    let tree = output(&mut tree)?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let sums = checksums(&lock);
    // A crate is listed once for each crate that uses it.
    let lines: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let component = |line: &str| {
        let (crate_, licence) = line.split_once('\t')?;
        let mut words = crate_.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let mut component = json!({
            "type": "library", "name": name, "version": version, "purl": format!("pkg:cargo/{name}@{version}"),
            // Some crates write a slash where SPDX has OR.
            "licenses": [{ "expression": licence.replace('/', " OR ") }],
        });
        if let Some(sum) = sums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        (name != "larder").then_some(component)
    };
    let components: Vec<_> = lines.into_iter().filter_map(component).collect();
    let time = output(Command::new("date").args(["-u", "+%FT%TZ", "-d", &format!("@{}", release.epoch)]))?;
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": time.trim(),
            "component": {
                "type": "application", "name": "larder", "version": release.version,
                "licenses": [{ "license": { "id": "Apache-2.0" } }],
            },
        },
        "components": components,
    }))
}

/// Returns the checksums in a `Cargo.lock`, by name and version. Crates of this repository have none.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    lock.split("[[package]]").skip(1).filter_map(checksum).collect()
}

fn checksum(package: &str) -> Option<((&str, &str), &str)> {
    let value = |key: &str| {
        package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
    };
    Some(((value("name")?, value("version")?), value("checksum")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_each_crate_of_the_program_once_with_its_source() {
        let release = Release {
            larder: PathBuf::new(),
            version: "1.2.3".to_owned(),
            target: super::super::host().expect("a target"),
            epoch: 1_700_000_000,
            compression: "none",
        };
        let bill = bill(&release).expect("a bill");
        assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let all = bill["components"].as_array().expect("a list");
        let of = |name: &str| all.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
        let [tokio] = of("tokio")[..] else { panic!("tokio is there once") };
        assert_eq!(
            (&tokio["licenses"][0]["expression"], tokio["hashes"][0]["alg"].as_str()),
            (&json!("MIT"), Some("SHA-256"))
        );
        assert!(of("larder-store")[0]["hashes"].is_null(), "its source is this repository");
        assert!(of("proptest").is_empty(), "only tests use it");
    }
}
