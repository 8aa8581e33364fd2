//! `larder debug bundle`: its files, and no secrets.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use flate2::read::GzDecoder;
use larder_testkit::{Engine, Larder, Origin, site, stdout};

use crate::{larder, output};

#[test]
fn a_bundle_has_the_state_of_the_proxy_without_its_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("file"), "a-secret-in-a-file").expect("written");
    fs::write(path("log"), "GET /a?key=a-secret-in-a-query HTTP/1.1 http://me:a-secret@b/\n")
        .expect("written");
    let (origin, engine) = (Origin::always("200 OK\n\nbody"), Engine::start());
    let config = format!(
        "admin_token = '@{}'\n[cluster]\nengine = '{}'\ntoken = 'a-secret-of-nodes'\nlisten = '127.0.0.1:0'\n{}\
         [[site.rule]]\nname = 'keys'\nrequest.set = {{ Authorization = 'Bearer a-secret-in-a-rule' }}\n",
        path("file"),
        engine.url(),
        site(&[&origin], "name = 'shop'"),
    );
    let proxy = Larder::start(&config);
    let bundle = path("bundle.tar.gz");
    let words =
        ["debug", "bundle", "--output", &bundle, "--log", &path("log"), "--admin", &proxy.admin.to_string()];
    let made = output(&mut larder(&words));
    assert!(made.status.success() && stdout(&made).contains("bundle.tar.gz has 7 files"), "{made:?}");
    assert_eq!(fs::metadata(&bundle).expect("it is there").permissions().mode() & 0o777, 0o600);

    // Other programs can read the archive.
    let listed = output(Command::new("tar").args(["-tzf", &bundle]));
    let files =
        ["version.txt", "doctor.txt", "log.txt", "config.json", "stats.json", "about.json", "metrics.txt"];
    assert_eq!(stdout(&listed), files.map(|name| format!("larder/{name}\n")).concat());

    let mut text = String::new();
    GzDecoder::new(fs::File::open(&bundle).expect("it is there")).read_to_string(&mut text).expect("text");
    for there in
        ["\"cluster.token\": \"(not shown)\"", "site[shop].rule[keys]", "larder_requests_total", "GET /a?..."]
    {
        assert!(text.contains(there), "{there}");
    }
    assert!(!text.contains("a-secret"), "{}", text.split("a-secret").next().unwrap_or_default());
}

#[test]
fn a_bundle_without_a_running_proxy_tells_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = folder.path().join("bundle.tar.gz").display().to_string();
    let made = output(&mut larder(&["debug", "bundle", "--output", &bundle, "--admin", "127.0.0.1:9"]));
    assert!(made.status.success() && stdout(&made).contains("has 3 files"), "{made:?}");
    assert!(stdout(&made).contains("not in it: metrics.txt: no larder answers"), "{made:?}");
    let missing = output(Command::new("tar").args(["-xzOf", &bundle, "larder/missing.txt"]));
    assert!(
        stdout(&missing).starts_with("config.json: no larder answers at 127.0.0.1:9"),
        "{}",
        stdout(&missing)
    );
}
