//! `larder cache`: the inventory of disks, of a running proxy and of a stopped one.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use larder_testkit::{Answer, Client, Larder, Origin};
use serde_json::Value;

use super::failing::segments;
use crate::{config, end, kill, page, pages, ready, written};

fn cache(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder")).arg("cache").args(words).output().expect("it runs")
}

/// Returns the output of a command, which must succeed.
fn printed(words: &[&str]) -> Vec<u8> {
    let output = cache(words);
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    output.stdout
}

fn text(words: &[&str]) -> String {
    String::from_utf8(printed(words)).expect("text")
}

/// Returns the exit code and the last error line of a command.
fn complaint(words: &[&str]) -> (i32, String) {
    let output = cache(words);
    let text = String::from_utf8(output.stderr).expect("text");
    let line = text.lines().last().and_then(|line| line.strip_prefix("larder: ")).expect(&text);
    (output.status.code().expect("an end"), line.to_owned())
}

/// Returns the objects of a list, sorted by their URLs.
pub(super) fn objects(place: &[&str]) -> Vec<Value> {
    let lines = text(&[&["ls", "--json"], place].concat());
    let mut objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    objects.sort_by_key(|object| object["url"].to_string() + &object["vary"].to_string());
    objects
}

fn name(object: &Value) -> &str {
    object["name"].as_str().expect("a name")
}

/// Asserts that exactly these pages are stored at `place`, and that `get` prints each by name and by URL.
fn assert_holds(place: &[&str], paths: &[&str]) {
    let objects = objects(place);
    assert_eq!(objects.len(), paths.len(), "{objects:?}");
    for (object, path) in objects.iter().zip(paths) {
        let url = format!("http://site.test{path}");
        assert_eq!(
            (&object["url"], &object["role"], &object["fresh"]),
            (&url.as_str().into(), &"reverse".into(), &true.into())
        );
        assert_eq!(object["bytes"], page(path).len());
        for key in [name(object), &url] {
            assert!(printed(&[&["get", key], place].concat()) == page(path), "{path} by {key}");
        }
        let whole = printed(&[&["get", &url, "--include"], place].concat());
        let head = whole.strip_suffix(&*page(path)).expect("the content is at the end");
        assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n") && head.ends_with(b"\r\n\r\n"), "{path}");
    }
    let table = text(&[&["ls"], place].concat());
    assert!(table.starts_with("name ") && table.contains(&format!("\n{} objects, ", paths.len())), "{table}");
    let verified = text(&[&["verify", "--rate", "1GiB"], place].concat());
    assert!(verified.starts_with(&format!("{} objects with ", paths.len())), "{verified}");
}

const PAGES: [&str; 4] = ["/a-0", "/b-100", "/c-70000", "/d-3000000"];

#[test]
fn stored_objects_are_listed_printed_and_verified_while_serving_and_at_rest() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let path = directory.path().to_str().unwrap();
    for stop in [end, kill] {
        let larder = Larder::start(&config(directory.path(), &origin, ""));
        ready(&larder);
        PAGES.iter().for_each(|path| _ = larder.get(path));
        let admin = larder.admin.to_string();
        if origin.count() == PAGES.len() {
            written(&larder, 0);
        }
        assert_holds(&["--admin", &admin], &PAGES);
        let (code, why) = complaint(&["ls", "--disk", path]);
        assert!(code == 1 && why.contains(" is in use by process ") && why.contains("--admin"), "{why}");
        stop(larder);
        let before = state(directory.path());
        assert_holds(&["--disk", path], &PAGES);
        assert!(before == state(directory.path()), "looking changes nothing");
    }
    assert_eq!(origin.count(), PAGES.len());
}

/// Returns the names and contents of all files except the lock.
fn state(directory: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension != "lock"));
    let mut all: Vec<_> = files.map(|file| (file.clone(), fs::read(file).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn variants_are_objects_and_what_a_purge_left_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::by(|seen| {
        let language = seen.field("accept-language").unwrap_or("none").to_owned();
        format!("200 OK\nCache-Control: max-age=60\nVary: Accept-Language\n\npage in {language}")
    });
    let larder = Larder::start(&config(directory.path(), &origin, ""));
    let (admin, url) = (larder.admin.to_string(), "http://site.test/");
    let place = ["--admin", admin.as_str()];
    larder.ask("GET /\nAccept-Language: it");
    written(&larder, 2);
    larder.ask("POST /\nContent-Length: 0");
    larder.ask("GET /\nAccept-Language: de");
    larder.ask("GET /");
    written(&larder, 5);
    let found = objects(&place);
    let varies: Vec<_> = found.iter().map(|object| object["vary"]["accept-language"].clone()).collect();
    assert_eq!(varies, [Value::from("de"), Value::Null]);
    assert_eq!(text(&["get", name(&found[0]), "--admin", &admin]), "page in de");
    let (code, why) = complaint(&["get", url, "--admin", &admin]);
    assert!(
        code == 1 && why.starts_with("2 objects are stored for 'http://site.test/'; name one: "),
        "{why}"
    );
    assert!(why.contains(&format!("{} (accept-language: de)", name(&found[0]))), "{why}");
}

#[test]
fn a_newer_head_is_the_one_that_is_shown() {
    let (directory, path) = (tempfile::tempdir().unwrap(), "/long-300000");
    let origin = Origin::answering(|seen| match seen.field("if-none-match") {
        Some(_) => {
            Answer::with_body("304 Not Modified\nETag: \"1\"\nCache-Control: max-age=3600\nX-News: yes", b"")
        }
        None => Answer::with_body("200 OK\nCache-Control: max-age=0\nETag: \"1\"", &page(&seen.target)),
    });
    let larder = Larder::start(&config(directory.path(), &origin, ""));
    let admin = larder.admin.to_string();
    larder.get(path);
    written(&larder, 1);
    assert_eq!(objects(&["--admin", &admin])[0]["fresh"], false);
    larder.get(path);
    written(&larder, 2);
    let found = objects(&["--admin", &admin]);
    assert_eq!((found.len(), &found[0]["fresh"]), (1, &true.into()));
    let whole = printed(&["get", name(&found[0]), "--include", "--admin", &admin]);
    let head = String::from_utf8_lossy(&whole[..500]).to_lowercase();
    assert!(head.contains("x-news: yes\r\n"), "{head}");
}

#[test]
fn verify_finds_and_removes_a_damaged_object() {
    for at_rest in [false, true] {
        let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
        let config = config(directory.path(), &origin, "");
        let larder = Larder::start(&config);
        ["/a-300000", "/b-500"].iter().for_each(|path| _ = larder.get(path));
        written(&larder, 2);
        end(larder);
        let file = &segments(directory.path())[0];
        let mut bytes = fs::read(file).unwrap();
        bytes[200_000] ^= 0x40;
        fs::write(file, bytes).unwrap();
        let check = |place: [&str; 2]| {
            assert_eq!(
                complaint(&["verify", place[0], place[1]]),
                (1, "1 object was corrupt, and was removed".to_owned())
            );
            text(&["verify", place[0], place[1]])
        };
        if at_rest {
            check(["--disk", directory.path().to_str().unwrap()]);
        }
        let larder = Larder::start(&config);
        ready(&larder);
        let admin = larder.admin.to_string();
        if !at_rest {
            check(["--admin", &admin]);
        }
        let found = objects(&["--admin", &admin]);
        assert_eq!((found.len(), &found[0]["url"]), (1, &"http://site.test/b-500".into()));
        assert!(larder.get("/a-300000").body == page("/a-300000"));
    }
}

#[test]
fn damage_is_found_by_a_check_where_there_is_no_index() {
    type Spoil = fn(&mut Vec<u8>);
    let table: [(Spoil, u64, &str); 4] = [
        (|bytes| bytes[128..400].fill(0xff), 1, "1 damaged place, whose records are lost"),
        // One bit of the first record's header is flipped.
        (|bytes| bytes[168] ^= 4, 1, "1 object was corrupt, and was removed"),
        (
            |bytes| {
                bytes[168] ^= 4;
                bytes.extend([0xff; 200]);
            },
            1,
            "1 object was corrupt, and was removed; 1 damaged place, whose records are lost",
        ),
        (|bytes| bytes.extend([0xff; 200]), 2, "1 damaged place, whose records are lost"),
    ];
    for (spoil, objects, expected) in table {
        let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
        let larder = Larder::start(&config(directory.path(), &origin, ""));
        ["/a-500", "/b-500"].iter().for_each(|path| _ = larder.get(path));
        written(&larder, 2);
        kill(larder);
        let file = &segments(directory.path())[0];
        let mut bytes = fs::read(file).unwrap();
        spoil(&mut bytes);
        fs::write(file, bytes).unwrap();
        let place = ["--disk", directory.path().to_str().unwrap()];
        let verify = ["verify", place[0], place[1]];
        assert_eq!(complaint(&verify), (1, expected.to_owned()));
        let whole = text(&verify);
        assert!(whole.starts_with(&format!("{objects} object")), "{expected}: {whole}");
    }
}

#[test]
fn cache_commands_report_a_missing_object_in_one_line() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let larder = Larder::start(&config(directory.path(), &origin, ""));
    let admin = larder.admin.to_string();
    larder.get("/a-100");
    written(&larder, 1);
    let (name, output) = ("00000000000000ff", directory.path().join("page"));
    let table = [
        (
            "http://site.test/b",
            "nothing is stored for 'http://site.test/b'; larder cache ls lists the stored objects",
        ),
        (
            "https://site.test/a-100/",
            "nothing is stored for 'https://site.test/a-100/'; did you mean 'http://site.test/a-100'?",
        ),
        (
            name,
            "nothing is stored under the name 00000000000000ff, or only in slices; larder cache ls lists the stored objects",
        ),
    ];
    for (key, why) in table {
        let words = ["get", key, "-o", output.to_str().unwrap(), "--admin", &admin];
        assert_eq!(complaint(&words), (1, why.to_owned()));
        assert!(!output.exists());
    }
    printed(&["get", "http://site.test/a-100", "-o", output.to_str().unwrap(), "--admin", &admin]);
    assert_eq!(fs::read(output).unwrap(), page("/a-100"));
    let without = Larder::before(&origin);
    let (code, why) = complaint(&["verify", "--admin", &without.admin.to_string()]);
    assert!(
        code == 1 && why.ends_with("there is no disk cache here; larder serve --disk DIR adds one"),
        "{why}"
    );
    let answer = |target: &str| Client::to(larder.admin).ask(&format!("GET {target}\nHost: 127.0.0.1"));
    let stranger = Client::to(larder.admin).ask("GET /cache\nHost: stranger.test");
    assert_eq!(stranger.status, 403, "{stranger:?}");
    let table =
        [("/cache/ff", 404), ("/cache/", 404), ("/cache?url=x", 400), ("/cache/verify", 405), ("/cach", 404)];
    for (target, status) in table {
        let answer = answer(target);
        assert_eq!((answer.status, answer.text().lines().count()), (status, 1), "{target}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let larder = Larder::start(&config(directory.path(), &origin, ""));
    larder.get("/large-9000000");
    written(&larder, 1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["cache", "get", "http://site.test/large-9000000", "--admin", &larder.admin.to_string()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(first[..] == page("/large-9000000")[..1000]);
}

#[test]
fn cache_listings_include_memory_and_show_objects_in_both_tiers_once() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let larder = Larder::start(&config(directory.path(), &origin, "[memory]\nentries = 1\n"));
    larder.get("/a-100");
    larder.get("/b-100");
    larder.get("/b-100");
    written(&larder, 2);
    let found = objects(&["--admin", &larder.admin.to_string()]);
    let tiers = found.iter().map(|object| (object["tier"].as_str().unwrap(), object["hits"].as_u64()));
    assert_eq!(tiers.collect::<Vec<_>>(), [("disk", None), ("both", Some(1))]);
    let shown = larder.ask_admin("GET /objects").json();
    assert_eq!((&shown["matches"], &shown["bytes"]), (&2.into(), &200.into()));

    let without = Larder::before(&origin);
    let admin = without.admin.to_string();
    without.get("/a-100");
    assert!(text(&["ls", "--admin", &admin]).contains("in memory"));
    let url = "http://site.test/a-100";
    assert_eq!(objects(&["--admin", &admin])[0]["url"], url);
    let why = format!("'{url}' is in memory only; use larder fetch");
    assert_eq!(complaint(&["get", url, "--admin", &admin]), (1, why));
}
