//! Real origins (nginx, Apache, a Python server) behind the real binary, and real clients (curl, apt, wrk) before it.
//!
//! What an origin answers directly is the oracle for what it answers through the cache. A program that is
//! missing fails its tests and says how to get it.

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

use larder_testkit::Larder;

/// A command for `program` of the Debian package `package`.
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

/// What `command` prints; it must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// A reverse proxy in front of `origin`, and where it is.
fn reverse(origin: &str) -> (Larder, String) {
    let larder = Larder::start(&format!("[[site]]\norigin = '{origin}'\n"));
    let url = format!("http://{}", larder.address());
    (larder, url)
}
