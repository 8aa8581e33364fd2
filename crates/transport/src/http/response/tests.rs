use http::HeaderValue;

use super::*;
use crate::http::fields::FieldWriter;

fn read(head: &str) -> Result<(Head, usize), Malformed> {
    parse(head.as_bytes(), &Method::GET).map(|parsed| parsed.expect("a whole head"))
}

#[test]
fn the_response_head_determines_the_framing_and_the_reuse_of_its_connection() {
    let (length, chunked) = (Framing::Length(5), Framing::Chunked);
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5", length, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5", length, true),
        ("HTTP/1.1 200 OK\nContent-Length: 5", length, false),
        ("HTTP/1.1 200 OK\r\nA: b\nContent-Length: 5", length, false),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5", length, false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5", length, false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5", length, true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", chunked, true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", chunked, false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: other", Framing::Close, false),
        ("HTTP/1.1 200 OK", Framing::Close, false),
        ("HTTP/1.1 204 No Content", Framing::Length(0), true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 0", Framing::Length(0), true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5", Framing::Length(0), false),
        ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked", Framing::Length(0), false),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked", Framing::Length(0), false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5", Framing::Length(0), true),
    ];
    for (head, framing, keep_alive) in cases {
        let (read, used) = read(&format!("{head}\r\n\r\nmore")).expect(head);
        assert_eq!((read.framing, read.keep_alive, used), (framing, keep_alive, head.len() + 4), "{head}");
    }
}

#[test]
fn fields_that_connection_lists_are_not_forwarded_also_after_changes() {
    let head = "HTTP/1.1 200 OK\r\nConnection: hop\r\nHop: 1\r\nTE: 2\r\nX: 3\r\nY: 4\r\n\r\n";
    let (mut head, _) = read(head).expect("a head");
    for expected in ["X: 3\r\nY: 4\r\n", "Y: 4\r\n"] {
        let mut out = Vec::new();
        out.forward(&head.fields);
        assert_eq!(String::from_utf8_lossy(&out), expected);
        head.fields.remove("x");
    }
}

#[test]
fn answers_to_head_have_no_content() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let (head, _) = parse(head, &Method::HEAD).expect("a head").expect("whole");
    assert_eq!((head.framing, head.fields.first("content-length")), (Framing::Length(0), Some(&b"5"[..])));
}

#[test]
fn doubtful_heads_are_no_answers() {
    let cases = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 6",
        "HTTP/1.1 200 OK\r\nContent-Length: -5",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999",
        "HTTP/1.1 200 OK\r\nContent-Length:",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;q=1",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: other, chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: other\r\nContent-Length: 5",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding:",
        "HTTP/1.1 200 OK\r\nContent-Length : 5",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ntransfer-encoding\t: chunked",
        &format!("HTTP/1.1 200 OK\r\nConnection: {}", "a,".repeat(65)),
        "HTTP/1.1 200 OK\r\nA: \0",
        "HTTP/2.0 200 OK",
        "HTTP/1.1 20 OK",
        "ICY 200 OK",
    ];
    for head in cases {
        assert!(read(&format!("{head}\r\n\r\n")).is_err(), "{head}");
    }
}

#[test]
fn lines_are_found_in_any_case_and_leave_as_they_came() {
    let head = "HTTP/1.1 200 OK\r\nX-a: 1\r\nFold: a\r\n  b\r\nx-A:2\r\nb:\r\nc \t:d\r\n\r\n";
    let fields = read(head).expect("a head").0.fields;
    assert_eq!(fields.lines("x-a").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(fields.first("fold"), Some(&b"a    b"[..]));
    let mut out = Vec::new();
    out.forward(&fields);
    assert_eq!(String::from_utf8_lossy(&out), "X-a: 1\r\nFold: a    b\r\nx-A: 2\r\nb: \r\nc: d\r\n");
    assert_eq!(fields.to_map().get("b").map(HeaderValue::as_bytes), Some(&b""[..]));
}

#[test]
fn lines_around_unusual_ones_leave_as_they_came() {
    let unusual = [
        "",
        "C:2\r\n",
        "C:\t2\r\n",
        "C: 2 \r\n",
        "C: 2\n",
        "C : 2\r\n",
        "C:\r\n",
        "C: \r\n",
        "C: 2\r\n 3\r\n",
    ];
    for line in unusual.into_iter().chain(["Larder-Position: 5\r\n"]) {
        for head in [format!("A: 1\r\nB: 1\r\n{line}D: 1\r\n"), format!("{line}{line}D: 1\r\n{line}")] {
            let (head, _) = read(&format!("HTTP/1.1 200 OK\r\n{head}\r\n")).expect(line);
            let expected: String = (head.fields.iter())
                .map(|(name, value)| {
                    format!("{}: {}\r\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
                })
                .collect();
            assert_eq!(head.fields.as_sent(), Some(expected.as_bytes()), "{line:?}");
            assert_eq!(head.fields.contains("c"), line.starts_with('C'), "{line:?}");
            assert_eq!((head.fields.first("d"), head.fields.contains(POSITION)), (Some(&b"1"[..]), false));
        }
    }
}

#[test]
fn a_response_head_is_awaited_until_its_end_or_the_limit() {
    let head = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(1000));
    for end in 0..head.len() {
        assert!(parse(&head.as_bytes()[..end], &Method::GET).expect("a beginning").is_none(), "{end}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LONGEST));
    assert_eq!(read(&endless).unwrap_err(), Malformed("the head is too large"));
    assert_eq!(read(&format!("{endless}\r\n\r\n")).unwrap_err(), Malformed("the head is too large"));
}

#[test]
fn a_head_has_as_many_fields_as_its_bytes_allow() {
    for fields in [MANY_FIELDS, MANY_FIELDS + 1, 5_000] {
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: 1\r\n".repeat(fields));
        assert_eq!(read(&head).expect("a head").0.fields.lines("a").count(), fields);
    }
    let large = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: 1\r\n".repeat(LONGEST / 6));
    assert!(read(&large).is_err());
}

#[test]
fn a_later_minor_version_is_read_as_http_1_1() {
    for version in ["1.2", "1.9"] {
        let head = format!("HTTP/{version} 200 OK\r\nA: HTTP/1.2\r\nContent-Length: 5\r\n\r\n");
        let (read, used) = read(&head).expect("a head");
        assert_eq!((read.framing, read.keep_alive, used), (Framing::Length(5), true, head.len()));
        assert_eq!(read.fields.first("a"), Some(&b"HTTP/1.2"[..]));
    }
    assert!(read("HTTP/1.22 200 OK\r\n\r\n").is_err());
}
