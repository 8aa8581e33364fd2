//! Explanations of HTTP answers that are not pages.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

/// The most bytes of an explanation that are shown.
const LONGEST_WHY: usize = 200;

/// Returns the meaning of `status`, and the explanation in the answer's text. The proxy's own texts begin with the
/// status and are complete.
pub(super) fn reason(status: StatusCode, text: &str) -> String {
    let meaning = status.canonical_reason().unwrap_or_default();
    match (text.strip_prefix(&format!("{}: ", status.as_str())), text) {
        (Some(ours), _) => ours.to_owned(),
        (None, "") => meaning.to_owned(),
        (None, text) => format!("{meaning}: {text}"),
    }
}

pub(super) fn is_text(fields: &HeaderMap) -> bool {
    let kind = fields.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

pub(super) fn first_line(content: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&content[..content.len().min(LONGEST_WHY)]);
    shown.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_it_means_once() {
        let table = [
            ("", "Bad Gateway"),
            ("502: no connection to the origin", "no connection to the origin"),
            ("try again", "Bad Gateway: try again"),
        ];
        for (text, expected) in table {
            assert_eq!(reason(StatusCode::BAD_GATEWAY, text), expected);
        }
    }
}
