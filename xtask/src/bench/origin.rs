//! The origin behind every server: it counts its requests, which proves which answers came from a cache.
//!
//! It has a thread for each connection. It runs on the load's core, so its speed is the same for every server.

use larder_testkit as testkit;
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

/// Requests for paths with this prefix get an answer that must not be stored.
pub(super) const UNCACHEABLE: &str = "/miss";

/// Listens until the program ends.
pub(crate) struct Origin {
    port: u16,
    requests: Arc<AtomicU64>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        let (listener, address) = testkit::listen();
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        testkit::answer(listener, move |seen, stream| {
            count.fetch_add(1, Ordering::SeqCst);
            let range = seen.field("range").filter(|_| seen.target == GIANT).and_then(range_of);
            stream.write_all(&match range {
                Some(range) => part(&range),
                None => answer(&seen.target, SystemTime::now()),
            })
        });
        Self { port: address.port(), requests }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of requests answered so far, for all paths.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The path of an object of 1 GiB, of which only ranges can be had.
pub(super) const GIANT: &str = "/1g";
const GIANT_BYTES: u64 = 1 << 30;

/// Returns the bytes that a `Range` field of the form `bytes=first-last` names.
fn range_of(field: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = field.strip_prefix("bytes=")?.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Returns a part of the object of 1 GiB.
fn part(range: &RangeInclusive<u64>) -> Vec<u8> {
    let (first, last) = (range.start(), range.end().min(&(GIANT_BYTES - 1)));
    let length = (last + 1).saturating_sub(*first);
    let mut bytes = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes {first}-{last}/{GIANT_BYTES}\r\n\
         ETag: \"6955b900-40000000\"\r\nCache-Control: public, max-age=86400\r\n\r\n"
    )
    .into_bytes();
    bytes.resize(bytes.len() + length as usize, b'x');
    bytes
}

/// The path of a text that compresses to 1 KiB with its head of 18 bytes, within 1%.
pub(super) const HEX: &str = "hex";
const HEX_BYTES: usize = 1_800;

/// Returns digits in an order that does not repeat.
fn hex_digits() -> impl Iterator<Item = u8> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1_u64), next).map(|state| b"0123456789abcdef"[(state >> 60) as usize])
}

/// The path of a text that must not be stored, and that gzip makes three to five times shorter, as it does with pages.
pub(super) const TEXT: &str = "miss-text";
pub(super) const TEXT_BYTES: usize = 1 << 20;

static WORDS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut next = hex_digits();
    let mut draw = |below: usize| {
        let number = next.by_ref().take(4).fold(0, |sum, digit| sum << 4 | usize::from(digit % 16));
        number % below
    };
    let words: Vec<String> =
        (0..2_000).map(|_| (0..3 + draw(7)).map(|_| char::from(b'a' + draw(26) as u8)).collect()).collect();
    let mut text = String::new();
    while text.len() < TEXT_BYTES {
        // Of two words the first: some are frequent, as in any language.
        text += &words[draw(words.len()).min(draw(words.len()))];
        text += if draw(16) == 0 { "</p>\n<p class=\"line\">" } else { " " };
    }
    text.truncate(TEXT_BYTES);
    text.into_bytes()
});

/// Returns a complete response with the fields that file servers send; the path's first part may name a size.
fn answer(path: &str, now: SystemTime) -> Vec<u8> {
    let name = path.split('/').nth(1);
    let length = match name {
        Some(HEX) => HEX_BYTES,
        Some(TEXT) => TEXT_BYTES,
        Some("512") => 512,
        Some("4k") => 4 << 10,
        Some("10k") => 10 << 10,
        Some("16k") => 16 << 10,
        Some("30k") => 30 << 10,
        Some("64k") => 64 << 10,
        Some("1m") => 1 << 20,
        Some("10m") => 10 << 20,
        _ => 1 << 10,
    };
    let caching = if path.starts_with(UNCACHEABLE) { "no-store" } else { "public, max-age=86400" };
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\n\
         Server: origin/1.0\r\n\
         Date: {}\r\n\
         Content-Type: text/html\r\n\
         Content-Length: {length}\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         ETag: \"6955b900-400\"\r\n\
         Accept-Ranges: bytes\r\n\
         Cache-Control: {caching}\r\n\r\n",
        httpdate::fmt_http_date(now)
    )
    .into_bytes();
    let end = bytes.len() + length;
    if name == Some(HEX) {
        bytes.extend(hex_digits().take(length));
    }
    if name == Some(TEXT) {
        bytes.extend_from_slice(&WORDS);
    }
    bytes.resize(end, b'x');
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Origin, answer};
    use crate::client::Client;
    use std::time::SystemTime;

    #[test]
    fn every_request_is_counted_and_answered_in_its_size() {
        let origin = Origin::start();
        let mut client = Client::connect(origin.port()).unwrap();
        for (number, (path, length)) in
            [("/1k", 1024), ("/1m", 1 << 20), ("/10m/7", 10 << 20), ("/miss", 1024), ("/miss-text", 1 << 20)]
                .iter()
                .enumerate()
        {
            assert_eq!(client.get(path).unwrap(), *length, "{path}");
            assert_eq!(origin.requests(), number as u64 + 1);
        }
    }

    #[test]
    fn only_misses_must_not_be_stored() {
        let head = |path| String::from_utf8(answer(path, SystemTime::UNIX_EPOCH)).unwrap();
        assert!(head("/miss/1").contains("Cache-Control: no-store\r\n"));
        assert!(head("/miss-text").contains("Cache-Control: no-store\r\n"));
        assert!(head("/1k").contains("Cache-Control: public, max-age=86400\r\n"));
        assert!(head("/1k").contains("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
    }
}
