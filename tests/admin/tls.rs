//! The admin listener over TLS: commands of this machine trust it without an option, and the messages to other clients.

use std::path::Path;
use std::process::Command;

use larder_testkit::{Authority, Client, Larder, Origin, site};
use tempfile::TempDir;

/// A proxy with its admin listener over TLS, and its state directory.
fn over_tls(origin: &Origin, tables: &str) -> (Larder, TempDir) {
    let state = tempfile::tempdir().expect("a directory");
    let config = format!("{tables}{}", site(&[origin], ""));
    (Larder::start_with_admin_over_tls(&config, state.path()), state)
}

fn origin() -> Origin {
    Origin::always("200 OK\nCache-Control: max-age=100\n\nbody")
}

/// Returns the exit code of a command, its output, and its errors. Its state directory is `state`.
fn run(state: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(words).env("STATE_DIRECTORY", state).env_remove("LARDER_TOKEN").env_remove("COLUMNS");
    let output = command.output().expect("it runs");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code(), out, err)
}

/// Returns the status and the content that curl gets, with the options `words`.
fn curl(words: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--max-time",
        "60",
        "--write-out",
        " %{http_code}",
    ]);
    let output = command.args(words).output().expect("curl");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn every_command_trusts_the_listener_of_its_own_state_directory() {
    let origin = origin();
    let (larder, state) = over_tls(&origin, "");
    larder.get_only("/page");
    let admin = format!("https://{}/", larder.admin);
    for (words, expected) in [
        (&["stats"][..], "requests"),
        (&["stats", "--json"], "\"requests\": 1"),
        (&["why", "http://site.test/page"], "decision"),
        (&["top", "--for", "1s", "--json"], "\"seconds\""),
        (&["purge", "http://site.test/page"], "http://site.test/page"),
    ] {
        let (code, out, err) = run(state.path(), &[words, &["--admin", &admin]].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{words:?}");
        assert!(out.contains(expected), "{words:?}: {out}");
    }
}

#[test]
fn others_trust_it_by_its_file_under_any_name() {
    let origin = origin();
    let (larder, state) = over_tls(&origin, "");
    let (elsewhere, port) = (tempfile::tempdir().expect("a directory"), larder.admin.port());
    let stats = |more: &[&str]| run(elsewhere.path(), &[&["stats"], more].concat());
    let address = format!("https://127.0.0.1:{port}");
    let (code, _, err) = stats(&["--admin", &address]);
    let untrusted = "no trusted authority has signed its certificate: name a file with it, or with its authority, by --admin-ca";
    assert_eq!((code, err), (Some(1), format!("larder: no larder answers at {address}: {untrusted}\n")));
    let file = state.path().join("admin.pem").display().to_string();
    for host in ["127.0.0.1", "localhost"] {
        let (code, _, err) = stats(&["--admin", &format!("https://{host}:{port}"), "--admin-ca", &file]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{host}");
    }
    let answered = curl(&["--cacert", &file, &format!("https://localhost:{port}/healthz")]);
    assert_eq!(answered, "alive\n 200");
    let (code, _, err) = stats(&["--admin", &address, "--admin-ca", "missing.pem"]);
    assert_eq!((code, err.as_str()), (Some(1), "larder: missing.pem: no such file\n"));
}

#[test]
fn a_scheme_that_mismatches_the_admin_listener_gets_an_explanation() {
    let origin = origin();
    let (larder, state) = over_tls(&origin, "");
    let answer = Client::to(larder.admin).ask("GET /stats\nHost: localhost");
    assert_eq!(answer.status, 400);
    assert_eq!(answer.text(), "400: this address speaks HTTP over TLS: use https:// here\n");
    let address = larder.admin.to_string();
    let (code, _, err) = run(state.path(), &["stats", "--admin", &address]);
    let says = format!("larder: {address} says: 400: this address speaks HTTP over TLS: use https:// here\n");
    assert_eq!((code, err), (Some(1), says));

    let plain = Larder::before(&origin);
    let address = format!("https://{}", plain.admin);
    let (code, _, err) = run(state.path(), &["stats", "--admin", &address]);
    let says =
        format!("larder: no larder answers at {address}: it speaks HTTP without TLS: use http:// for it\n");
    assert_eq!((code, err), (Some(1), says));
    let (code, _, err) =
        run(state.path(), &["stats", "--admin", &plain.admin.to_string(), "--admin-ca", "a"]);
    let says = format!("larder: --admin-ca is for TLS: write --admin https://{}\n", plain.admin);
    assert_eq!((code, err), (Some(1), says));
}

#[test]
fn the_admin_listener_shows_the_certificate_of_the_requested_site() {
    let (origin, authority) = (origin(), Authority::new());
    let pair = authority.pair("site", &["site.test"]);
    let (larder, state) = over_tls(&origin, &pair.table());
    let port = larder.admin.port();
    let there = format!("site.test:{port}:127.0.0.1");
    let by_name = curl(&[
        "--cacert",
        &authority.file(),
        "--resolve",
        &there,
        &format!("https://site.test:{port}/healthz"),
    ]);
    assert_eq!(by_name, "alive\n 200");
    let (code, _, err) = run(state.path(), &["stats", "--admin", &format!("https://127.0.0.1:{port}")]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "by address, it shows its own");
}

#[test]
fn its_certificate_outlives_a_restart() {
    let origin = origin();
    let (larder, state) = over_tls(&origin, "");
    let file = state.path().join("admin.pem");
    let before = std::fs::read(&file).expect("a certificate");
    drop(larder);
    let config = site(&[&origin], "");
    let _larder = Larder::start_with_admin_over_tls(&config, state.path());
    assert_eq!(std::fs::read(&file).expect("a certificate"), before);
}
