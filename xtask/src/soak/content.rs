//! The content of pages: bytes that each checker can compute from the page's number.

use std::io::Write;

/// Returns the content of a page: its number in 16 digits, repeated.
pub(super) fn of(page: u64, length: usize) -> Vec<u8> {
    let digits = format!("{page:016x}");
    digits.bytes().cycle().take(length).collect()
}

/// Returns the number and the length of the page at `/p/NUMBER/LENGTH`.
pub(super) fn page(path: &str) -> Option<(u64, usize)> {
    let (number, length) = path.strip_prefix("/p/")?.split_once('/')?;
    Some((number.parse().ok()?, length.parse().ok()?))
}

/// Returns the path of the page with this number, and the length of its content: mostly short, sometimes long.
pub(super) fn path(number: u64) -> (String, usize) {
    let length = match number % 50 {
        0 => 300_000,
        1..=9 => 30_000,
        _ => 3_000,
    };
    (format!("/p/{number}/{length}"), length)
}

/// Returns a complete answer with these field lines.
pub(super) fn answer(status: &str, lines: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 256);
    // Writing to a vector cannot fail.
    let _ = write!(bytes, "HTTP/1.1 {status}\r\n{lines}Content-Length: {}\r\n\r\n", content.len());
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{of, page, path};

    #[test]
    fn a_path_says_what_its_page_holds() {
        for number in [0, 1, 49, 777] {
            let (path, length) = path(number);
            assert_eq!(page(&path), Some((number, length)));
            assert_eq!(of(number, length).len(), length);
        }
        assert_ne!(of(1, 100), of(2, 100));
        assert_eq!(page("/q/1/2"), None);
    }
}
