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

const PACKAGES: [Package; 3] = [
    Package {
        name: "tlslite-ng",
        requirements: &["tlslite-ng==0.8.2", "ecdsa==0.19.2", "six==1.17.0"],
        installed: "tlslite_ng-0.8.2.dist-info",
    },
    Package { name: "uv", requirements: &["uv==0.13.9"], installed: "uv-0.13.9.dist-info" },
    // What its S3 server imports: with all that moto names, it would be four times as large.
    Package {
        name: "moto",
        requirements: &[
            "moto==5.2.5",
            "blinker==1.9.0",
            "boto3==1.44.8",
            "botocore==1.44.8",
            "certifi==2026.10.19.post1",
            "cffi==2.1.1",
            "charset_normalizer==3.5.3",
            "click==8.5.1",
            "cryptography==50.0.2",
            "flask==3.1.3",
            "flask_cors==6.0.5",
            "idna==3.20",
            "itsdangerous==2.2.0",
            "jinja2==3.1.6",
            "jmespath==1.1.0",
            "markupsafe==3.0.4",
            "python_dateutil==2.9.0.post0",
            "pyyaml==6.0.4",
            "requests==2.34.2",
            "responses==0.26.3",
            "s3transfer==0.19.3",
            "six==1.17.0",
            "urllib3==2.8.0",
            "werkzeug==3.1.9",
            "xmltodict==1.0.4",
        ],
        installed: "moto-5.2.5.dist-info",
    },
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
