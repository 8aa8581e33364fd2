//! `cors`, `security_headers` and `default`: response fields for browsers.

use crate::with_rules;
use larder_testkit::{Larder, Origin, file_with};

const PAGE: &str = "https://app.test";

fn ask(larder: &Larder, request: &str, origin: &str) -> Answered {
    let answer = larder.ask(&format!("{request}\nOrigin: {origin}"));
    let field = |name: &str| answer.field(name).map(str::to_owned);
    Answered {
        status: answer.status,
        allowed: field("access-control-allow-origin"),
        credentials: field("access-control-allow-credentials"),
        vary: field("vary"),
        is_hit: answer.is_hit(),
    }
}

struct Answered {
    status: u16,
    allowed: Option<String>,
    credentials: Option<String>,
    vary: Option<String>,
    is_hit: bool,
}

#[test]
fn named_pages_may_read_responses_that_all_share() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nAccess-Control-Allow-Origin: *\n\nx");
    let larder = with_rules(
        &origin,
        "[[site.rule]]\nmatch = { path = '/api/*' }\n\
         cors = { origins = ['https://app.test:443', 'http://localhost:3000'], credentials = true, expose = ['X-Total'] }\n",
    );
    for (page, is_hit, is_allowed) in
        [(PAGE, false, true), ("http://localhost:3000", true, true), ("https://evil.test", true, false)]
    {
        let answer = ask(&larder, "GET /api/a", page);
        assert_eq!((answer.status, answer.is_hit), (200, is_hit), "{page}");
        assert_eq!(answer.allowed.as_deref(), is_allowed.then_some(page));
        assert_eq!(answer.credentials.as_deref(), is_allowed.then_some("true"));
        assert_eq!(answer.vary.as_deref(), Some("Origin"));
    }
    assert_eq!(larder.get("/api/a").field("access-control-expose-headers"), Some("X-Total"));
    assert_eq!(ask(&larder, "GET /other", PAGE).allowed.as_deref(), Some("*"), "the origin's own");
}

#[test]
fn pages_of_all_subdomains_may_read_responses_and_no_others() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let cors = "cors = { origins = ['https://*.app.test', 'http://*.app.test:3000'], credentials = true }";
    let larder = with_rules(&origin, &format!("[[site.rule]]\n{cors}\nrequest.remove = 'Origin'\n"));
    larder.get("/a");
    for page in ["https://a.app.test", "https://b.c-d.app.test", "http://x.app.test:3000"] {
        let answer = ask(&larder, "GET /a", page);
        assert_eq!((answer.is_hit, answer.vary.as_deref()), (true, Some("Origin")), "{page}");
        assert_eq!(answer.allowed.as_deref(), Some(page));
        assert_eq!(answer.credentials.as_deref(), Some("true"));
        let preflight = ask(&larder, "OPTIONS /a\nAccess-Control-Request-Method: PUT", page);
        assert_eq!((preflight.status, preflight.allowed.as_deref()), (204, Some(page)));
    }
    for page in [
        "https://app.test",
        "http://a.app.test",
        "https://evil-app.test",
        "https://a.app.test.evil.test",
        "https://evil.test/.app.test",
        "https://a.app.test:444",
        "null",
    ] {
        assert_eq!(ask(&larder, "GET /a", page).allowed, None, "{page}");
    }
}

#[test]
fn preflight_requests_are_answered_without_credentials_and_without_the_origin() {
    let origin = Origin::always("200 OK\n\nx");
    let (_folder, tokens) = file_with("tokens", "0123456789abcdef\n");
    let larder = with_rules(
        &origin,
        &format!(
            "[[site.rule]]\ntokens = '{}'\ncors = {{ origins = '{PAGE}', methods = ['GET', 'PUT'], max_age = '1h' }}\n",
            tokens.display()
        ),
    );
    let asked = format!("OPTIONS /a\nOrigin: {PAGE}\nAccess-Control-Request-Method: PUT");
    let answer = larder.ask(&asked);
    assert_eq!((answer.status, answer.text()), (204, ""));
    for (field, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET, PUT"),
        ("access-control-allow-headers", "Authorization, Content-Type"),
        ("access-control-max-age", "3600"),
    ] {
        assert_eq!(answer.field(field), Some(value), "{field}");
    }
    assert_eq!(origin.count(), 0);
    let refused = ask(&larder, "GET /a", PAGE);
    assert_eq!((refused.status, refused.allowed.as_deref()), (401, Some(PAGE)), "pages may read the refusal");
    assert_eq!(ask(&larder, "OPTIONS /a", PAGE).status, 401, "no preflight request");
}

#[test]
fn fields_are_added_where_they_are_missing() {
    let origin = Origin::by(|seen| {
        let own = if seen.target == "/own" { "\nX-Frame-Options: DENY\nX-Kind: own" } else { "" };
        format!("200 OK\nETag: \"1\"{own}\n\nx")
    });
    let larder = with_rules(
        &origin,
        "[[site.rule]]\nttl = '1h'\nsecurity_headers = true\n\
         request = { default = { X-Country = 'none', Accept-Language = 'en' } }\n\
         response = { default = { X-Kind = 'plain' } }\n\
         reply = { default = { Referrer-Policy = 'no-referrer' } }\n\
         [[site.rule]]\nkey_fields = ['Accept-Language']\n",
    );
    for (path, frames, kind) in [("/", "SAMEORIGIN", "plain"), ("/own", "DENY", "own")] {
        for is_hit in [false, true] {
            let answer = larder.get(path);
            assert_eq!(answer.is_hit(), is_hit, "{path}");
            let fields = ["x-frame-options", "x-kind", "x-content-type-options", "referrer-policy"];
            let expected = [frames, kind, "nosniff", "no-referrer"];
            assert_eq!(fields.map(|name| answer.field(name)), expected.map(Some), "{path}");
        }
    }
    let confirmed = larder.ask("GET /own\nIf-None-Match: \"1\"");
    assert_eq!((confirmed.status, confirmed.field("x-frame-options")), (304, None), "it would replace DENY");
    assert_eq!(origin.last().field("x-country"), Some("none"));
    assert!(larder.ask("GET /\nAccept-Language: en").is_hit());
    assert!(!larder.ask("GET /\nAccept-Language: de\nX-Country: de").is_hit());
    assert_eq!(origin.last().field("x-country"), Some("de"));
}

#[test]
fn a_rule_with_cors_is_one_rule_to_users() {
    let origin = Origin::always("200 OK\n\nx");
    let rule = format!("[[site.rule]]\nname = 'app'\ncors = '{PAGE}'\n");
    let larder = with_rules(&origin, &rule);
    ask(&larder, "GET /a", PAGE);
    let stats = larder.stats();
    let rules = stats["sites"].as_array().expect("sites").iter().find_map(|site| site["rules"].as_array());
    let counts: Vec<_> =
        rules.expect("rules").iter().map(|rule| (&rule["name"], &rule["requests"])).collect();
    assert_eq!(counts, [(&"app".into(), &1.into())]);
    let test = format!(
        "[[test]]\nrequest = 'OPTIONS http://a/'\n\
         fields = {{ Origin = '{PAGE}', Access-Control-Request-Method = 'PUT' }}\n\
         expect = {{ rules = ['app'], outcome = 'answered', status = 204 }}\n"
    );
    let done = crate::expectations::check(&larder_testkit::site(&[&origin], &rule), &test);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
