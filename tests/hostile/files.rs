//! Other users of the machine: the rights of the proxy's files, secrets and sockets.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use larder_testkit::{Larder, Origin, eventually};

/// Starts a proxy that stores responses and statistics below `directory`.
fn in_directory(origin: &Origin, directory: &Path) -> Larder {
    let disk = directory.join("cache/disk");
    let config = format!(
        "[stats]\n[[disk]]\npath = '{}'\nsize = '64MiB'\n[[site]]\norigin = '{}'",
        disk.display(),
        origin.url()
    );
    Larder::start_in(&config, &[("STATE_DIRECTORY", &directory.join("state")), ("TZ", Path::new("UTC"))])
}

/// Returns all files and directories below `directory`, with their modes.
fn rights(directory: &Path) -> Vec<(String, u32)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry")) {
        let about = entry.metadata().expect("it is there");
        all.push((entry.path().display().to_string(), about.permissions().mode() & 0o777));
        if about.is_dir() {
            all.extend(rights(&entry.path()));
        }
    }
    all
}

#[test]
fn files_of_the_proxy_are_accessible_to_its_user_only() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=1000\n\nstored");
    let directory = tempfile::tempdir().expect("a directory");
    let larder = in_directory(&origin, directory.path());
    eventually("an object on the disk", || {
        larder.get("/");
        larder.ask_admin("POST /purge?url=http://site.test/elsewhere\nLarder-Admin: 1");
        (larder.stats()["disks"][0]["stored"].as_u64()? > 0).then_some(())
    });
    let all = rights(directory.path());
    for name in ["larder.lock", "statistics.db", "state"] {
        assert!(all.iter().any(|(path, _)| path.ends_with(name)), "{name} is missing: {all:?}");
    }
    for (path, rights) in all {
        assert_eq!(rights & 0o077, 0, "{path} is {rights:o}");
    }
}

#[test]
fn a_lock_that_leads_elsewhere_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, target) = (directory.path().join("disk"), directory.path().join("target"));
    fs::create_dir(&disk).expect("a directory");
    fs::write(&target, "kept").expect("written");
    symlink(&target, disk.join("larder.lock")).expect("a link");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args([
        "serve",
        "--forward",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--stats",
        "none",
        "--disk",
    ]);
    let output = command.arg(&disk).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("larder.lock is a symbolic link"), "{said}");
    assert_eq!(fs::read(&target).expect("there"), b"kept");
}
