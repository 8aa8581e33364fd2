//! Real clients that read parts of a large file behind nginx. Larder stores the file by slices.

use std::fs;
use std::path::Path;

use larder_testkit::programs::find;
use larder_testkit::{output, program};

use crate::curl::curl;
use crate::reverse;
use crate::servers::Server;

const LEN: usize = 20_000_000;

fn content() -> Vec<u8> {
    (0..LEN as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u8).collect()
}

/// Returns the bytes of content that nginx has sent of the file.
fn sent(origin: &Server) -> usize {
    let bytes = |line: &String| line.split("\" ").nth(1)?.split(' ').nth(1)?.parse::<usize>().ok();
    origin.log("/film").iter().filter_map(bytes).sum()
}

/// Downloads the file by `words`, which end with the option for its destination.
fn download(client: &str, words: &[&str], to: &Path, url: &str) {
    output(program(client, client).args(words).arg(to).arg(url));
    assert!(fs::read(to).expect("the file") == content(), "{client} {words:?}");
}

#[test]
fn clients_that_read_parts_get_the_bytes_of_the_file() {
    let root = tempfile::tempdir().expect("a directory");
    let content = content();
    fs::write(root.path().join("film"), &content).expect("written");
    let origin = Server::nginx(root.path());
    let (_larder, url) = reverse(&origin.url());
    let url = format!("{url}/film");
    for range in [3_000_000..5_000_000, 4_500_000..4_500_001, 17_000_000..LEN] {
        let text = format!("{}-{}", range.start, range.end - 1);
        for words in [&["--range", &text][..], &["--http2-prior-knowledge", "--range", &text]] {
            assert!(curl(words, &url).body == content[range.clone()], "{words:?}");
        }
    }
    // Bytes 3,000,000 to 5,000,000 are in three slices of 1 MiB, the last 3,000,000 in four.
    assert!(sent(&origin) <= 7 << 20, "{} bytes", sent(&origin));
    let part = root.path().join("part");
    for (client, words) in [
        ("curl", &["--silent", "--continue-at", "-", "--output"][..]),
        ("wget", &["--quiet", "--continue", "--output-document"]),
    ] {
        fs::write(&part, &content[..7_654_321]).expect("written");
        download(client, words, &part, &url);
    }
    if find("aria2c").is_some() {
        let words = [
            "--quiet",
            "--split=8",
            "--max-connection-per-server=8",
            "--min-split-size=1M",
            "--dir=/",
            "--out",
        ];
        download("aria2c", &words, &root.path().join("whole"), &url);
    }
}
