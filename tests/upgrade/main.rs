//! Upgrades from the view of clients and operators: no request fails, and a failed upgrade changes nothing.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod ends;
mod failures;
mod footprint;
mod learned;
mod load;
mod memory;
mod ports;
mod sockets;
mod state;
mod versions;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use larder_testkit::{Larder, Origin, site};

/// Writes a script in `folder` in place of a program.
fn script(folder: &Path, lines: &str) -> PathBuf {
    let file = folder.join("program");
    fs::write(&file, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// Whether the site answers.
fn serves(larder: &Larder) -> bool {
    larder.get_only("/page").status == 200
}

/// Starts a proxy in front of `origin`. Returns its config, too.
fn start(origin: &Origin, tables: &str) -> (Larder, String) {
    let config = format!("{tables}\n{}", site(&[origin], ""));
    (Larder::start(&config), config)
}

/// Returns the seconds since 1970.
fn seconds() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}
