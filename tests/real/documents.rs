//! A documentation tree behind the cache: hits, ranges and conditionals agree with the origin.

use std::fs;
use std::path::{Path, PathBuf};

use super::curl::{Answer, curl};
use super::reverse;
use super::servers::Server;

/// The documentation that every Debian package contains.
const TREE: &str = "/usr/share/doc";
const FILES: usize = 30;

/// Returns the paths of files of all sizes, including the smallest and the largest.
fn documents() -> Vec<String> {
    let mut files = Vec::new();
    let folders = fs::read_dir(TREE).expect("documentation").map_while(Result::ok).map(|entry| entry.path());
    for folder in folders.filter(|path| path.is_dir() && !path.is_symlink()) {
        files.extend(files_in(&folder));
    }
    files.sort();
    assert!(files.len() >= FILES, "only {} files below {TREE}", files.len());
    let last = files.len() - 1;
    (0..FILES).map(|n| files[last * n / (FILES - 1)].1.clone()).collect()
}

/// Returns the size and the path below [`TREE`] of each plain file in a folder whose name needs no escapes in a URL.
fn files_in(folder: &Path) -> Vec<(u64, String)> {
    let entries = fs::read_dir(folder).expect("a folder").map_while(Result::ok);
    let files = entries.filter_map(|entry| {
        let size = entry.metadata().ok().filter(fs::Metadata::is_file)?.len();
        let path = PathBuf::from("/").join(entry.path().strip_prefix(TREE).ok()?).to_str()?.to_owned();
        let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte));
        (plain && (1..8 << 20).contains(&size)).then_some((size, path))
    });
    files.collect()
}

fn served_again_without_the_origin(origin: &Server) {
    let (larder, proxy) = reverse(&origin.url());
    let documents = documents();
    for path in &documents {
        let first = curl(&[], &format!("{proxy}{path}"));
        assert_eq!(first.status, 200, "{path}: {first:?}");
        assert!(first.body == fs::read(format!("{TREE}{path}")).expect("a file"), "wrong bytes: {path}");
    }
    larder.settle();
    let asked = origin.count();
    for path in &documents {
        let again = curl(&[], &format!("{proxy}{path}"));
        assert!(again.is_hit(), "{path}: {:?}", again.field("cache-status"));
        assert!(again.body == fs::read(format!("{TREE}{path}")).expect("a file"), "wrong bytes: {path}");
        let head = curl(&["--head"], &format!("{proxy}{path}"));
        assert_eq!((head.is_hit(), head.field("etag")), (true, again.field("etag")), "{path}");
    }
    assert_eq!((origin.count(), asked), (asked, documents.len()), "the cache asked again");
}

/// Asserts that the origin and the cache respond equally to a request with the options `words`.
fn agree(origin: &str, proxy: &str, path: &str, words: &[&str]) {
    let (expected, got) = (curl(words, &format!("{origin}{path}")), curl(words, &format!("{proxy}{path}")));
    let context =
        || format!("{path} {words:?}: {:?} {:?}", expected.field("content-range"), got.field("cache-status"));
    assert_eq!(got.status, expected.status, "{}", context());
    let mut fields = vec!["etag"];
    if got.status != 304 {
        fields.extend(["last-modified", "content-range"]);
    }
    if (200..300).contains(&got.status) {
        let multipart = |answer: &Answer| {
            answer.field("content-type").is_some_and(|kind| kind.starts_with("multipart/byteranges"))
        };
        assert_eq!(multipart(&got), multipart(&expected), "{}", context());
        if multipart(&got) {
            assert!(got.parts() == expected.parts(), "{}", context());
        } else {
            fields.push("content-length");
            assert!(got.body == expected.body, "wrong bytes: {}", context());
        }
    } else if got.status != 304 {
        // Error pages are not a representation of the resource, and Apache sends no length with them.
        fields = expected.field("content-range").map(|_| "content-range").into_iter().collect();
    }
    for name in fields {
        assert_eq!(got.field(name), expected.field(name), "{name}: {}", context());
    }
}

/// Valid ranges only: a recipient must ignore invalid ones (RFC 9110 section 14.2), but nginx refuses them.
const RANGES: &[&str] = &[
    "bytes=0-0",
    "bytes=0-99",
    "bytes=100-299",
    "bytes=-100",
    "bytes=500-",
    "bytes=0-9999999",
    "bytes=0-9,20-29",
    "bytes=0-9,-10",
    "bytes=99999999-",
    "items=0-1",
];

fn ranges_and_conditionals_agree(origin: &Server) {
    let (_larder, proxy) = reverse(&origin.url());
    let documents = documents();
    // A small, a medium and a large file.
    for path in [&documents[FILES / 3], &documents[FILES * 2 / 3], &documents[FILES - 1]] {
        let whole = curl(&[], &format!("{}{path}", origin.url()));
        let etag = whole.field("etag").expect("an etag");
        let modified = whole.field("last-modified").expect("a date");
        let cases = conditions(etag, modified);
        // In the first round the file is not stored, in the second it is stored in part or whole.
        for _ in 0..2 {
            for range in RANGES {
                agree(&origin.url(), &proxy, path, &["--header", &format!("Range: {range}")]);
            }
            for case in &cases {
                let words: Vec<_> = case.iter().flat_map(|field| ["--header", field]).collect();
                agree(&origin.url(), &proxy, path, &words);
            }
            curl(&[], &format!("{proxy}{path}"));
        }
    }
}

/// Returns the conditions that a cache may evaluate. `If-Match` and `If-Unmodified-Since` are for the origin (RFC 9111
/// section 4.3.2), and a cache with a fresh response need not forward them.
fn conditions(etag: &str, modified: &str) -> Vec<Vec<String>> {
    const OLD: &str = "Thu, 01 Jan 1998 00:00:00 GMT";
    let range = || "Range: bytes=1-4".to_owned();
    vec![
        vec![format!("If-None-Match: {etag}")],
        vec![format!("If-None-Match: W/{etag}")],
        vec![format!("If-None-Match: \"x\", {etag}")],
        vec!["If-None-Match: \"x\"".to_owned()],
        vec!["If-None-Match: *".to_owned()],
        vec![format!("If-Modified-Since: {modified}")],
        vec![format!("If-Modified-Since: {OLD}")],
        vec!["If-None-Match: \"x\"".to_owned(), format!("If-Modified-Since: {modified}")],
        vec![format!("If-Match: {etag}")],
        vec![format!("If-Range: {etag}"), range()],
        vec!["If-Range: \"x\"".to_owned(), range()],
        vec![format!("If-Range: {modified}"), range()],
        vec![format!("If-Range: {OLD}"), range()],
    ]
}

#[test]
fn documents_of_nginx_are_served_again_without_it() {
    served_again_without_the_origin(&Server::nginx(Path::new(TREE)));
}

#[test]
fn documents_of_apache_are_served_again_without_it() {
    served_again_without_the_origin(&Server::apache(Path::new(TREE)));
}

#[test]
fn ranges_and_conditionals_agree_with_nginx() {
    ranges_and_conditionals_agree(&Server::nginx(Path::new(TREE)));
}

#[test]
fn ranges_and_conditionals_agree_with_apache() {
    ranges_and_conditionals_agree(&Server::apache(Path::new(TREE)));
}
