//! The ordinary origin: its pages have a lifetime of seconds, so that some are always fetched. Like many frameworks, it
//! trusts fields of a request about its host, so that such a field from one client would spoil the page for all
//! clients.

use super::content;
use larder_testkit::{Seen, answer, listen};
use std::io::Write;

/// Fields by which clients tell origins that they mean another page; the origin must not receive any of them from a
/// client.
const BELIEVED: [&str; 6] = [
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x_forwarded_host",
    "x-forwarded-prefix",
    "larder-peer",
];

/// Listens until the program ends. Returns the port.
pub(super) fn start() -> u16 {
    let (listener, address) = listen();
    answer(listener, |request, stream| {
        let lines = "Cache-Control: public, max-age=5\r\nETag: \"1\"\r\nContent-Type: text/plain\r\n";
        let bytes = match content::page(&request.target) {
            Some(_) if is_spoilt(request) => content::answer("200 OK", lines, b"spoilt"),
            Some((number, length)) => content::answer("200 OK", lines, &content::of(number, length)),
            None => content::answer("404 Not Found", "", b"no such page"),
        };
        stream.write_all(&bytes)
    });
    address.port()
}

/// Whether a field requests another page than the path does.
fn is_spoilt(request: &Seen) -> bool {
    request.fields.iter().any(|(name, value)| {
        let name = name.to_ascii_lowercase();
        BELIEVED.contains(&name.as_str())
            || (matches!(name.as_str(), "x-forwarded-host" | "forwarded") && value.contains("evil"))
    })
}

#[cfg(test)]
mod tests {
    use super::{Seen, is_spoilt};

    #[test]
    fn fields_that_name_another_page_spoil_it() {
        for (fields, expected) in [
            ("Host: a\r\n", false),
            ("X-Forwarded-Host: good.test\r\n", false),
            ("X-Forwarded-Host: evil.test\r\n", true),
            ("Forwarded: for=1;host=evil.test\r\n", true),
            ("X-Original-URL: /b\r\n", true),
        ] {
            let text = format!("GET /a HTTP/1.1\r\n{fields}\r\n");
            let request = Seen::read(&mut text.as_bytes()).unwrap();
            assert_eq!((request.target.as_str(), is_spoilt(&request)), ("/a", expected), "{fields}");
        }
    }
}
