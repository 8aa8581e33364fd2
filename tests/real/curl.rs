//! curl, and the response that it received.

use std::fs;

use larder_testkit::{output, program};

/// A final response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Requests `url` with curl and the options `words`.
pub(crate) fn curl(words: &[&str], url: &str) -> Answer {
    let directory = tempfile::tempdir().expect("a directory");
    let (head, body) = (directory.path().join("head"), directory.path().join("body"));
    let mut command = program("curl", "curl");
    command.args([
        "--silent",
        "--show-error",
        "--path-as-is",
        "--globoff",
        "--max-time",
        "60",
        "--noproxy",
        "none",
    ]);
    command.arg("--dump-header").arg(&head).arg("--output").arg(&body).args(words).arg(url);
    output(&mut command);
    let head = fs::read_to_string(head).expect("a head");
    // Interim responses precede the final one.
    let last = head.trim_end().rsplit("\r\n\r\n").next().expect("a head");
    let (line, lines) = last.split_once("\r\n").expect("fields");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let fields = lines.lines().filter_map(|line| line.split_once(": "));
    let fields =
        fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim_end().to_owned())).collect();
    Answer { status, fields, body: fs::read(body).unwrap_or_default() }
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_hit(&self) -> bool {
        self.field("cache-status").is_some_and(|status| status.contains("; hit"))
    }

    /// Returns the parts of a `multipart/byteranges`: the Content-Range and the bytes of each.
    pub(crate) fn parts(&self) -> Vec<(String, Vec<u8>)> {
        let boundary =
            self.field("content-type").and_then(|value| value.split_once("boundary=")).expect("parts").1;
        let boundary = format!("\r\n--{}", boundary.trim_matches('"'));
        let body = [b"\r\n", self.body.as_slice()].concat();
        let mut parts = Vec::new();
        let mut rest = after(&body, boundary.as_bytes()).expect("a boundary").1;
        while !rest.starts_with(b"--") {
            let (head, content) = after(rest, b"\r\n\r\n").expect("a part's head");
            let (bytes, next) = after(content, boundary.as_bytes()).expect("a part's end");
            let head = String::from_utf8_lossy(head).to_ascii_lowercase();
            let range = head.lines().find_map(|line| line.strip_prefix("content-range: ")).expect("a range");
            parts.push((range.to_owned(), bytes.to_vec()));
            rest = next;
        }
        parts
    }
}

/// Returns the bytes before and after the first `wanted`.
fn after<'t>(text: &'t [u8], wanted: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let at = text.windows(wanted.len()).position(|window| window == wanted)?;
    Some((&text[..at], &text[at + wanted.len()..]))
}
