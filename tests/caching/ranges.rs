//! RFC 9110 section 14 and RFC 9111 sections 3.3 and 3.4: parts of responses.

use larder_testkit::{Answer, Client, Larder, Origin, Seen, eventually, site};

const WHOLE: &str = "200 OK\nCache-Control: max-age=100\nETag: \"1\"\nContent-Type: a/b\n\
    Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\n\n0123456789";

/// Returns ten digits, or a part of them for ranges of the forms `first-last` and `first-`.
fn digits(seen: &Seen) -> String {
    let Some(range) = seen.field("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return WHOLE.to_owned();
    };
    let (first, last) = range.split_once('-').expect("a range");
    let (first, last): (usize, usize) = (first.parse().expect("a number"), last.parse().unwrap_or(9));
    let fields = "Cache-Control: max-age=100\nETag: \"1\"";
    let part = &"0123456789"[first..=last];
    format!("206 Partial Content\n{fields}\nContent-Range: bytes {first}-{last}/10\n\n{part}")
}

#[test]
fn rfc_9110_section_14_2_ranges_of_a_whole_stored_response() {
    let origin = Origin::always(WHOLE);
    let larder = Larder::before(&origin);
    larder.get("/");
    let table = [
        ("bytes=2-4", 206, "234", Some("bytes 2-4/10")),
        ("bytes=7-", 206, "789", Some("bytes 7-9/10")),
        ("bytes=-2", 206, "89", Some("bytes 8-9/10")),
        ("bytes=8-99", 206, "89", Some("bytes 8-9/10")),
        ("bytes=-99", 206, "0123456789", Some("bytes 0-9/10")),
        ("BYTES=0-0", 206, "0", Some("bytes 0-0/10")),
        ("bytes=10-", 416, "", Some("bytes */10")),
        ("bytes=-0", 416, "", Some("bytes */10")),
        ("bytes=4-2", 200, "0123456789", None),
        ("bytes=x", 200, "0123456789", None),
        ("lines=1-2", 200, "0123456789", None),
    ];
    for (range, status, text, content_range) in table {
        let response = larder.ask(&format!("GET /\nRange: {range}"));
        assert_eq!((response.status, response.text()), (status, text), "{range}");
        assert_eq!(response.field("content-range"), content_range, "{range}");
        assert!(response.is_hit(), "{range}");
    }
    assert_eq!((larder.ask("HEAD /\nRange: bytes=2-4").status, origin.count()), (200, 1));
}

#[test]
fn rfc_9110_section_14_2_an_empty_response_has_no_ranges() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nETag: \"1\"\n\n");
    let larder = Larder::before(&origin);
    for range in ["bytes=0-", "bytes=0-1023", "bytes=-1", "bytes=0-0, 2-3", "bytes=0--1"] {
        let response = larder.ask(&format!("GET /\nRange: {range}"));
        assert_eq!((response.status, response.text()), (200, ""), "{range}");
        assert_eq!(response.field("content-range"), None, "{range}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn rfc_9110_section_14_6_several_ranges_come_in_one_answer() {
    let origin = Origin::always(WHOLE);
    let larder = Larder::before(&origin);
    larder.get("/");
    let response = larder.ask("GET /\nRange: bytes=8-, 0-1");
    let kind = response.field("content-type").expect("a type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
    let part = |range: &str, text: &str| {
        format!("\r\n--{boundary}\r\nContent-Type: a/b\r\nContent-Range: bytes {range}/10\r\n\r\n{text}")
    };
    let expected = part("8-9", "89") + &part("0-1", "01") + &format!("\r\n--{boundary}--\r\n");
    assert_eq!((response.status, response.text()), (206, expected.as_str()));
    assert_eq!(response.field("content-range"), None);
}

#[test]
fn rfc_9110_section_14_2_several_ranges_never_exceed_the_whole() {
    let origin = Origin::always(WHOLE);
    let larder = Larder::before(&origin);
    larder.get("/");
    for (ranges, status) in
        [("0-4, 3-7", 206), ("-10, -10", 200), ("0-, 0-", 200), ("0-5, 3-7", 200), ("0-0, 1-8", 206)]
    {
        let response = larder.ask(&format!("GET /\nRange: bytes={ranges}"));
        assert_eq!((response.status, response.is_hit()), (status, true), "{ranges}");
        assert!(status == 206 || response.text() == "0123456789", "{ranges}");
    }
}

#[test]
fn rfc_9110_section_14_4_a_part_of_unreadable_length_is_unstored() {
    for complete in ["99999999999999999999", "18446744073709551615", "1x", ""] {
        let origin = Origin::by(move |_| {
            let part = "206 Partial Content\nCache-Control: max-age=100\nETag: \"1\"";
            format!("{part}\nContent-Range: bytes 0-4/{complete}\n\n01234")
        });
        let larder = Larder::before(&origin);
        for _ in 0..2 {
            let response = larder.ask("GET /\nRange: bytes=0-4");
            assert_eq!((response.text(), response.is_hit()), ("01234", false), "{complete}");
        }
    }
}

#[test]
fn rfc_8673_section_2_2_a_part_of_growing_content_arrives_whole() {
    let origin = Origin::answering(|_| {
        let head = "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=100\r\nETag: \"1\"\r\n\
            Content-Range: bytes 5-9007199254740991/*\r\nTransfer-Encoding: chunked\r\n\r\n";
        Answer::raw(head).then("4\r\nlive\r\n0\r\n\r\n")
    });
    let larder = Larder::start(&format!("[forward]\nallow_private = true\n{}", site(&[&origin], "")));
    let ask = "\nRange: bytes=5-9007199254740991";
    for _ in 0..2 {
        let forward = Client::to(larder.forward).ask(&format!("GET {}/{ask}", origin.url()));
        for response in [larder.ask(&format!("GET /{ask}")), forward] {
            assert_eq!((response.status, response.text(), response.is_hit()), (206, "live", false));
        }
    }
}

#[test]
fn a_part_that_the_origin_sends_as_200_is_not_stored() {
    let origin = Origin::by(|seen| digits(seen).replace("206 Partial Content", "200 OK"));
    let larder = Larder::before(&origin);
    for (range, text) in [("2-4", "234"), ("5-9", "56789"), ("2-4", "234")] {
        let part = larder.ask(&format!("GET /\nRange: bytes={range}"));
        assert_eq!((part.status, part.text(), part.is_hit()), (200, text, false));
        assert_eq!(part.field("content-range"), Some(&*format!("bytes {range}/10")));
    }
    assert_eq!(larder.get("/").text(), "0123456789");
}

#[test]
fn a_part_sent_as_200_never_answers_for_another_range() {
    let whole = "0123456789".repeat(1_000_000);
    let sent = whole.clone();
    let origin = Origin::by(move |seen| {
        let range = seen.field("range").and_then(|range| range.strip_prefix("bytes="));
        let (first, last) = range.and_then(|range| range.split_once('-')).unwrap_or(("0", ""));
        let (first, end) = (number(first, 0), number(last, sent.len() - 1) + 1);
        let place = format!("bytes {first}-{}/{}", end - 1, sent.len());
        let fields = "Cache-Control: max-age=100\nETag: \"1\"\nAccept-Ranges: bytes";
        format!("200 OK\n{fields}\nContent-Range: {place}\n\n{}", &sent[first..end])
    });
    for range in ["bytes=0-", "bytes=0-1999999", "bytes=5-"] {
        let larder = Larder::before(&origin);
        let (first, last) =
            range.strip_prefix("bytes=").and_then(|range| range.split_once('-')).expect("a range");
        let expected = &whole[number(first, 0)..=number(last, whole.len() - 1)];
        let response = larder.ask(&format!("GET /\nRange: {range}"));
        assert!(response.text() == expected, "{range}: {} bytes", response.text().len());
        assert!(larder.get("/").text() == whole, "{range}");
    }
}

fn number(digits: &str, default: usize) -> usize {
    digits.parse().unwrap_or(default)
}

#[test]
fn pages_by_ranges_of_another_unit_are_not_stored() {
    let origin = Origin::by(|seen| {
        let page = seen.field("range").unwrap_or("items=0-9").replace('=', " ");
        format!("200 OK\nCache-Control: max-age=100\nContent-Range: {page}/*\n\n{page}")
    });
    let larder = Larder::before(&origin);
    for page in ["items 0-9", "items 10-19", "items 0-9"] {
        let response = larder.ask(&format!("GET /\nRange: {}", page.replace(' ', "=")));
        assert_eq!((response.text(), response.is_hit()), (page, false));
    }
    assert!(!larder.get("/").is_hit() && !larder.get("/").is_hit());
}

#[test]
fn rfc_9110_section_13_1_5_if_range_needs_the_same_representation() {
    let origin = Origin::always(WHOLE);
    let larder = Larder::before(&origin);
    larder.get("/");
    for (condition, status) in [
        ("\"1\"", 206),
        ("\"2\"", 200),
        ("W/\"1\"", 200),
        ("Thu, 01 Jan 2015 00:00:00 GMT", 206),
        ("Fri, 02 Jan 2015 00:00:00 GMT", 200),
    ] {
        let response = larder.ask(&format!("GET /\nRange: bytes=0-1\nIf-Range: {condition}"));
        assert_eq!((response.status, response.is_hit()), (status, true), "{condition}");
    }
}

#[test]
fn section_3_3_a_stored_part_answers_for_what_it_holds() {
    let origin = Origin::by(digits);
    let larder = Larder::before(&origin);
    let first = larder.ask("GET /\nRange: bytes=2-6");
    assert_eq!((first.status, first.cache().as_str()), (206, "fwd=uri-miss; fwd-status=206; stored"));
    let inside = larder.ask("GET /\nRange: bytes=3-5");
    assert_eq!((inside.text(), inside.is_hit()), ("345", true));
    assert_eq!(inside.field("content-range"), Some("bytes 3-5/10"));
    let outside = larder.ask("GET /\nRange: bytes=8-9");
    assert_eq!(outside.text(), "89");
    assert_eq!(outside.cache(), "fwd=partial; fwd-status=206; stored; detail=range-absent");
}

#[test]
fn section_3_4_parts_of_one_representation_become_one() {
    let origin = Origin::by(digits);
    let larder = Larder::before(&origin);
    for (range, joined) in
        [("bytes=0-3", "bytes=0-3"), ("bytes=6-9", "bytes=6-9"), ("bytes=3-6", "bytes=3-9")]
    {
        larder.ask(&format!("GET /\nRange: {range}"));
        let stored = format!("GET /\nRange: {joined}\nCache-Control: only-if-cached");
        eventually("the joined part", || larder.ask(&stored).is_hit().then_some(()));
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn section_3_4_two_halves_are_the_whole() {
    let origin = Origin::by(digits);
    let larder = Larder::before(&origin);
    larder.ask("GET /\nRange: bytes=5-9");
    larder.ask("GET /\nRange: bytes=0-4");
    let whole = eventually("the whole", || {
        let response = larder.ask("GET /\nCache-Control: only-if-cached");
        response.is_hit().then_some(response)
    });
    assert_eq!((whole.status, whole.text(), whole.field("content-range")), (200, "0123456789", None));
}

#[test]
fn section_3_4_only_what_is_lacking_is_fetched() {
    let origin = Origin::by(digits);
    let larder = Larder::before(&origin);
    larder.ask("GET /\nRange: bytes=0-4");
    assert_eq!(larder.get("/").text(), "0123456789");
    let asked = origin.last();
    assert_eq!((asked.field("range"), asked.field("if-range")), (Some("bytes=5-"), Some("\"1\"")));
    assert!(larder.get("/").is_hit());
}

#[test]
fn section_3_4_a_remainder_that_is_too_short_makes_no_whole() {
    let origin = Origin::answering(|seen| match seen.number {
        1 => Answer::raw(
            "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=100\r\nETag: \"1\"\r\n\
             Content-Range: bytes 5-9/10\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n567\r\n0\r\n\r\n",
        ),
        _ => {
            let answer = digits(seen);
            let (head, content) = answer.split_once("\n\n").expect("content");
            Answer::with_body(head, content.as_bytes())
        }
    });
    let larder = Larder::before(&origin);
    larder.ask("GET /\nRange: bytes=0-4");
    let mut client = larder.client();
    client.send("GET /");
    assert_eq!(client.head().field("content-length"), Some("10"));
    assert!(client.rest().is_none_or(|rest| b"01234567".starts_with(&rest)));
    larder.settle();
    let again = larder.get("/");
    assert_eq!((again.text(), again.is_hit(), origin.count()), ("0123456789", false, 3));
}

#[test]
fn section_3_4_an_unstorable_remainder_completes_the_response() {
    let origin = Origin::by(|seen| match seen.number {
        1 => digits(seen).replace("max-age=100", "no-store"),
        _ => digits(seen),
    });
    let larder = Larder::before(&origin);
    larder.ask("GET /\nRange: bytes=0-4");
    for _ in 0..2 {
        let whole = larder.get("/");
        assert_eq!((whole.status, whole.text(), whole.field("content-range")), (200, "0123456789", None));
    }
}

#[test]
fn section_3_4_parts_of_different_representations_stay_apart() {
    let part = |range: &str, tag: &str, text: &str| {
        format!(
            "206 Partial Content\nCache-Control: max-age=100\nETag: {tag}\n\
             Content-Range: bytes {range}/10\n\n{text}"
        )
    };
    let origin = Origin::by(move |seen| match seen.number {
        0 => part("0-4", "\"1\"", "01234"),
        1 => part("5-9", "\"2\"", "fghij"),
        _ => "200 OK\nETag: \"2\"\n\nabcdefghij".to_owned(),
    });
    let larder = Larder::before(&origin);
    larder.ask("GET /\nRange: bytes=0-4");
    larder.ask("GET /\nRange: bytes=5-9");
    assert_eq!(larder.get("/").text(), "abcdefghij");
}

#[test]
fn rfc_9110_section_14_2_a_whole_response_is_stored_and_cut() {
    let origin = Origin::always(WHOLE);
    let larder = Larder::before(&origin);
    let part = larder.ask("GET /\nRange: bytes=2-4");
    assert_eq!((part.status, part.text(), part.field("content-range")), (206, "234", Some("bytes 2-4/10")));
    assert_eq!(larder.get("/").text(), "0123456789");
    assert_eq!(origin.count(), 1);
}

#[test]
fn rfc_9110_section_14_2_ranges_of_large_responses_are_byte_exact() {
    let body: Vec<u8> = (0..400_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=100", &sent));
    let larder = Larder::before(&origin);
    assert!(larder.get("/").body == body);
    for (first, last) in [(0, 0), (65_535, 65_536), (1, 399_999), (300_000, 300_010)] {
        let response = larder.ask(&format!("GET /\nRange: bytes={first}-{last}"));
        assert!(response.is_hit() && response.body == body[first..=last], "{first}-{last}");
    }
}

#[test]
fn a_content_range_of_a_whole_response_is_not_sent_with_parts() {
    let origin =
        Origin::always("200 OK\nCache-Control: max-age=100\nContent-Range: bytes 0-9/10\n\n0123456789");
    let larder = Larder::before(&origin);
    for (request, expected) in [
        ("GET /a\nRange: bytes=2-4", vec!["bytes 2-4/10"]),
        ("GET /a\nRange: bytes=0-1, 5-6", vec![]),
        ("GET /a", vec!["bytes 0-9/10"]),
    ] {
        let response = larder.ask(request);
        let lines = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-range"));
        assert_eq!(lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), expected, "{request}");
    }
}

#[test]
fn rfc_9530_section_2_parts_have_no_digests_of_other_content() {
    let origin = Origin::by(|seen| {
        let is_same = seen.field("if-none-match").is_some();
        let answer = if is_same { "304 Not Modified\nETag: \"1\"".to_owned() } else { digits(seen) };
        answer.replacen('\n', "\nContent-Digest: content\nContent-MD5: content\nRepr-Digest: all\n", 1)
    });
    let larder = Larder::before(&origin);
    let digests = |request: &str| {
        let response = larder.ask(request);
        let names = ["content-digest", "content-md5", "repr-digest"];
        names.map(|name| response.field(name).unwrap_or("-").to_owned()).join(" ")
    };
    let (of_whole, of_part) = ("content content all", "- - all");
    assert_eq!(digests("GET /whole"), of_whole);
    assert_eq!(digests("GET /whole\nRange: bytes=2-4"), of_part);
    assert_eq!(digests("GET /whole\nRange: bytes=0-1, 5-6"), of_part);
    assert_eq!(digests("GET /whole\nCache-Control: no-cache"), of_whole, "a 304 is about no other content");
    assert_eq!(digests("GET /halves\nRange: bytes=0-4"), of_whole, "as the origin sent it");
    assert_eq!(digests("GET /halves\nRange: bytes=1-2"), of_part);
    larder.ask("GET /halves\nRange: bytes=5-9");
    assert_eq!(digests("GET /halves"), of_part, "the halves were joined");
}

#[test]
fn a_stored_part_does_not_hide_the_error_for_the_rest() {
    let origin = Origin::by(|seen| match seen.field("range") {
        Some("bytes=0-3") => digits(seen),
        _ => "503 Service Unavailable\nRetry-After: 9\n\nbusy".to_owned(),
    });
    let larder = Larder::before(&origin);
    larder.ask("GET /\nRange: bytes=0-3");
    for request in ["GET /\nRange: bytes=2-9", "GET /", "HEAD /"] {
        let response = larder.ask(request);
        assert_eq!((response.status, response.field("retry-after")), (503, Some("9")), "{request}");
    }
    assert_eq!(larder.ask("GET /\nRange: bytes=1-2").text(), "12", "the part is still there");
}
