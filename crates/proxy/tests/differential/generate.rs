//! Generates requests: valid ones, and damaged ones with the kinds of damage that request smuggling uses.

use fastrand::Rng;

const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PURGE", "M-SEARCH", "x!#$%&'*+"];
const HOSTS: &[&str] =
    &["h", "example.com", "example.com:8080", "127.0.0.1:1", "[::1]", "[fe80::1]:80", "a_b.c-d~e"];
const PATHS: &[&str] =
    &["/", "/a/b;c=d", "/a?b=c&d", "/?", "//x", "/%20%ff", "/a:b@c!$&'()*+,=-._~", "/{|}^[]\\"];
const FIELDS: &[&str] = &[
    "Accept: */*",
    "A:",
    "A: \t",
    "A:b",
    "A: b \t ",
    "X-Binary: \u{e9}\u{7ff}",
    "Cookie: a=b; c=\"d\"",
    "Connection: keep-alive, te",
    "Connection: close",
    "x!#$%&'*+-.^_`|~9: y",
    "Expect: 100-continue",
    "Range: bytes=0-1",
    "Upgrade: x",
];
/// Byte sequences that are dangerous in the wrong place.
const SPLINTERS: &[&[u8]] = &[
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b" ",
    b"\t",
    b"\0",
    b"\x0b",
    b"\x7f",
    b"\xff",
    b":",
    b" :",
    b";",
    b",",
    b"\"",
    b"\\",
    b"#",
    b"?",
    b"@",
    b"*",
    b"[",
    b"]",
    b"<",
    b"`",
    b"%",
    b"+",
    b"-",
    b"0",
    b"0x",
    b"f",
    b"ffffffffffffffff",
    b"10000000000000000",
    b"18446744073709551615",
    b"\r\n x: y",
    b"\r\nContent-Length: 3",
    b"\r\nContent-Length: 0x3",
    b"\r\nContent-Length: +3",
    b"\r\nContent-Length: 3, 3",
    b"\r\nContent-Length:",
    b"\r\nTransfer-Encoding: chunked",
    b"\r\nTransfer-Encoding: gzip, chunked",
    b"\r\nTransfer-Encoding: chunked, x",
    b"\r\nTransfer-Encoding : chunked",
    b"\r\nTransfer-Encoding:\x0bchunked",
    b"\r\nTransfer_Encoding: chunked",
    b"\r\nHost: other",
    b"\r\nHost:",
    b" HTTP/1.0",
    b" HTTP/1.1",
    b" HTTP/2.0",
    b"http://",
    b"https://u@h/",
    b"1\r\nx",
    b"0\r\n\r\n",
];

/// Returns a valid request, which a parser must neither refuse nor misread.
pub(crate) fn sound(rng: &mut Rng) -> Vec<u8> {
    let host = pick(rng, HOSTS);
    let path = pick(rng, PATHS);
    let line = match rng.u8(..10) {
        0 => "OPTIONS *".to_owned(),
        1 => format!("CONNECT {}:443", host.rsplit_once(":").map_or(host, |_| "example.com")),
        2 | 3 => format!("{} {}://{host}{path}", pick(rng, METHODS), pick(rng, &["http", "https"])),
        4 => format!("GET http://{host}{}", pick(rng, &["", "?q", "/"])),
        _ => format!("{} {path}", pick(rng, METHODS)),
    };
    let mut head = format!("{line} HTTP/1.1\r\nHost: {host}\r\n");
    for _ in 0..rng.usize(..6) {
        head += pick(rng, FIELDS);
        head += "\r\n";
    }
    let length = rng.usize(..40);
    let content: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
    let connect = line.starts_with("CONNECT");
    let mut wire = head.into_bytes();
    match rng.u8(..3) {
        0 if !connect => {
            wire.extend(format!("Content-Length: {}\r\n\r\n", content.len()).bytes());
            wire.extend(content);
        }
        1 if !connect => {
            wire.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            wire.extend(chunks(rng, &content));
        }
        _ => wire.extend(b"\r\n"),
    }
    if rng.bool() && !connect {
        wire.extend(b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    wire
}

/// Returns a valid request with one to three kinds of damage.
pub(crate) fn damaged(rng: &mut Rng) -> Vec<u8> {
    let mut wire = sound(rng);
    let end = wire.len();
    injure(rng, &mut wire, 0, end);
    wire
}

/// Returns a valid head and chunked content, which is damaged once to three times, or not at all.
pub(crate) fn damaged_chunks(rng: &mut Rng) -> Vec<u8> {
    let mut wire = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let head = wire.len();
    let length = rng.usize(..40);
    let content: Vec<u8> = std::iter::repeat_with(|| rng.alphanumeric() as u8).take(length).collect();
    wire.extend(chunks(rng, &content));
    if rng.u8(..4) > 0 {
        let end = wire.len();
        injure(rng, &mut wire, head, end);
    }
    wire
}

fn chunks(rng: &mut Rng, mut content: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    while !content.is_empty() {
        let (chunk, rest) = content.split_at(rng.usize(1..=content.len()));
        let size = match rng.u8(..3) {
            0 => format!("{:X}", chunk.len()),
            1 => format!("{:06x}", chunk.len()),
            _ => format!("{:x}", chunk.len()),
        };
        let extension = pick(rng, &["", "", ";a", " ; a=\"b c\"", "\t;a=b"]);
        wire.extend(format!("{size}{extension}\r\n").bytes());
        wire.extend(chunk);
        wire.extend(b"\r\n");
        content = rest;
    }
    let end = pick(
        rng,
        &["0\r\n\r\n", "000\r\n\r\n", "0;a\r\n\r\n", "0\r\nT: u\r\n\r\n", "0\r\nT: u\r\nV:\r\n\r\n"],
    );
    wire.extend(end.bytes());
    wire
}

/// Damages `wire` between `from` and `to`, once to three times.
fn injure(rng: &mut Rng, wire: &mut Vec<u8>, from: usize, to: usize) {
    for _ in 0..rng.usize(1..=3) {
        let at = from + rng.usize(..=(to.min(wire.len()) - from));
        match rng.u8(..6) {
            0 if at < wire.len() => wire[at] = rng.u8(..),
            1 if at < wire.len() => drop(wire.remove(at)),
            2 => wire.truncate(at),
            3 => drop(wire.splice(at..(at + rng.usize(..4)).min(wire.len()), splinter(rng))),
            4 if at < wire.len() => wire.insert(at, wire[at]),
            // At the end of a line, where the splinters have most effect.
            5 => {
                let ends = memchr::memchr_iter(b'\r', wire).filter(|&end| end >= from).collect::<Vec<_>>();
                let at = rng.choice(ends).unwrap_or(at);
                drop(wire.splice(at..at, splinter(rng)));
            }
            _ => drop(wire.splice(at..at, splinter(rng))),
        }
    }
}

fn splinter(rng: &mut Rng) -> impl Iterator<Item = u8> + use<> {
    SPLINTERS[rng.usize(..SPLINTERS.len())].iter().copied()
}

fn pick<'t>(rng: &mut Rng, table: &[&'t str]) -> &'t str {
    table[rng.usize(..table.len())]
}
