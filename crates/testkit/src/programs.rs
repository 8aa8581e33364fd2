//! Finds the programs that tests and measurements start, and returns their output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the Larder that was built for this test program: as Cargo names it, or in the parent of this program's
/// folder.
pub fn larder() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_larder").map_or_else(beside, PathBuf::from)
}

/// Returns the program of the experiments, which is beside Larder.
pub fn lab() -> PathBuf {
    let lab = larder().with_file_name("larder-lab");
    assert!(
        lab.is_file(),
        "larder-lab is missing: `cargo x test` builds it, or `cargo build -p larder-experiment` does"
    );
    lab
}

/// Test programs are in the folder `deps` beside the binary.
fn beside() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    own.ancestors().nth(2).expect("a folder").join("larder")
}

/// Finds a program in `PATH`, in the folders of servers, or in that of any version of PostgreSQL. An absolute path is
/// returned if it is a file.
pub fn find(program: &str) -> Option<PathBuf> {
    if Path::new(program).is_absolute() {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .chain(versions.map(|version| version.path().join("bin")))
        .map(|folder| folder.join(program))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns a command for `program` of the Debian package `package`.
pub fn program(program: &str, package: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| {
        panic!("{program} is missing: `cargo x test` installs the package {package}, or apt-get does")
    }))
}

/// Runs `command`, which must succeed, and returns its standard output.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        stdout(&output),
        stderr(&output)
    );
    stdout(&output)
}

/// Returns the standard output of a program.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the standard error of a program.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_is_no_program() {
        assert_eq!(super::find("."), None);
    }
}
