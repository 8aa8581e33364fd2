//! Rules for storing responses, and for their lifetime.

use larder_testkit::{Larder, Origin, site};
use serde_json::Value;

use crate::with_rules;

fn lifetime(larder: &Larder, path: &str) -> Value {
    larder.ask_admin(&format!("GET /why?url=http://site.test{path}")).json()["stored"]["lifetime"].take()
}

#[test]
fn lifetimes_are_replaced_bounded_and_given() {
    let origin = Origin::by(|seen| {
        match seen
            .target
            .trim_start_matches("/bounded")
            .trim_start_matches("/given")
            .trim_start_matches("/replaced")
        {
            "/busy" => "503 Service Unavailable\nCache-Control: max-age=100\n\nx".to_owned(),
            "/none" => "200 OK\n\nx".to_owned(),
            "/missing" => "404 Not Found\n\nx".to_owned(),
            "/refused" => "400 Bad Request\n\nx".to_owned(),
            "/broken" => "502 Bad Gateway\n\nx".to_owned(),
            path => format!("200 OK\nCache-Control: max-age={}\n\nx", path.trim_start_matches('/')),
        }
    });
    let rules = "[[site.rule]]\nmatch = { path = '/replaced/*' }\nttl = '7s'\n\
                 [[site.rule]]\nmatch = { path = '/bounded/*' }\nttl_min = '10s'\nttl_max = '1m'\n\
                 [[site.rule]]\nmatch = { path = '/given/*' }\nttl_default = '5m'\n";
    let larder = with_rules(&origin, rules);
    let cases = [
        ("/replaced/100", Some(7)),
        ("/replaced/none", Some(7)),
        ("/replaced/missing", Some(7)),
        ("/replaced/busy", Some(7)),
        ("/replaced/refused", None),
        ("/replaced/broken", None),
        ("/bounded/5", Some(10)),
        ("/bounded/30", Some(30)),
        ("/bounded/100", Some(60)),
        ("/bounded/none", None),
        ("/given/100", Some(100)),
        ("/given/none", Some(300)),
        ("/given/missing", Some(300)),
        ("/given/refused", None),
        ("/given/broken", None),
        ("/100", Some(100)),
        ("/none", None),
    ];
    for (path, expected) in cases {
        larder.get(path);
        larder.settle();
        assert_eq!(lifetime(&larder, path).as_u64(), expected, "{path}");
    }
}

#[test]
fn a_lifetime_may_depend_on_the_status_and_on_the_type() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/missing" => "404 Not Found\n\nno".to_owned(),
        "/gone" => "410 Gone\n\nno".to_owned(),
        "/broken" => "500 Internal Server Error\n\nno".to_owned(),
        "/page" => "200 OK\nContent-Type: Text/HTML; charset=utf-8\n\nx".to_owned(),
        _ => "200 OK\n\nx".to_owned(),
    });
    let rules = "[[site.rule]]\nttl = { 200 = '1h', 404 = '10s', 4xx = '2m', 5xx = '0s' }\n\
                 [[site.rule]]\nmatch = { type = 'text/html' }\nttl = '30s'\n";
    let larder = with_rules(&origin, rules);
    for (path, expected) in [
        ("/", Some(3600)),
        ("/missing", Some(10)),
        ("/gone", Some(120)),
        ("/page", Some(30)),
        ("/broken", None),
    ] {
        larder.get(path);
        larder.settle();
        assert_eq!(lifetime(&larder, path).as_u64(), expected, "{path}");
    }
}

#[test]
fn a_304_is_ruled_by_the_response_that_it_confirms() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some(_) => "304 Not Modified\nETag: \"a\"\nX-Origin: new\nServer: secret\n\n".to_owned(),
        None => "200 OK\nETag: \"a\"\nContent-Type: text/html\nX-Origin: old\n\nbody".to_owned(),
    });
    let rules = "[[site.rule]]\nmatch = { type = 'text/html', max_length = '1KiB' }\nttl = { 200 = '7s', 304 = '1s' }\n\
                 [[site.rule]]\nmatch = { status = 200 }\nresponse = { add = { X-Own = '1' }, remove = ['Server'] }\n\
                 [[site.rule]]\nmatch = { path = '/passed' }\ncache = false\nresponse = { set = { X-Own = '2' } }\n";
    let larder = with_rules(&origin, rules);
    larder.get("/a");
    larder.settle();
    let reload = larder.ask("GET /a\nCache-Control: no-cache");
    assert_eq!(origin.last().field("if-none-match"), Some("\"a\""));
    assert_eq!((reload.status, reload.field("x-origin")), (200, Some("new")));
    assert_eq!(lifetime(&larder, "/a").as_u64(), Some(7));
    let hit = larder.get("/a");
    assert_eq!((hit.is_hit(), hit.field("x-own"), hit.field("server")), (true, Some("1"), None));
    let passed = larder.ask("GET /passed\nIf-None-Match: \"a\"");
    assert_eq!((passed.status, passed.field("x-own")), (304, Some("2")));
}

#[test]
fn a_rule_with_cache_false_prevents_storing_and_hits() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = ['/admin', '/admin/*'] }\ncache = false\n\
                 [[site.rule]]\nmatch = { cookie = 'session' }\ncache = false\nstop = true\n\
                 [[site.rule]]\nmatch = { path = '/admin/logo.png' }\ncache = true\n";
    let larder = with_rules(&origin, rules);
    for path in ["/admin", "/admin/x", "/%61dmin/x", "//admin/x"] {
        for _ in 0..2 {
            assert!(!larder.get(path).is_hit(), "{path}");
        }
    }
    for path in ["/", "/admin/logo.png", "/administrators"] {
        larder.get(path);
        assert!(larder.get(path).is_hit(), "{path}");
    }
    assert!(!larder.ask("GET /\nCookie: a=1; session=2").is_hit());
    assert!(larder.ask("GET /\nCookie: a=1; sessions=2").is_hit());
}

#[test]
fn directives_of_the_origin_are_ignored_where_a_rule_says_so() {
    let origin = Origin::by(|seen| {
        format!(
            "200 OK\nCache-Control: {}, max-age=100\nETag: \"a\"\n\nx",
            seen.target.trim_start_matches('/')
        )
    });
    let larder = with_rules(&origin, "[[site.rule]]\nignore = ['no-cache', 'private']\n");
    for (path, is_hit) in [("/no-cache", true), ("/private", true), ("/no-store", false)] {
        larder.get(path);
        assert_eq!(larder.get(path).is_hit(), is_hit, "{path}");
    }
}

#[test]
fn a_lifetime_by_a_rule_stores_no_cookie_of_one_client() {
    let origin = Origin::by(|_| "200 OK\nSet-Cookie: session=abcdef\n\nx".to_owned());
    let rules = "[[site.rule]]\nttl = '1h'\n\
                 [[site.rule]]\nmatch = { path = '/static/*' }\nresponse = { cookies = 'drop' }\n";
    let larder = with_rules(&origin, rules);
    larder.get("/");
    assert!(!larder.get("/").is_hit());
    assert_eq!(larder.get("/static/a").field("set-cookie"), None);
    assert!(larder.get("/static/a").is_hit());
}

#[test]
fn a_stale_response_is_used_as_long_as_a_rule_allows() {
    let origin = Origin::in_order(["200 OK\nETag: \"a\"\n\nx", "503 Service Unavailable\n\nno"]);
    let rule = "[[site.rule]]\nttl = '0s'\nstale_if_error = '1h'\n";
    let larder = Larder::start(&site(&[&origin], &format!("stale_if_error = '0s'\n{rule}")));
    larder.get("/");
    assert_eq!(larder.get("/").status, 200);
}

#[test]
fn why_names_the_rules_that_hold() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nname = 'short'\nmatch = { path = '/a' }\nttl = '5s'\n\
                 [[site.rule]]\nmatch = { path = '/*' }\ncache = false\n";
    let larder = with_rules(&origin, rules);
    let why = larder.ask_admin("GET /why?url=http://site.test/a").json();
    assert_eq!((&why["rules"][0]["name"], &why["rules"][0]["sets"][0]), (&"short".into(), &"ttl".into()));
    assert!(why["rules"][0]["place"].as_str().is_some_and(|place| place.ends_with("larder.toml:3")), "{why}");
    assert_eq!(why["rules"][1]["name"], "2");
    assert_eq!(
        (&why["decision"]["outcome"], &why["without_rules"]["outcome"]),
        (&"pass".into(), &"miss".into())
    );
}
