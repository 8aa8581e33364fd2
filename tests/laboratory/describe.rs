//! `larder describe` from the view of users.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn describe(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder")).arg("describe").args(words).output().expect("it runs")
}

fn shipped(name: &str) -> String {
    format!("{}/traces/{name}.oracleGeneral.zst", env!("CARGO_MANIFEST_DIR"))
}

fn file(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).expect("a file");
    path
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_log_is_told_in_a_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let log = b"1000.000 10 ::1 TCP_MISS/200 4096 GET http://a/x - DIRECT/- text/html\n\
        1001.000 10 ::1 TCP_MISS/200 1024 GET http://a/y - DIRECT/- text/html\n\
        1002.500 10 ::1 TCP_HIT/200 4096 GET http://a/x - DIRECT/- text/html\n\
        1003.000 10 ::1 TCP_MISS/200 10 POST http://a/x - DIRECT/- text/html\n\
        1010.000 10 ::1 TCP_HIT/304 200 GET http://a/x - DIRECT/- text/html\n";
    let path = file(folder.path(), "squid.log", log);
    let output = describe(&[path.to_str().unwrap()]);
    let expected = "squid\n\
        \x20 format          squid\n\
        \x20 requests        4\n\
        \x20 time            10.000 s, 0.400 requests/s\n\
        \x20 objects         2; requested once: 1 (50.0%)\n\
        \x20 bytes           13.0 KiB requested, 5.00 KiB distinct\n\
        \x20 best hit ratio  50.0%\n\
        \x20 most popular    75.0% of the requests\n\
        \x20 zipf exponent   1.58\n\
        \x20 object size     10% 1.00 KiB, 50% 1.00 KiB, 90% 4.00 KiB, 99% 4.00 KiB, most 4.00 KiB\n\
        \x20 reuse distance  10% 1, 50% 1, 90% 2, 99% 2, most 2 objects\n\
        \x20                 10% 4.00 KiB, 50% 4.00 KiB, 90% 5.00 KiB, 99% 5.00 KiB, most 5.00 KiB\n\
        \x20 working set     1 to 1 objects in each of 4 parts\n";
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(0)));
    let notes = "larder: squid: left out 1 with a method other than GET\n\
        larder: squid: 1 without the object's size, as with status 304: taken from other requests for the same object\n";
    assert_eq!(text(&output.stderr), notes);
}

#[test]
fn a_shipped_trace_is_described_as_json_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let traces = [shipped("semicomplete_weblog"), shipped("cache2k_web12")];
    let output = describe(&[&traces[0], &traces[1], "--json", "-o", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let [weblog, shop] = [&json["traces"][0], &json["traces"][1]].map(|trace| &trace["description"]);
    assert_eq!(json["traces"][0]["trace"], "semicomplete_weblog");
    for (name, value) in [("requests", 9_581), ("objects", 1_387), ("bytes_distinct", 561_277_763)] {
        assert_eq!(weblog[name], value, "{name}");
    }
    assert_eq!((&shop["objects"], &shop["bytes_distinct"]), (&13_756.into(), &serde_json::Value::Null));
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 5 + 4);
    for elsewhere in ["src=", "href=", "<script", "@import", "url("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn an_unreadable_trace_is_reported_in_one_line_with_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    let empty = file(folder.path(), "empty", b"");
    let rubbish = file(folder.path(), "rubbish", b"\x7fELF\0\0\0\0");
    let broken = file(folder.path(), "broken", b"{\"key\":1}\n{\"key\":2}\n{\"size\":3}\n");
    let table: &[(&[&str], &str)] = &[
        (&[empty.to_str().unwrap()], "empty': it is empty"),
        (&[rubbish.to_str().unwrap()], "rubbish': its format is unknown; name it, if it is one of lcs "),
        (&[broken.to_str().unwrap()], "the first is line 3: no key"),
        (&[folder.path().to_str().unwrap()], "it is a directory"),
        (&["gone"], "cannot read 'gone': no such file"),
    ];
    for (words, why) in table {
        let output = describe(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(said.starts_with("larder: cannot read '") && said.contains(why), "{words:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let output = describe(&[broken.to_str().unwrap(), "--max-broken", "50%"]);
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "larder: broken: line 3 is broken: no key\n")
    );
    let wrong: &[(&[&str], &str)] = &[
        (&[], "TRACE"),
        (&["x", "--format", "squit"], "csv plain custom; did you mean 'squid'?"),
        (&["x", "--sample", "0"], "a sample of 0 selects nothing"),
        (&["x", "--columns", "tme"], "unknown column 'tme'; known: time timems key host size "),
    ];
    for (words, why) in wrong {
        let output = describe(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(why), "{words:?}: {}", text(&output.stderr));
    }
    let output = describe(&[broken.to_str().unwrap(), "--max-broken", "1", "-o", "gone/page.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write 'gone/page.html'"));
}
