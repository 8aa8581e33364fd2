//! Entity-tags, conditions and ranges of responses with several coded forms.

use crate::{accepting, all, coded, compressing, decode, page, rest, text};
use larder_testkit::Origin;

#[test]
fn coded_forms_have_weak_tags_and_conditions_match_across_forms() {
    let origin = Origin::by(|_| page("ETag: \"a\"\n", 5_000));
    let larder = compressing(&origin, "");
    assert_eq!(larder.get("/").field("etag"), Some("\"a\""));
    let answer = coded(&larder, "/", "gzip");
    assert_eq!(answer.field("etag"), Some("W/\"a\""));
    for accepted in ["gzip", "identity"] {
        for tag in ["\"a\"", "W/\"a\"", "\"b\", W/\"a\"", "*"] {
            let request = format!("GET /\nAccept-Encoding: {accepted}\nIf-None-Match: {tag}");
            let answer = larder.ask(&request);
            // The 304 to a client with a coded form keeps its weak tag.
            let own = if accepted == "gzip" || tag.contains("W/") { "W/\"a\"" } else { "\"a\"" };
            assert_eq!((answer.status, answer.field("etag")), (304, Some(own)), "{request}");
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            assert_eq!(all(&answer, "content-encoding").len() + all(&answer, "content-length").len(), 0);
        }
        let other = larder.ask(&format!("GET /\nAccept-Encoding: {accepted}\nIf-None-Match: \"b\""));
        assert_eq!(other.status, 200);
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn validation_sends_the_origins_tag_and_a_304_keeps_coded_forms() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        None => page("ETag: \"a\"\n", 5_000),
        Some("\"a\"") => "304 Not Modified\nETag: \"a\"\nCache-Control: max-age=1000\nX-New: yes".to_owned(),
        Some(other) => format!("500 X\n\n{other}"),
    });
    let larder = compressing(&origin, "");
    larder.get("/");
    coded(&larder, "/", "br");
    rest(&larder);
    larder.ask_admin("POST /purge?url=http://site.test/\nLarder-Admin: 1");
    let unchanged = larder.ask("GET /\nAccept-Encoding: br\nIf-None-Match: W/\"a\"");
    assert_eq!((unchanged.status, unchanged.field("etag")), (304, Some("W/\"a\"")));
    let answer = accepting(&larder, "/", "br");
    assert_eq!((answer.field("content-encoding"), answer.field("x-new")), (Some("br"), Some("yes")));
    assert_eq!((decode("br", &answer.body), answer.cache().as_str()), (text(5_000), "hit; coding=br"));
    assert_eq!((origin.count(), larder.stats()["compression"]["forms"].as_u64()), (2, Some(1)));
}

#[test]
fn a_date_joins_no_part_of_one_form_to_another() {
    const DATE: &str = "Mon, 02 Jan 2006 15:04:05 GMT";
    let origin = Origin::by(|_| page(&format!("Last-Modified: {DATE}\n"), 5_000));
    let larder = compressing(&origin, "");
    for path in ["/missed", "/hit"] {
        if path == "/hit" {
            larder.get(path);
            coded(&larder, path, "gzip");
        }
        for accepted in ["gzip", "identity"] {
            let resume =
                format!("GET {path}\nAccept-Encoding: {accepted}\nRange: bytes=500-\nIf-Range: {DATE}");
            assert_eq!(larder.ask(&resume).status, 200, "{resume}");
        }
        assert_eq!(larder.ask(&format!("GET {path}\nRange: bytes=500-")).status, 206);
    }
}

#[test]
fn a_304_that_forbids_them_ends_the_forms() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        None => page("ETag: \"a\"\n", 5_000),
        Some(_) => "304 Not Modified\nETag: \"a\"\nCache-Control: max-age=1000, no-transform".to_owned(),
    });
    let larder = compressing(&origin, "");
    larder.get("/");
    coded(&larder, "/", "gzip");
    larder.ask_admin("POST /purge?url=http://site.test/\nLarder-Admin: 1");
    for cache in ["fwd=stale", "hit"] {
        let answer = accepting(&larder, "/", "gzip");
        assert!(answer.cache().starts_with(cache), "{answer:?}");
        assert_eq!((answer.text(), answer.field("etag")), (&*text(5_000), Some("\"a\"")));
        assert_eq!(["content-encoding", "vary"].map(|name| answer.field(name)), [None, None]);
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn ranges_are_those_of_the_content_as_it_is() {
    let origin = Origin::by(|_| page("ETag: \"a\"\n", 5_000));
    let larder = compressing(&origin, "");
    larder.get("/");
    coded(&larder, "/", "gzip");
    let part = larder.ask("GET /\nAccept-Encoding: gzip\nRange: bytes=5-9");
    assert_eq!((part.status, part.text()), (206, &text(10)[5..]));
    assert_eq!([part.field("content-encoding"), part.field("etag")], [None, Some("\"a\"")]);
    assert_eq!(
        [part.field("vary"), part.field("content-range")],
        [Some("Accept-Encoding"), Some("bytes 5-9/5000")]
    );
    let parts = larder.ask("GET /\nAccept-Encoding: gzip\nRange: bytes=0-1, 5-9");
    let fields = ["content-encoding", "etag", "vary"].map(|name| parts.field(name));
    assert_eq!((parts.status, fields), (206, [None, Some("\"a\""), Some("Accept-Encoding")]));
    let same = larder.ask("GET /\nAccept-Encoding: gzip\nRange: bytes=5-9\nIf-Range: \"a\"");
    assert_eq!((same.status, same.field("content-encoding")), (206, None));
    // A range of the coded form is not available: the client gets the whole coded form.
    let other = larder.ask("GET /\nAccept-Encoding: gzip\nRange: bytes=5-9\nIf-Range: W/\"a\"");
    assert_eq!((other.status, other.field("content-encoding")), (200, Some("gzip")));
    assert_eq!(decode("gzip", &other.body), text(5_000));
}

#[test]
fn each_line_of_an_entity_tag_is_weak_in_a_coded_form() {
    let origin = Origin::by(|_| page("ETag: \"a\"\nETag: \"b\"\nETag: W/\"c\"\n", 5_000));
    let larder = compressing(&origin, "");
    larder.get("/");
    assert_eq!(all(&coded(&larder, "/", "gzip"), "etag"), ["W/\"a\"", "W/\"b\"", "W/\"c\""]);
    assert_eq!(all(&larder.get("/"), "etag"), ["\"a\"", "\"b\"", "W/\"c\""]);
}
