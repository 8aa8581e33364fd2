//! Packages of Python that tests use, and Debian does not have.

use crate::root;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// A package of PyPI with the packages that it needs, and the folder that pip makes for this version.
struct Package {
    name: &'static str,
    requirements: &'static [&'static str],
    installed: &'static str,
}

const PACKAGES: [Package; 2] = [
    Package {
        name: "tlslite-ng",
        requirements: &["tlslite-ng==0.8.2", "ecdsa==0.19.2", "six==1.17.0"],
        installed: "tlslite_ng-0.8.2.dist-info",
    },
    Package { name: "uv", requirements: &["uv==0.13.9"], installed: "uv-0.13.9.dist-info" },
];

/// Installs each in a folder of `target/tools`, where the tests expect it. Fails if pip cannot install one.
pub(crate) fn for_tests() -> Result<()> {
    for Package { name, requirements, installed } in PACKAGES {
        let folder = root().join("target/tools").join(name);
        if folder.join(installed).is_dir() {
            continue;
        }
        println!("  installing {} with pip", requirements[0]);
        let mut pip = Command::new("/usr/bin/python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--root-user-action=ignore"]);
        pip.arg("--target").arg(&folder).args(requirements);
        let status = pip.status().context("cannot start python3")?;
        ensure!(status.success(), "`pip install {}` failed", requirements.join(" "));
    }
    Ok(())
}
