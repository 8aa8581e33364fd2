//! Storage, lifetimes and permitted uses of responses, section by section of RFC 9111.
#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

use http::{HeaderMap, HeaderName, Method, StatusCode};
use larder_semantics::date;
use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::{Fields, HeadLines};
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::history::History;
use larder_semantics::key;
use larder_semantics::reuse::{Failure, Reuse, reuse, stale_on_error};
use larder_semantics::status::Why;
use larder_semantics::storable::{Rules, Times, remove_hop_by_hop, storable, storable_fields, storable_post};

const NOW: u32 = 1_700_000_000;
const TIMES: Times =
    Times { requested: NOW, received: NOW, by_age: false, history: History { streak: 0, since: 0 } };

/// Returns field lines from `Name: value` separated by `|`; `{+5}` stands for the date five seconds ahead.
fn fields(text: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in text.split('|').filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        let value = match value.trim().strip_prefix('{').and_then(|v| v.strip_suffix('}')) {
            Some(offset) => {
                let time = i64::from(NOW) + offset.parse::<i64>().unwrap();
                String::from_utf8(date::format(time as u32).to_vec()).unwrap()
            }
            None => value.trim().to_owned(),
        };
        map.append(HeaderName::from_bytes(name.trim().as_bytes()).unwrap(), value.parse().unwrap());
    }
    map
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap()
}

fn judge(code: u16, request: &str, response: &str) -> Result<Freshness, Why> {
    storable(&Rules::default(), &Method::GET, &fields(request), status(code), &fields(response), TIMES)
}

/// Returns the freshness of a stored response to a GET, with status 200.
fn stored(response: &str) -> Freshness {
    judge(200, "", response).unwrap_or_else(|why| panic!("{response}: {why:?}"))
}

fn refusal(code: u16, request: &str, response: &str) -> Option<Why> {
    judge(code, request, response).err()
}

#[test]
fn section_3_methods() {
    let response = fields("Cache-Control: max-age=60");
    for (method, expected) in
        [("GET", None), ("HEAD", Some(Why::MethodNotStorable)), ("PUT", Some(Why::MethodNotStorable))]
    {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let found = storable(&Rules::default(), &method, &fields(""), StatusCode::OK, &response, TIMES);
        assert_eq!(found.err(), expected, "{method}");
    }
}

#[test]
fn section_3_every_final_status_with_explicit_freshness() {
    for code in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        assert_eq!(refusal(code, "", "Cache-Control: max-age=60"), None, "{code}");
    }
    for code in [100, 103, 226, 304, 401, 407, 408, 412, 416, 421, 425, 426, 428, 429, 431, 511] {
        assert_eq!(refusal(code, "", "Cache-Control: max-age=60"), Some(Why::StatusNotStorable), "{code}");
    }
}

#[test]
fn section_3_directives() {
    let cases = [
        ("", "Cache-Control: no-store, max-age=60", Some(Why::ResponseNoStore)),
        ("", "Cache-Control: No-StOrE, max-age=60 | Expires: {+60}", Some(Why::ResponseNoStore)),
        ("", "Cache-Control: private, max-age=60", Some(Why::Private)),
        ("", "Cache-Control: private=\"a\", max-age=60", None),
        ("Cache-Control: no-store", "Cache-Control: max-age=60", Some(Why::RequestNoStore)),
        ("", "Cache-Control: max-age=60 | Vary: a, *", Some(Why::VaryAny)),
        ("", "Cache-Control: max-age=60 | Vary: a", None),
        ("Cookie: a=b", "Cache-Control: max-age=60 | Set-Cookie: a=b", None),
    ];
    for (request, response, expected) in cases {
        assert_eq!(refusal(200, request, response), expected, "{request} {response}");
    }
}

#[test]
fn section_3_without_lifetime_or_validator_nothing_is_stored() {
    assert_eq!(refusal(200, "", ""), Some(Why::NoFreshness));
    assert_eq!(refusal(200, "", "Cache-Control: public"), Some(Why::NoFreshness));
    assert_eq!(refusal(200, "", "Cache-Control: max-age=0"), Some(Why::NeverFresh));
    assert_eq!(refusal(200, "", "Cache-Control: no-cache, max-age=60"), Some(Why::NeverFresh));
    assert_eq!(refusal(200, "", "Cache-Control: max-age=0, stale-while-revalidate=60"), None);
    assert_eq!(stored("ETag: \"a\"").ttl(NOW), 0);
    assert_eq!(stored("Cache-Control: no-cache | ETag: \"a\"").ttl(NOW), 0);
    assert_eq!(refusal(403, "", "ETag: \"a\""), Some(Why::NoFreshness), "403 is not heuristically cacheable");
}

#[test]
fn rfc_6265_a_response_with_a_cookie_needs_a_lifetime_for_sharing() {
    let cases = [
        ("Cache-Control: max-age=60", None),
        ("Last-Modified: {-86400}", Some(Why::SetCookie)),
        ("ETag: \"a\"", Some(Why::SetCookie)),
        ("Cache-Control: max-age=0 | ETag: \"a\"", Some(Why::SetCookie)),
        ("Cache-Control: no-cache, max-age=60 | ETag: \"a\"", Some(Why::SetCookie)),
    ];
    for (response, expected) in cases {
        assert_eq!(refusal(200, "", &format!("{response} | Set-Cookie: a=b")), expected, "{response}");
    }
}

#[test]
fn section_3_1_fields_that_are_not_stored() {
    let response = fields(
        "Connection: a, close | A: 1 | Keep-Alive: x | Proxy-Authenticate: x | Proxy-Authentication-Info: x \
         | Proxy-Authorization: x | Proxy-Connection: x | TE: x | Trailer: x | Transfer-Encoding: x | Upgrade: x \
         | Cache-Control: no-cache=\"b, c\", max-age=60 | B: 2 | C: 3 | Set-Cookie: a=b | D: 4",
    );
    let kept = storable_fields(&Rules::default(), &response);
    assert_eq!(kept, fields("Cache-Control: no-cache=\"b, c\", max-age=60 | Set-Cookie: a=b | D: 4"));
}

#[test]
fn rfc_9110_section_7_6_1_trailer_announcements_pass() {
    let mut request = fields("Connection: te, x | TE: trailers | X: 1 | Trailer: digest | Host: a");
    remove_hop_by_hop(&mut request);
    assert_eq!(request, fields("Trailer: digest | Host: a"));
}

#[test]
fn rfc_9110_section_14_4_parts_of_status_200_are_refused() {
    let cases = [
        ("items 0-9/*", true),
        ("0-9/*", true),
        ("*/0", true),
        ("bytes 0-9/10", false),
        ("Bytes 0-9/10", false),
        ("bytesx 0-9/10", true),
        ("bytes 2-4/10", true),
        ("bytes 0-9/*", true),
        ("0-9", false),
        ("any/word", false),
        ("", false),
    ];
    for (range, expected) in cases {
        let refused = refusal(200, "", &format!("Cache-Control: max-age=60 | Content-Range: {range}"));
        assert_eq!(refused, expected.then_some(Why::BadContentRange), "{range}");
    }
}

#[test]
fn section_3_3_partial_responses_say_which_part_they_are() {
    let cases = [
        ("Content-Range: bytes 0-4/10", None),
        ("Content-Range: bytes 5-4/10", Some(Why::BadContentRange)),
        ("Content-Range: bytes 0-4/10 | Content-Length: 4", Some(Why::BadContentRange)),
        ("Content-Range: bytes 0-4/10 | Content-Length: 5", None),
        ("Content-Range: bytes 0-4/10 | Content-Range: bytes 0-4/10", Some(Why::BadContentRange)),
        ("Content-Type: multipart/byteranges; boundary=x", Some(Why::BadContentRange)),
    ];
    for (response, expected) in cases {
        assert_eq!(
            refusal(206, "", &format!("Cache-Control: max-age=60 | {response}")),
            expected,
            "{response}"
        );
    }
}

#[test]
fn section_3_5_authorization() {
    let cases = [
        ("max-age=60", Some(Why::Authorization)),
        ("max-age=60, public", None),
        ("max-age=60, must-revalidate", None),
        ("max-age=60, proxy-revalidate", Some(Why::Authorization)),
        ("s-maxage=60", None),
        ("s-maxage=60, private", Some(Why::Private)),
    ];
    for (value, expected) in cases {
        let response = format!("Cache-Control: {value}");
        assert_eq!(refusal(200, "Authorization: Basic eA==", &response), expected, "{value}");
    }
}

#[test]
fn section_4_2_1_the_order_of_lifetimes() {
    let cases = [
        ("Cache-Control: max-age=60", 60),
        ("Cache-Control: max-age=60 | Expires: {-60} | Date: {+0}", 60),
        ("Cache-Control: max-age=60 | Expires: 0 | Date: {+0}", 60),
        ("Cache-Control: s-maxage=60, max-age=1 | Expires: {-60}", 60),
        ("Cache-Control: max-age=1, s-maxage=60", 60),
        ("Cache-Control: max-age=3600 | Cache-Control: s-maxage=1", 1),
        ("Expires: {+60} | Date: {+0}", 60),
        ("Expires: {+60}", 60),
        ("Expires: {+60} | Date: foo", 60),
        ("Expires: {+60} | Date: {-60}", 120),
        ("Expires: {+20} | Date: {+10}", 10),
        ("Expires: {+0} | Date: {+0} | ETag: \"a\"", 0),
        ("Expires: {+300} | Date: {+400} | ETag: \"a\"", 0),
        ("Expires: 0 | ETag: \"a\"", 0),
        ("Cache-Control: max-age=0 | Expires: {+60} | ETag: \"a\"", 0),
    ];
    for (response, lifetime) in cases {
        assert_eq!(stored(response).lifetime, lifetime, "{response}");
    }
}

#[test]
fn section_4_2_2_heuristic_statuses() {
    let cacheable = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
    for code in cacheable {
        let freshness = judge(code, "", "Last-Modified: {-86400} | Date: {+0}").unwrap();
        assert_eq!(freshness.lifetime, 8640, "{code}");
        assert!(freshness.flags.contains(Flags::HEURISTIC));
    }
    for code in [201, 202, 302, 403, 502, 503, 504, 599] {
        assert_eq!(refusal(code, "", "Last-Modified: {-86400}"), Some(Why::NoFreshness), "{code}");
    }
    assert_eq!(refusal(599, "", "Last-Modified: {-86400} | Cache-Control: public"), None);
}

#[test]
fn section_4_2_2_heuristics_follow_the_rules() {
    let cases = [(10, 86_400, 1_000, 100), (10, 50, 1_000, 50), (0, 86_400, 1_000, 0), (50, 86_400, 5, 2)];
    for (heuristic_percent, heuristic_max, age, lifetime) in cases {
        let rules = Rules { heuristic_percent, heuristic_max, ..Rules::default() };
        let response = fields(&format!("Date: {{+0}} | Last-Modified: {{-{age}}}"));
        let found = storable(&rules, &Method::GET, &fields(""), StatusCode::OK, &response, TIMES).unwrap();
        assert_eq!(found.lifetime, lifetime, "{heuristic_percent}% of {age}");
    }
    assert_eq!(stored("Last-Modified: {+10} | Date: {+0}").lifetime, 0, "from the future");
    assert_eq!(stored("Last-Modified: never | Date: {+0}").lifetime, 0);
}

#[test]
fn section_4_2_3_age() {
    let times = Times { requested: NOW - 5, received: NOW, by_age: false, history: History::default() };
    let cases = [
        ("Date: {+0}", 5),
        ("Date: {+0} | Age: 30", 35),
        ("Date: {-60} | Age: 30", 60),
        ("Date: {+60}", 5),
        ("Age: abc", 5),
        ("Age: -7200", 5),
        ("Age: 7200.0", 5),
        ("Age: 7200;foo=bar", 5),
        ("Age: 7200, 0", 7205),
        ("Age: 0, 7200", 5),
        ("Age: 7200 | Age: 0", 7205),
        ("Age: 0 | Age: 7200", 5),
        ("Age: 2147483649", 2_147_483_654),
        ("Age: 99999999999", u32::MAX),
    ];
    for (response, age) in cases {
        let response = fields(&format!("Cache-Control: max-age=60 | {response}"));
        let found =
            storable(&Rules::default(), &Method::GET, &fields(""), StatusCode::OK, &response, times).unwrap();
        assert_eq!(found.age(NOW), age, "{response:?}");
        assert_eq!(found.age(NOW + 10), age.saturating_add(10));
    }
}

#[test]
fn section_4_2_3_age_alone_counts_where_all_caches_send_it() {
    let times = Times { requested: NOW - 5, received: NOW, by_age: true, history: History::default() };
    for (response, age) in
        [("Date: {-600}", 5), ("Date: {-600} | Age: 30", 35), ("Date: {+600} | Age: 30", 35)]
    {
        let response = fields(&format!("Cache-Control: max-age=60 | {response}"));
        let found =
            storable(&Rules::default(), &Method::GET, &fields(""), StatusCode::OK, &response, times).unwrap();
        assert_eq!(found.age(NOW), age, "{response:?}");
    }
}

#[test]
fn section_4_2_4_stale_when_the_origin_is_gone() {
    let cases = [
        ("max-age=2", true),
        ("max-age=2, stale-if-error=60", true),
        ("max-age=2, stale-if-error=0", false),
        ("max-age=2, must-revalidate", false),
        ("max-age=2, proxy-revalidate", false),
        ("max-age=2, s-maxage=2", false),
        ("max-age=2, must-revalidate, stale-if-error=60", false),
    ];
    for (value, expected) in cases {
        let stored = stored(&format!("Cache-Control: {value}"));
        let request = RequestDirectives::default();
        let found = stale_on_error(&stored, &request, &Rules::default(), NOW + 5, Failure::Unreachable);
        assert_eq!(found, expected, "{value}");
    }
}

#[test]
fn rfc_5861_section_3_stale_while_revalidate() {
    let at = |value: &str, seconds| {
        reuse(&stored(&format!("Cache-Control: {value}")), &RequestDirectives::default(), NOW + seconds)
    };
    assert_eq!(at("max-age=1, stale-while-revalidate=4", 3), Reuse::StaleWhileRevalidate);
    assert_eq!(at("max-age=1, stale-while-revalidate=4", 6), Reuse::Revalidate(Why::Expired));
    assert_eq!(at("s-maxage=1, stale-while-revalidate=4", 3), Reuse::Revalidate(Why::Expired));
    assert_eq!(at("max-age=1", 3), Reuse::Revalidate(Why::Expired));
}

#[test]
fn section_5_2_1_max_age_counts_the_age_received() {
    let stored = stored("Cache-Control: max-age=100000 | Age: 1800");
    let asks = |value: &str| RequestDirectives::parse(&fields(&format!("Cache-Control: {value}")));
    assert_eq!(reuse(&stored, &asks("max-age=600"), NOW), Reuse::Revalidate(Why::RequestMaxAge));
    assert_eq!(reuse(&stored, &asks("max-age=1800"), NOW), Reuse::Fresh);
    assert_eq!(reuse(&stored, &asks("min-fresh=98200"), NOW), Reuse::Fresh);
    assert_eq!(reuse(&stored, &asks("min-fresh=98201"), NOW), Reuse::Revalidate(Why::RequestMinFresh));
}

#[test]
fn section_5_2_2_3_must_understand() {
    let response = "Cache-Control: max-age=60, no-store, must-understand";
    assert_eq!(refusal(200, "", response), None);
    assert_eq!(refusal(599, "", response), Some(Why::NotUnderstood));
    assert_eq!(refusal(599, "", "Cache-Control: max-age=60, must-understand"), Some(Why::NotUnderstood));
}

#[test]
fn section_5_2_2_4_no_cache_is_stored_and_validated() {
    let stored = stored("Cache-Control: max-age=60, no-cache | ETag: \"a\"");
    assert_eq!(reuse(&stored, &RequestDirectives::default(), NOW), Reuse::Revalidate(Why::ResponseNoCache));
}

#[test]
fn rfc_9213_targeted_fields_replace_cache_control_and_expires() {
    let lifetime = |response: &str| judge(200, "", response).map(|freshness| freshness.lifetime);
    assert_eq!(lifetime("CDN-Cache-Control: max-age=60"), Ok(60));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=60 | Cache-Control: no-store"), Ok(60));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=60 | Expires: {-60} | Date: {+0}"), Ok(60));
    assert_eq!(lifetime("CDN-Cache-Control: foo | Expires: {+60}"), Err(Why::NoFreshness));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=0 | Expires: {+60}"), Err(Why::NeverFresh));
    assert_eq!(lifetime("CDN-Cache-Control: private | Cache-Control: max-age=60"), Err(Why::Private));
    assert_eq!(
        lifetime("CDN-Cache-Control: no-store | Cache-Control: max-age=60"),
        Err(Why::ResponseNoStore)
    );
    assert_eq!(
        lifetime("CDN-Cache-Control: max-age=9, && | Cache-Control: no-store"),
        Err(Why::ResponseNoStore)
    );
}

#[test]
fn rfc_9110_section_9_3_3_post() {
    let mut target = Vec::new();
    key::write(&mut target, "http", b"a", b"/x");
    let post = |code, response: &str| {
        storable_post(&Rules::default(), &target, &fields(""), status(code), &fields(response), TIMES).err()
    };
    assert_eq!(post(200, "Cache-Control: max-age=60 | Content-Location: http://a/x"), None);
    assert_eq!(post(200, "Cache-Control: max-age=60 | Content-Location: /x"), None);
    assert_eq!(post(200, "Cache-Control: max-age=60 | Content-Location: /y"), Some(Why::ContentLocation));
    assert_eq!(post(200, "Cache-Control: max-age=60"), Some(Why::ContentLocation));
    assert_eq!(post(404, "Cache-Control: max-age=60 | Content-Location: /x"), Some(Why::ContentLocation));
    assert_eq!(post(200, "Last-Modified: {-60} | Content-Location: /x"), Some(Why::NoFreshness));
    assert_eq!(post(200, "Cache-Control: no-store | Content-Location: /x"), Some(Why::ResponseNoStore));
}

#[test]
fn maps_and_serialised_heads_are_judged_alike() {
    let head = HeadLines(b"CACHE-CONTROL: max-age=60\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nVary: a\r\n");
    let (rules, get, none) = (Rules::default(), Method::GET, HeaderMap::new());
    let as_head = storable(&rules, &get, &HeadLines(b""), StatusCode::OK, &head, TIMES);
    let as_map = storable(&rules, &get, &none, StatusCode::OK, &head.to_map(), TIMES);
    assert!(as_head.is_ok());
    assert_eq!(as_head, as_map);
    assert_eq!(head.first("vary"), Some(&b"a"[..]));
}
