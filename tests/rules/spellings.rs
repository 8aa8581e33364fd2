//! Other spellings of a URL do not evade a rule.

use crate::with_rules;
use larder_testkit::{Client, Larder, Origin, http2};

#[test]
fn a_path_or_host_rule_holds_for_each_of_its_spellings() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = ['/admin', '/admin/*'] }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { host = 'intern.test' }\nrespond = 403\n";
    let larder = with_rules(&origin, rules);
    for path in ["/admin/x", "/%61dmin/x", "//admin//x", "/admin%5cx", "/admin\\x", "\\admin"] {
        let status = larder.get(path).status;
        assert!([400, 403].contains(&status), "{path}: {status}");
    }
    for path in [
        "/a/../admin/x",
        "/a/..%2fadmin",
        "/admin/.",
        "/%2e%2e/",
        "/a\\..\\b",
        "/a/..;/admin/x",
        "/a/%2e%2e;b/x",
        "/admin%00",
    ] {
        assert_eq!(larder.get(path).status, 400, "{path}");
    }
    for host in ["intern.test", "intern.test.", "INTERN.test:80"] {
        assert_eq!(larder.ask(&format!("GET /\nHost: {host}")).status, 403, "{host}");
    }
    for host in ["intern.test..", "intern.test...:80"] {
        assert_eq!(larder.ask(&format!("GET /\nHost: {host}")).status, 400, "{host}");
    }
    assert_eq!(larder.get("/.well-known/x").status, 200);
    assert!(origin.count() == 1, "{}", origin.count());
}

#[test]
fn a_rule_for_a_method_holds_for_each_spelling_of_it() {
    let origin = Origin::always("200 OK\n\nx");
    let larder = with_rules(&origin, "[[site.rule]]\nmatch = { method = 'delete' }\nrespond = 403\n");
    for (method, status) in [("DELETE", 403), ("delete", 403), ("Delete", 403), ("DELETES", 200)] {
        assert_eq!(larder.ask(&format!("{method} /")).status, status, "{method}");
    }
}

#[test]
fn an_address_has_one_spelling_in_the_forward_proxy() {
    let origin = Origin::always("200 OK\n\nx");
    let port = origin.address.port();
    let rule = "[[forward.rule]]\nmatch = { host = '127.*' }\nrespond = 403\n";
    let open = format!("[forward]\nallow_private = true\nports = '1-65535'\nconnect_ports = [{port}]\n");
    let larder = Larder::start(&format!("{open}{rule}"));
    for (host, status) in
        [("127.0.0.1", 403), ("127.0.0.1.", 403), ("127.1", 400), ("2130706433", 400), ("0x7f.0.0.1", 400)]
    {
        for request in [format!("GET http://{host}:{port}/"), format!("CONNECT {host}:{port}")] {
            let answer = Client::to(larder.forward).ask(&format!("{request}\nHost: {host}:{port}"));
            assert_eq!(answer.status, status, "{request}");
        }
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn names_of_cookies_and_parameters_may_be_patterns() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nmatch = { cookie = ['session', 'wordpress_logged_in_*'] }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { cookie = { role = 'adm*' } }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { query = { 'utm_*' = 'a*' } }\nrespond = 404\n";
    let larder = with_rules(&origin, rules);
    for (request, status) in [
        ("GET /\nCookie: a=b; wordpress_logged_in_5f4d=x", 403),
        ("GET /\nCookie: session =x", 403),
        ("GET /\nCookie: session=", 403),
        ("GET /\nCookie: role = admin", 403),
        ("GET /\nCookie: role=\"admin\"", 403),
        ("GET /\nCookie: role=\"", 200),
        ("GET /\nCookie: wordpress_logged=x; b=session", 200),
        ("GET /?utm%5Fsource=ab", 404),
        ("GET /?utm_source=b&a=a", 200),
    ] {
        assert_eq!(larder.ask(request).status, status, "{request}");
    }
}

#[test]
fn control_characters_in_a_path_evade_no_rule() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    for condition in ["path = '~^/api/(.*)$'", "path = ['/api/x', '/api/*']", "extension = 'x'"] {
        let larder =
            with_rules(&origin, &format!("[[site.rule]]\nmatch = {{ {condition} }}\nrespond = 403\n"));
        for end in
            ["%0a", "%0D", "%00", "%7f", "%1f", "%09", "%c2%85", "%e2%80%a8", "%E2%80%A9", "%c0%8a", "%250a"]
        {
            let status = larder.get(&format!("/api/x.x{end}")).status;
            assert_eq!(status, 400, "{condition} {end}");
        }
        assert_eq!(larder.get("/a%c3%a4.html?a=%0a").status, 200, "{condition}");
    }
    let open = "[forward]\nallow_private = true\nports = '1-65535'\n";
    let rule = "[[forward.rule]]\nmatch = { path = '~^/api/(.*)$' }\nrespond = 403\n";
    let larder = Larder::start(&format!("{open}{rule}"));
    let host = origin.address;
    for (path, status) in [("/api/x", 403), ("/api/x%0a", 400), ("/x", 200)] {
        let request = format!("GET http://{host}{path}\nHost: {host}");
        assert_eq!(Client::to(larder.forward).ask(&request).status, status, "{path}");
    }
}

#[test]
fn line_ends_in_queries_fields_and_cookies_evade_no_pattern() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { query = { a = '~^x(.*)$' } }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { field = { X-F = '~^x(.*)$' } }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { cookie = { c = '~^x(.*)$' } }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { host = '~^x(.*)$' }\nrespond = 403\n";
    let larder = with_rules(&origin, rules);
    for end in ["", "%0a", "%0D", "%0ay", "%00", "%7f", "%c2%85", "%e2%80%a8y", "%E2%80%A9"] {
        for request in [format!("/?a=x{end}"), format!("/\nCookie: c=x{end}"), format!("/\nX-F: x{end}")] {
            assert_eq!(larder.ask(&format!("GET {request}")).status, 403, "{request}");
        }
    }
    assert_eq!(larder.ask("GET /\nX-F: x\ty\u{85}").status, 403);
    for host in ["x.test", "X.test.", "x.test:080"] {
        assert_eq!(larder.ask(&format!("GET /\nHost: {host}")).status, 403, "{host}");
    }
    assert_eq!((larder.ask("GET /?b=x\nCookie: d=x\nX-G: x").status, origin.count()), (200, 1));
}

#[test]
fn paths_that_some_origins_read_as_a_protected_path_are_refused() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = ['/admin', '/admin/*', '/x.php'] }\nallow = ['192.0.2.1']\n";
    let larder = with_rules(&origin, rules);
    for path in [
        "/admin;x",
        "/admin;x/y",
        "/;x/admin",
        "/admin%3bx",
        "/admin.",
        "/admin./y",
        "/admin%20",
        "/admin%3Fx",
        "/admin%23x",
        "/admin;%2fx",
        "/x.php/y.css",
        "/admin%252fx",
        "/a%252f..%252fadmin",
        "/admin%253fx%252f",
        "/%2561dmin",
        "/%u0061dmin",
    ] {
        assert_eq!(larder.get(path).status, 400, "{path}");
    }
    assert_eq!(origin.count(), 0);
    for path in ["/wiki/Foo;_Bar", "/wiki/Apple_Inc.", "/v1.2/what%3f", "/y.php/z", "/a%252520b", "/100%"] {
        assert_eq!(larder.get(path).status, 200, "{path}");
        assert!(larder.get(path).is_hit(), "{path}");
    }
}

#[test]
fn a_page_that_only_looks_like_a_file_is_not_stored() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { extension = 'css' }\nttl_default = '1h'\n";
    let larder = with_rules(&origin, rules);
    for (path, is_stored) in [
        ("/a.css", true),
        ("/account;x.css", false),
        ("/account.php/x.css", false),
        ("/account%3Fx.css", false),
        ("/account%23.css", false),
        ("/b.css;jsessionid=1", false),
    ] {
        assert_eq!(larder.get(path).status, 200, "{path}");
        assert_eq!(larder.get(path).is_hit(), is_stored, "{path}");
    }
}

#[test]
fn a_path_that_some_origins_read_as_another_sites_is_refused() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let url = origin.address;
    let config = format!(
        "[[site]]\norigin = 'http://{url}'\n[[site]]\npath = '/admin'\norigin = 'http://{url}'\n\
         [[site.rule]]\nrespond = 403\n"
    );
    let larder = Larder::start(&config);
    for (path, status) in [
        ("/admin/x", 403),
        ("//admin/x", 400),
        ("/admin;x", 400),
        ("/\\admin", 400),
        ("/admin%0a", 400),
        ("/admin%2fx", 400),
        ("/b//c;d", 200),
    ] {
        assert_eq!(larder.get(path).status, status, "{path}");
    }
}

/// Cookies that some language reads as one called `session` or `wordpress_logged_in_...`.
const SESSIONS: [&str; 11] = [
    "wordpress.logged.in.abc=1",
    "wordpress logged in abc=1",
    "wordpress[logged_in_abc=1",
    "%77ordpress_logged_in_abc=1",
    "x=1 session=1",
    "x=1,session=1",
    "x=\"1\" session =1",
    "session[a]=1",
    "SESSION=1",
    "session%00=1",
    "a=b; +session=1",
];

#[test]
fn a_session_cookie_in_any_spelling_keeps_the_page_uncached() {
    let origin = Origin::by(|seen| format!("200 OK\n\n{}", seen.field("cookie").unwrap_or("-")));
    let rules = "[[site.rule]]\nmatch = { cookie = ['session', 'wordpress_logged_in_*'] }\ncache = false\nstop = true\n\
                 [[site.rule]]\nttl_default = '5m'\n";
    let larder = with_rules(&origin, rules);
    for cookie in SESSIONS {
        assert_eq!(larder.ask(&format!("GET /\nCookie: {cookie}")).text(), cookie);
    }
    let ordinary =
        "_ga=GA1.2.3.4; p={\"a\":\"b, c\"}; t=WP Cookie check; s=YQ==; AMCV_1%40Org=-1|2; sessions=x";
    assert_eq!(larder.ask(&format!("GET /\nCookie: {ordinary}")).text(), ordinary);
    assert!(larder.get("/").is_hit());
}

#[test]
fn cookies_that_some_language_reads_are_dropped_and_none_is_kept() {
    let origin = Origin::by(|seen| format!("200 OK\n\n{}", seen.field("cookie").unwrap_or("-")));
    let drop = "[[site.rule]]\nrequest = { cookies = { drop = ['session', 'wordpress_logged_in_*'] } }\n";
    let keep = "[[site.rule]]\nrequest = { cookies = { keep = ['lang', 'connect.sid', 'AMCV_*'] } }\n";
    let (drop, keep) = (with_rules(&origin, drop), with_rules(&origin, keep));
    for cookie in SESSIONS {
        let request = format!("GET /\nCookie: q=1; {cookie}; y=2");
        let expected = if cookie.starts_with("a=b") { "q=1; a=b; y=2" } else { "q=1; y=2" };
        assert_eq!(drop.ask(&request).text(), expected, "{cookie}");
        assert_eq!(keep.ask(&request).text(), "-", "{cookie}");
    }
    let request =
        "GET /\nCookie: lang=de; connect.sid=s%3a.a; AMCV_1%40Org=-1|2; lang =fr; lang[]=fr; lang=a b=c";
    assert_eq!(keep.ask(request).text(), "lang=de; connect.sid=s%3a.a; AMCV_1%40Org=-1|2");
}

#[test]
fn a_key_cookie_in_any_spelling_shares_no_response() {
    let origin = Origin::by(|seen| format!("200 OK\n\n{}", seen.field("cookie").unwrap_or("-")));
    let rules = "[[site.rule]]\nkey_cookies = ['session', 'wordpress_logged_in_abc']\nttl_default = '5m'\n";
    let larder = with_rules(&origin, rules);
    let mut client = http2::Client::new(&larder);
    client.authority = "site.test".to_owned();
    let plain = ["session=1", "session=2", "wordpress_logged_in_abc=1"];
    for (round, cookies) in [&SESSIONS[..], &plain, &SESSIONS].into_iter().enumerate() {
        for (at, &cookie) in cookies.iter().enumerate() {
            assert_eq!(larder.ask(&format!("GET /\nCookie: {cookie}")).text(), cookie);
            let stream = (round * 100 + 2 * at + 1) as u32;
            client.ask(stream, "GET", "/", &[("cookie", cookie)]);
            assert_eq!(client.response(stream).body, cookie.as_bytes(), "{cookie}");
        }
        assert_eq!(larder.get("/").text(), "-");
    }
    assert!(larder.get("/").is_hit());
    assert!(larder.ask("GET /\nCookie: a=b; session=1").is_hit());
}

#[test]
fn parameters_that_some_language_reads_meet_conditions() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { query = 'debug_x' }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { query = { role = 'admin' } }\nrespond = 403\n";
    let larder = with_rules(&origin, rules);
    for query in [
        "debug_x",
        "+debug_x=1",
        "%20debug.x",
        "debug_x[]=1",
        "debug_x%5Ba%5D=1",
        "debug[x=1",
        "%64ebug_x",
        "debug_x%00y",
        "a=1;debug_x=1",
        "role=%61dmin",
        "role[]=admin",
        "%u0072ole=admin",
        "role=%u0061dm%69n",
    ] {
        assert_eq!(larder.get(&format!("/?{query}")).status, 403, "{query}");
    }
    for query in ["debug-x", "xdebug_x", "a=debug_x", "role=user", "q=a;b"] {
        assert_eq!(larder.get(&format!("/?{query}")).status, 200, "{query}");
    }
}

#[test]
fn parameters_behind_semicolons_are_dropped_and_none_is_kept() {
    let origin = Origin::by(|seen| format!("200 OK\n\n{}", seen.target));
    let drop = with_rules(&origin, "[[site.rule]]\nquery = { drop = ['debug', 'utm_*'] }\n");
    let keep = with_rules(&origin, "[[site.rule]]\nquery = { keep = ['id'] }\n");
    for (query, dropped, kept) in [
        ("id=1;debug=1", "?id=1", "?id=1"),
        ("debug=1;id=1", "?id=1", "?id=1"),
        (";debug=1", "", ""),
        ("id=1;+debug", "?id=1", "?id=1;+debug"),
        ("id=1&%u0064ebug=1", "?id=1", "?id=1"),
        ("id=1;%64ebug[]=1&id=2;x=3", "?id=1&id=2;x=3", "?id=1&id=2"),
        ("id=a;b;c", "?id=a;b;c", "?id=a;b;c"),
        ("x=1;2;utm.source=y", "?x=1;2", ""),
    ] {
        let ask = |larder: &Larder| larder.get(&format!("/?{query}")).text().to_owned();
        assert_eq!([ask(&drop), ask(&keep)], [format!("/{dropped}"), format!("/{kept}")], "{query}");
    }
}

#[test]
fn fields_that_connection_lists_count_neither_for_hits_nor_for_misses() {
    let origin = Origin::by(|seen| {
        let token = seen.field("x-token").unwrap_or("none");
        format!("200 OK\nCache-Control: max-age=100\nVary: X-Token\n\n{token}")
    });
    let rule = "[[site.rule]]\nmatch = { path = '/own', not = { field = 'X-Token' } }\nrespond = 403\n";
    let larder = with_rules(&origin, rule);
    for path in ["/own", "/all"] {
        assert_eq!(larder.ask(&format!("GET {path}\nX-Token: a")).text(), "a");
    }
    for listed in ["X-Token", "close, x-token"] {
        let fields = format!("X-Token: a\nConnection: {listed}");
        assert_eq!(larder.ask(&format!("GET /own\n{fields}")).status, 403, "{listed}");
        assert_eq!(larder.ask(&format!("GET /all\n{fields}")).text(), "none", "{listed}");
    }
    assert!(larder.ask("GET /all\nX-Token: a\nConnection: keep-alive").is_hit());
}
