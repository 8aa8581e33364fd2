//! Real origins (nginx, Apache, a Python server) behind the real binary, and real clients (curl, apt, wrk) before it.
//!
//! The origin's direct response is the oracle for the response through the cache. A missing program fails its tests
//! with a message about its package.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod apt;
mod clients;
mod curl;
mod documents;
mod https;
mod purges;
mod servers;
mod slow;

use std::path::PathBuf;
use std::process::Command;

use support::Larder;

/// Returns a command for `program` of the Debian package `package`.
fn program(program: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file());
    let found = found.unwrap_or_else(|| {
        panic!("{program} is missing: `cargo x test` installs the package {package}, or apt-get does")
    });
    Command::new(found)
}

/// Returns the output of `command`, which must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Starts a reverse proxy before `origin`, and returns its URL.
fn reverse(origin: &str) -> (Larder, String) {
    let larder = Larder::start(&format!("[[site]]\norigin = '{origin}'\n"));
    let url = format!("http://{}", larder.address());
    (larder, url)
}
