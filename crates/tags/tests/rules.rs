//! Tests of the responses that are tagged, the clients that they are for, and the answers.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use http::{HeaderMap, Method, StatusCode};
use larder_tags::{Push, Settings, TagDecision, Verdict, entity_tag};

use support::{coupled, couplings, fetched, fields, forwarded, get, matches, pass, pools, post};

const TAG: &str = "ETag: \"1\"";
const SHOWN: &str = "If-None-Match: \"1\"";

fn lines(verdict: Verdict) -> HeaderMap {
    match verdict {
        Verdict::Pass(lines) | Verdict::NotModified(lines) | Verdict::Read(_, lines) => lines,
    }
}

#[test]
fn a_tag_answers_until_its_pool_is_blanked() {
    let pools = coupled();
    fetched(&pools, "/users/1", "", TAG);
    fetched(&pools, "/other", "", TAG);
    for (shown, is_current) in
        [("\"1\"", true), ("W/\"1\"", true), ("\"0\", \"1\"", true), ("*", true), ("\"2\"", false)]
    {
        assert_eq!(matches(&pools, "/users/1", &format!("If-None-Match: {shown}")), is_current, "{shown}");
    }
    assert!(!matches(&pools, "/users/2", SHOWN) && !matches(&pools, "/users/1", ""));
    drop(post(&pools, "/users"));
    assert!(!matches(&pools, "/users/1", SHOWN) && matches(&pools, "/other", SHOWN));
}

#[test]
fn a_change_blanks_coupled_segments_and_transitively_if_configured() {
    for (transitive, feeds_stay) in [(false, true), (true, false)] {
        let couplings = couplings(&[("users", "paths"), ("paths", "feeds")], transitive);
        let pools = pools(Settings { couplings, ..Settings::default() });
        for target in ["/users", "/paths", "/feeds"] {
            fetched(&pools, target, "", TAG);
        }
        drop(post(&pools, "/USERS/7"));
        assert!(!matches(&pools, "/users", SHOWN) && !matches(&pools, "/paths", SHOWN));
        assert_eq!(matches(&pools, "/feeds", SHOWN), feeds_stay, "transitive: {transitive}");
    }
}

#[test]
fn a_change_that_may_be_anywhere_blanks_everything() {
    let pools = coupled();
    fetched(&pools, "/a", "", TAG);
    drop(post(&pools, "/x/../users"));
    assert!(!matches(&pools, "/a", SHOWN));
    assert!(matches!(get(&pools, "/x/../users", SHOWN), TagDecision::Pass(_)), "its resource is unknown");
}

#[test]
fn only_what_a_tag_says_all_of_is_tagged() {
    let table = [
        (200, "", true),
        (200, "Cache-Control: no-cache", true),
        (200, "Cache-Control: no-store", false),
        (200, "Cache-Control: private", false),
        (200, "Set-Cookie: a=b", false),
        (200, "Vary: *", false),
        (200, "Vary: X-Forwarded-For", false),
        (404, "", false),
        (206, "", false),
        (304, "", true),
    ];
    for (status, answer, is_tagged) in table {
        let pools = coupled();
        let status = StatusCode::from_u16(status).expect("a status");
        let answer = fields(format!("{TAG}\n{answer}").trim());
        forwarded(&pools, "/", "").answer(&HeaderMap::new(), status, &answer, None);
        assert_eq!(matches(&pools, "/", SHOWN), is_tagged, "{status} {answer:?}");
    }
    for request in
        ["Range: bytes=0-1", "If-Match: \"1\"", "If-Unmodified-Since: Thu, 01 Jan 2015 00:00:00 GMT"]
    {
        assert!(matches!(get(&coupled(), "/", request), TagDecision::Pass(_)), "{request}");
    }
    let head = coupled().ask(&Method::HEAD, b"a", b"/", &HeaderMap::new());
    assert!(matches!(head, TagDecision::Pass(_)));
}

#[test]
fn a_tag_for_one_client_is_never_valid_for_another() {
    let credentials =
        ["", "Cookie: a", "Cookie: b", "Authorization: a", "Authorization: b", "Cookie: a\nAuthorization: a"];
    let ask = |own: &str| format!("{SHOWN}\n{own}");
    for (at, one) in credentials.iter().enumerate() {
        let pools = coupled();
        let said = if one.is_empty() { "no-cache" } else { "private" };
        fetched(&pools, "/", one, &format!("{TAG}\nCache-Control: {said}"));
        for (other_at, other) in credentials.iter().enumerate() {
            assert_eq!(
                matches(&pools, "/", ask(other).trim()),
                at == other_at,
                "'{one}' asked, '{other}' asks"
            );
        }
    }
    for said in ["public", "s-maxage=0"] {
        let pools = coupled();
        fetched(&pools, "/", "Cookie: a", &format!("{TAG}\nCache-Control: {said}"));
        for other in credentials {
            assert!(matches(&pools, "/", ask(other).trim()), "{said}: '{other}' asks");
        }
    }
}

#[test]
fn variants_have_tags_of_their_own() {
    let pools = coupled();
    for colour in ["red", "blue"] {
        let answer = format!("ETag: \"{colour}\"\nVary: Colour");
        fetched(&pools, "/", &format!("Colour: {colour}"), &answer);
    }
    for (colour, tag, expected) in
        [("red", "red", true), ("blue", "blue", true), ("red", "blue", false), ("green", "red", false)]
    {
        let asked = format!("Colour: {colour}\nIf-None-Match: \"{tag}\"");
        assert_eq!(matches(&pools, "/", &asked), expected, "{asked}");
    }
}

#[test]
fn a_304_says_what_its_200_would_have_said() {
    let pools = coupled();
    let answer = "ETag: \"1\"\nCache-Control: max-age=5\nVary: A\nExpires: 0\nContent-Location: /x\nContent-Type: a/b\nServer: s";
    fetched(&pools, "/", "", answer);
    let TagDecision::NotModified(kept) = get(&pools, "/", SHOWN) else { panic!("it is current") };
    assert_eq!(
        kept,
        fields("ETag: \"1\"\nCache-Control: max-age=5\nVary: A\nExpires: 0\nContent-Location: /x")
    );
}

#[test]
fn content_without_a_tag_gets_one_and_equal_ones_are_told() {
    let pools = coupled();
    let answer = fields("Content-Type: a/b");
    let tag = entity_tag(&answer, b"content");
    let shown = fields(&format!("If-None-Match: {}", tag.to_str().expect("text")));
    let ticket = forwarded(&pools, "/", "");
    let first = ticket.answer(&HeaderMap::new(), StatusCode::OK, &answer, Some(7));
    assert!(matches!(first, Verdict::Read(1_048_576, _)));
    assert_eq!(lines(ticket.content(&HeaderMap::new(), &answer, b"content"))["etag"], tag);

    drop(post(&pools, "/"));
    pass(61);
    let ticket = forwarded(&pools, "/", "");
    assert!(matches!(ticket.content(&shown, &answer, b"content"), Verdict::NotModified(_)));
    assert!(matches!(ticket.content(&shown, &answer, b"other"), Verdict::Pass(_)));
}

#[test]
fn large_or_streamed_content_gets_no_computed_tag() {
    let table = [
        ("", Some(1_048_576), true),
        ("", Some(1_048_577), false),
        ("", None, true),
        ("Content-Type: text/event-stream;charset=utf-8", None, false),
        ("X-Accel-Buffering: no", None, false),
    ];
    for (answer, length, is_read) in table {
        let verdict =
            forwarded(&coupled(), "/", "").answer(&HeaderMap::new(), StatusCode::OK, &fields(answer), length);
        assert_eq!(matches!(verdict, Verdict::Read(..)), is_read, "{answer} {length:?}");
    }
}

#[test]
fn a_weak_tag_is_the_backends_to_judge() {
    for (tag, is_equal) in [("\"1\"", true), ("W/\"1\"", false)] {
        let verdict = fetched(&coupled(), "/", SHOWN, &format!("ETag: {tag}"));
        assert_eq!(matches!(verdict, Verdict::NotModified(_)), is_equal, "{tag}");
    }
}

#[test]
fn a_reload_goes_to_the_backend() {
    let pools = coupled();
    fetched(&pools, "/", "", TAG);
    assert!(!matches(&pools, "/", &format!("{SHOWN}\nCache-Control: no-cache")));
}

#[test]
fn pools_are_bounded_by_tags_and_by_bytes() {
    for settings in
        [Settings { tags: 10, ..Settings::default() }, Settings { bytes: 4_000, ..Settings::default() }]
    {
        let pools = pools(settings.clone());
        for id in 0..1_000 {
            fetched(&pools, &format!("/users/{id}"), "", TAG);
            assert!(matches(&pools, &format!("/users/{id}"), SHOWN), "the latest stays: {settings:?}");
        }
        let report = &pools.report()[0];
        assert!((5..=settings.tags).contains(&report.tags) && report.bytes <= settings.bytes, "{report:?}");
        assert_eq!(report.tags + report.evictions, 1_000);
        drop(post(&pools, "/users"));
        assert_eq!(pools.report()[0].tags, 0, "none that counts");
    }
}

#[test]
fn segments_beyond_the_limit_share_a_pool_and_stay_right() {
    let pools = pools(Settings { pools: 1, ..Settings::default() });
    for target in ["/a", "/b", "/c"] {
        fetched(&pools, target, "", TAG);
        assert!(matches(&pools, target, SHOWN), "{target}");
    }
    let names: Vec<_> = pools.report().into_iter().map(|report| report.pool).collect();
    assert_eq!(names, ["a", "*"]);
    drop(post(&pools, "/b"));
    assert!(matches(&pools, "/a", SHOWN) && !matches(&pools, "/b", SHOWN));
}

#[test]
fn a_missing_resource_makes_no_pool() {
    let pools = coupled();
    forwarded(&pools, "/wp-admin", "").answer(&HeaderMap::new(), StatusCode::NOT_FOUND, &fields(TAG), None);
    assert_eq!(pools.report().len(), 1);
}

#[test]
fn other_settings_start_empty() {
    // A request may be in flight to the old backend, even if the settings have no doubt after changes.
    for doubt in [60, 0] {
        let pools = coupled();
        fetched(&pools, "/a", "", TAG);
        let early = forwarded(&pools, "/a", "");
        pools.change(Settings { doubt, ..Settings::default() });
        early.answer(&HeaderMap::new(), StatusCode::OK, &fields(TAG), None);
        fetched(&pools, "/a", "", TAG);
        assert!(!matches(&pools, "/a", SHOWN), "a request may still be in progress at the old backend");
        pass(61);
        fetched(&pools, "/a", "", TAG);
        assert!(matches(&pools, "/a", SHOWN));
    }
}

#[test]
fn caches_are_told_what_belongs_together_and_what_is_invalid() {
    let couplings = couplings(&[("users", "paths")], false);
    let pools = pools(Settings { couplings, push: Some(Push { lifetime: 9 }), ..Settings::default() });
    let told = lines(fetched(&pools, "/users/1", "", TAG));
    assert_eq!(
        (&told["cache-groups"], &told["cache-control"]),
        (&"\"users\", \"*\"".parse().unwrap(), &"s-maxage=9".parse().unwrap())
    );
    let TagDecision::NotModified(kept) = get(&pools, "/users/1", SHOWN) else { panic!("it is current") };
    assert_eq!(
        (&kept["cache-groups"], &kept["cache-control"]),
        (&told["cache-groups"], &told["cache-control"])
    );
    assert_eq!(post(&pools, "/users").lines()["cache-group-invalidation"], "\"users\", \"paths\"");
    let TagDecision::Pass(told) = pools.ask(&Method::HEAD, b"a", b"/users", &HeaderMap::new()) else {
        panic!("it passes")
    };
    assert_eq!(told["cache-groups"], "\"users\", \"*\"");
    assert!(post(&coupled(), "/users").lines().is_empty(), "unless they are to ask");
}
