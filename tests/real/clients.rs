//! curl and wrk with requests other than plain GETs.

use std::fs;
use std::path::Path;

use larder_testkit::{output, program};

use super::curl::curl;
use super::reverse;
use super::servers::Server;

/// Creates files of compressible text and of incompressible bytes.
fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("text"), "all work and no play\n".repeat(2_000)).expect("written");
    fs::write(directory.path().join("small"), "x".repeat(1_000)).expect("written");
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(1 << 20).collect();
    fs::write(directory.path().join("large"), bytes).expect("written");
    directory
}

fn read(directory: &Path, name: &str) -> Vec<u8> {
    fs::read(directory.join(name)).expect("a file")
}

#[test]
fn compressed_and_plain_are_two_variants() {
    let tree = tree();
    let origin = Server::nginx(tree.path());
    let (larder, proxy) = reverse(&origin.url());
    let text = read(tree.path(), "text");
    for round in 0..2 {
        larder.settle();
        for (words, coding) in [(&["--compressed"][..], Some("gzip")), (&[], None)] {
            let answer = curl(words, &format!("{proxy}/text"));
            assert!(answer.body == text, "wrong bytes for {words:?}");
            assert_eq!(
                (answer.field("content-encoding"), answer.is_hit()),
                (coding, round == 1),
                "{words:?}"
            );
        }
    }
    assert_eq!(origin.count(), 2);
    let encoded = curl(&["--header", "Accept-Encoding: gzip"], &format!("{proxy}/text"));
    assert!(encoded.body.starts_with(&[0x1f, 0x8b]) && encoded.body.len() < text.len() / 10);
}

#[test]
fn old_clients_are_understood() {
    let tree = tree();
    let origin = Server::nginx(tree.path());
    let (larder, proxy) = reverse(&origin.url());
    for hit in [false, true] {
        larder.settle();
        let answer = curl(&["--http1.0"], &format!("{proxy}/large"));
        assert!(answer.body == read(tree.path(), "large"), "wrong bytes");
        assert_eq!((answer.status, answer.is_hit(), answer.field("transfer-encoding")), (200, hit, None));
    }
}

#[test]
fn uploads_arrive_whole() {
    let tree = tree();
    let origin = Server::python();
    let (_larder, proxy) = reverse(&origin.url());
    let data = format!("@{}", tree.path().join("large").display());
    let ways: [&[&str]; 3] = [
        &[],
        &["--header", "Expect: 100-continue"],
        &["--header", "Transfer-Encoding: chunked", "--header", "Expect: 100-continue"],
    ];
    for way in ways {
        let words = [&["--data-binary", &data], way].concat();
        let answer = curl(&words, &format!("{proxy}/echo"));
        assert_eq!(answer.status, 200, "{way:?}");
        assert!(answer.body == read(tree.path(), "large"), "wrong bytes for {way:?}");
    }
}

#[test]
fn a_load_meets_no_error() {
    let tree = tree();
    let origin = Server::nginx(tree.path());
    let (_larder, proxy) = reverse(&origin.url());
    for path in ["/small", "/large"] {
        let mut wrk = program("wrk", "wrk");
        let report =
            output(wrk.args(["-t2", "-c50", "-d2s", "--timeout", "20s"]).arg(format!("{proxy}{path}")));
        assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{report}");
        assert_eq!(origin.log(path).len(), 1, "{report}");
    }
}
