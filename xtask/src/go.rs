//! Programs that are built from Go modules if they are not installed.

use crate::root;
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::programs::find;
use std::path::PathBuf;
use std::process::Command;

/// A program, its package, and its module with that module's version.
pub(crate) struct Program {
    name: &'static str,
    package: &'static str,
    /// The module, and the modules that it needs without naming their versions: Go would take the latest ones.
    modules: &'static [&'static str],
}

/// The ACME server of the tests. `tests/acme` expects it at the location of the build.
const PEBBLE: Program = Program {
    name: "pebble",
    package: "github.com/letsencrypt/pebble/v2/cmd/pebble",
    modules: &["github.com/letsencrypt/pebble/v2 v2.10.1"],
};

/// The checker of HTTP/2.
pub(crate) const H2SPEC: Program = Program {
    name: "h2spec",
    package: "github.com/summerwind/h2spec/cmd/h2spec",
    modules: &[
        "github.com/summerwind/h2spec v2.2.1+incompatible",
        "github.com/fatih/color v1.18.0",
        "github.com/spf13/cobra v1.8.1",
        "golang.org/x/net v0.34.0",
    ],
};

impl Program {
    /// Returns the program: from the path, or otherwise from `target/tools`, where it is built once. Fails if Go is
    /// missing, or cannot build the program.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        let Self { name, package, .. } = self;
        if let Some(found) = find(name) {
            return Ok(found);
        }
        let program = root().join("target/tools").join(name);
        if !program.is_file() {
            let Some(go) = find("go") else {
                bail!("{name} needs Go to be built: install Go 1.24 or later, or {name} itself")
            };
            println!("  building {name} from its Go module");
            let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
            std::fs::write(folder.path().join("go.mod"), self.requirements())
                .context("cannot write go.mod")?;
            let mut build = Command::new(go);
            build.args(["build", "-mod=mod", "-o"]).arg(&program).arg(package).current_dir(folder.path());
            ensure!(build.status().context("cannot start go")?.success(), "`go build {package}` failed");
        }
        Ok(program)
    }

    /// Returns the `go.mod` of a module that needs only the program.
    fn requirements(&self) -> String {
        let modules = self.modules.iter().map(|module| format!("require {module}\n"));
        format!("module tools\n\ngo 1.24\n\n{}", modules.collect::<String>())
    }
}

/// Builds the programs that the tests need.
pub(crate) fn for_tests() -> Result<()> {
    PEBBLE.find()?;
    H2SPEC.find().map(drop)
}
