//! Files of the state directory that the process cannot use stop the start, with a message.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;

use crate::pebble::Pebble;
use crate::world::{LONG, World, wait_for};

/// The id of a user other than the user of this process.
const NOBODY: u32 = 65_534;

#[test]
fn a_file_that_is_spoilt_or_foreign_is_refused_with_a_sentence() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    drop(larder);
    let config = world.state.path().join("larder.toml");
    fs::write(&config, world.config(&pebble, "'site.test'", "")).expect("written");
    let run = |command: &str| {
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        larder.env("STATE_DIRECTORY", world.state.path()).args([command, "--config"]).arg(&config);
        let output = larder.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let refused = |expected: &str| {
        let (started, told) = run("serve");
        assert!(!started && told.contains(expected), "{told}");
        assert!(told.contains("larder: cannot use the stored keys and certificates of ACME: "), "{told}");
        let (_, told) = run("check");
        assert!(told.contains(&format!("warning: {}", world.state.path().display())), "{told}");
        assert!(told.contains(expected), "{told}");
    };
    let (file, good) = (world.file("site.test.pem"), world.kept());
    fs::write(&file, "nothing").expect("written");
    refused(
        "site.test.pem: no certificate in it; it has to be PEM; remove the file, and a new certificate will be ordered",
    );
    let (certificate, key) = good.split_at(good.find("-----BEGIN PRIVATE").expect("a key"));
    fs::write(&file, certificate).expect("written");
    refused("site.test.pem: no private key in it");
    fs::write(&file, key).expect("written");
    refused("site.test.pem: no certificate in it");
    fs::remove_file(&file).expect("removed");
    symlink("/dev/null", &file).expect("a link");
    refused("site.test.pem is a symbolic link");
    fs::remove_file(&file).expect("removed");
    fs::write(&file, &good).expect("written");
    // Only the superuser can change the owner of a file.
    if chown(&file, Some(NOBODY), None).is_ok() {
        refused("site.test.pem belongs to another user");
        fs::remove_file(&file).expect("removed");
        fs::write(&file, &good).expect("written");
    }
    let account = world.file("_account.json");
    let known = fs::read(&account).expect("an account");
    fs::write(&account, "{}").expect("written");
    let (started, told) = run("serve");
    assert!(!started && told.contains("_account.json: not an ACME account"), "{told}");
    fs::write(&account, known).expect("written");
    drop(world.start(&pebble));
}
