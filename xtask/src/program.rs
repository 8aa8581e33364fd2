//! The program that a command checks: its builds, its start, and a certificate for its listeners.

use crate::{args, cargo, root};
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::Process;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const START_LIMIT: Duration = Duration::from_secs(30);

/// Returns the build to check, from the words of a command that has no other option. Fails on an unknown word, which
/// the error names.
pub(crate) fn chosen(words: &[String]) -> Result<Option<PathBuf>> {
    Ok(args::parse(words, &[("--larder", true)])?.path("--larder"))
}

/// Builds the debug build, and returns its path.
pub(crate) fn build_debug() -> Result<PathBuf> {
    let status = cargo().args(["build", "--quiet", "--package", "larder"]).status();
    ensure!(status.context("cannot start cargo")?.success(), "`cargo build` failed");
    debug_build()
}

/// Returns the path of the debug build, which is beside this program.
pub(crate) fn debug_build() -> Result<PathBuf> {
    Ok(std::env::current_exe().context("cannot find the debug build")?.with_file_name("larder"))
}

/// Returns the folder of all builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Builds the release build, and returns its path.
pub(crate) fn build_release() -> Result<PathBuf> {
    let status = cargo().args(["build", "--release", "--quiet"]).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo build --release`: {status}");
    }
    Ok(root().join("target/release/larder"))
}

/// Starts a server and waits until it listens at `port`. Fails if it cannot be started, ends early, or does not listen
/// in time.
pub(crate) fn start(mut command: Command, port: u16, what: &str) -> Result<Process> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Process::start(&mut command).with_context(|| format!("cannot start {what}"))?;
    server.listens(&[("localhost", port)], START_LIMIT).with_context(|| what.to_owned())?;
    Ok(server)
}

/// Creates a certificate in `folder`. Returns the files with it, with its key, and with both. Fails if openssl fails.
pub(crate) fn certify(folder: &Path) -> Result<[String; 3]> {
    let [cert, key, both] =
        ["cert.pem", "key.pem", "both.pem"].map(|name| folder.join(name).display().to_string());
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "30",
    ]);
    openssl.args([
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        &key,
        "-out",
        &cert,
    ]);
    let output = openssl.output().context("cannot start openssl")?;
    if !output.status.success() {
        bail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(&cert)? + &std::fs::read_to_string(&key)?;
    std::fs::write(&both, text)?;
    Ok([cert, key, both])
}
