//! Programs that tests and measurements start, and what they print.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The Larder that was built for this test program, in whose folder it lies or above.
pub fn larder() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_larder").map_or_else(beside, PathBuf::from)
}

/// Test programs are in `deps`, beside it.
fn beside() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    own.ancestors().nth(2).expect("a folder").join("larder")
}

/// Finds a program on the path, in the folders of servers, or in that of some version of PostgreSQL; or a file where it
/// should be.
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

/// A command for `program` of the Debian package `package`.
pub fn program(program: &str, package: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| {
        panic!("{program} is missing: `cargo x test` installs the package {package}, or apt-get does")
    }))
}

/// What `command` prints; it must succeed.
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

/// What a program printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed to standard error.
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
