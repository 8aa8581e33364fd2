//! Real clients that read parts of a large file behind nginx. Larder stores the file by slices.

use std::fs;
use std::path::Path;

use larder_testkit::programs::find;
use larder_testkit::{Larder, output, program};
use serde_json::json;

use crate::browser::Browser;
use crate::curl::curl;
use crate::reverse;
use crate::servers::Server;

const LEN: usize = 20_000_000;

fn content() -> Vec<u8> {
    (0..LEN as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u8).collect()
}

/// Returns the bytes of content that nginx has sent of the file at `path`.
fn sent(origin: &Server, path: &str) -> usize {
    let bytes = |line: &String| line.split("\" ").nth(1)?.split(' ').nth(1)?.parse::<usize>().ok();
    origin.log(path).iter().filter_map(bytes).sum()
}

/// Downloads the file by `words`, which end with the option for its destination.
fn download(client: &str, words: &[&str], to: &Path, url: &str) {
    // zsync renames a file in the current directory.
    let folder = to.parent().expect("a folder");
    output(program(client, client).current_dir(folder).args(words).arg(to).arg(url));
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
    let sent = sent(&origin, "/film");
    assert!(sent <= 7 << 20, "{sent} bytes");
    let part = root.path().join("part");
    for (client, words) in [
        ("curl", &["--silent", "--continue-at", "-", "--output"][..]),
        ("wget", &["--quiet", "--continue", "--output-document"]),
    ] {
        fs::write(&part, &content[..7_654_321]).expect("written");
        download(client, words, &part, &url);
    }
    let words =
        ["--quiet", "--split=8", "--max-connection-per-server=8", "--min-split-size=1M", "--dir=/", "--out"];
    download("aria2c", &words, &root.path().join("whole"), &url);
    let mut old = content.clone();
    old[9_000_000..9_100_000].fill(0);
    fs::write(&part, old).expect("written");
    let (film, changes) = (root.path().join("film"), root.path().join("film.zsync"));
    output(program("zsyncmake", "zsync").args(["-u", &url, "-o"]).arg(&changes).arg(film));
    let words = ["-q", "-i", &part.display().to_string(), "-o"];
    download("zsync", &words, &root.path().join("new"), &format!("{url}.zsync"));
}

/// Returns a film without pictures: 100 seconds of silence, in stereo.
fn sound() -> Vec<u8> {
    const RATE: u32 = 44_100;
    let length = RATE * 4 * 100;
    let mut film = [&b"RIFF"[..], &(length + 36).to_le_bytes(), b"WAVEfmt \x10\0\0\0\x01\0\x02\0"].concat();
    film.extend([RATE, RATE * 4, 16 << 16 | 4].map(u32::to_le_bytes).concat());
    film.extend([&b"data"[..], &length.to_le_bytes()].concat());
    film.resize(film.len() + length as usize, 0);
    film
}

#[test]
fn a_video_element_that_seeks_back_finds_what_it_has_seen() {
    let root = tempfile::tempdir().expect("a directory");
    let film = sound();
    fs::write(root.path().join("film.wav"), &film).expect("written");
    fs::write(root.path().join("page.html"), "<video src=/film.wav preload=metadata>").expect("written");
    let origin = Server::nginx(root.path());
    let larder = Larder::start(&format!("[[site]]\norigin = '{}'\nslice = '64KiB'\n", origin.url()));
    let mut fetched = Vec::new();
    for _ in 0..2 {
        let mut browser = Browser::open();
        browser.call("Page.navigate", json!({"url": format!("http://{}/page.html", larder.address())}));
        browser.until("document.querySelector('video').readyState > 0");
        for second in [90, 5, 60, 90] {
            let seek = format!(
                "new Promise(done => {{ const video = document.querySelector('video'); \
                 video.onseeked = () => done(video.currentTime); video.currentTime = {second} }})"
            );
            assert_eq!(browser.eval(&seek), second);
        }
        fetched.push(sent(&origin, "/film.wav"));
    }
    assert!(fetched[0] > 0 && fetched[1] <= film.len(), "{fetched:?} bytes of {}", film.len());
}

#[test]
fn a_player_that_seeks_back_finds_what_it_has_seen() {
    if find("ffmpeg").is_none() {
        return println!("skipped: ffmpeg is not installed");
    }
    let root = tempfile::tempdir().expect("a directory");
    let film = root.path().join("film.mp4");
    let pictures =
        ["-f", "lavfi", "-i", "testsrc=size=320x240:rate=10:duration=60", "-c:v", "mpeg4", "-q:v", "1"];
    output(program("ffmpeg", "ffmpeg").args(["-v", "error"]).args(pictures).arg(&film));
    let origin = Server::nginx(root.path());
    let larder = Larder::start(&format!("[[site]]\norigin = '{}'\nslice = '64KiB'\n", origin.url()));
    let seen = |film: &str| {
        ["45", "3", "20"].map(|second| {
            let words = ["-v", "error", "-ss", second, "-i", film, "-frames:v", "1", "-f", "md5", "-"];
            output(program("ffmpeg", "ffmpeg").args(words))
        })
    };
    let expected = seen(&film.display().to_string());
    for round in 0..2 {
        assert_eq!(seen(&format!("http://{}/film.mp4", larder.address())), expected, "round {round}");
    }
    let length = fs::metadata(&film).expect("a film").len() as usize;
    assert!(length > 9 << 16 && sent(&origin, "/film.mp4") <= length, "{length} bytes");
}
