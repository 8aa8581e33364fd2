//! Requests that rules answer or refuse.

use crate::with_rules;
use larder_testkit::{Larder, Origin, file_with, site};

#[test]
fn redirects_take_parts_of_the_request() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = '/old/*' }\nredirect = { to = '/new/{1}{query}', status = 301 }\n\
                 [[site.rule]]\nmatch = { path = '~^/u/([0-9]+)/(.*)$' }\nredirect = '/users?id={1}&page={2}'\n\
                 [[site.rule]]\nmatch = { host = 'example.test' }\nredirect = { to = 'https://www.{host}{uri}', status = 308 }\n\
                 [[site.rule]]\nmatch = { path = '/up*' }\nredirect = '/{1}'\n";
    let larder = with_rules(&origin, rules);
    let cases = [
        ("GET /old/a/b?c=1", 301, "/new/a/b?c=1"),
        ("GET /old/a%20b", 301, "/new/a%20b"),
        ("GET /u/17/x", 302, "/users?id=17&page=x"),
        ("GET /up//evil.test", 302, "/evil.test"),
        ("GET /up/%5Cevil.test", 302, "/%5Cevil.test"),
        ("GET /old/@types%2fnode//x", 301, "/new/@types%2fnode//x"),
    ];
    for (request, status, location) in cases {
        let answer = larder.ask(request);
        assert_eq!((answer.status, answer.field("location")), (status, Some(location)), "{request}");
    }
    let absolute = larder.ask("POST http://example.test/a?b HTTP/1.1\nContent-Length: 0");
    assert_eq!((absolute.status, absolute.field("location")), (308, Some("https://www.example.test/a?b")));
    assert_eq!(origin.count(), 0);
}

#[test]
fn the_stars_of_a_redirect_are_those_of_its_own_rule() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = '/old/*' }\nredirect = '/new/{1}'\n\
                 [[site.rule]]\nmatch = { path = '/*' }\nreply = { set = { X-A = 'b' } }\n\
                 [[site.rule]]\nmatch = { path = ['/old/x', '~^/old/(.)'] }\nttl = '1h'\n\
                 [[site.rule]]\nmatch = { path = '/old/z/*' }\nredirect = '/z/{1}'\n";
    let larder = with_rules(&origin, rules);
    for (path, location) in [("/old/a/b", "/new/a/b"), ("/old/x", "/new/x"), ("/old/z/a", "/z/a")] {
        let answer = larder.get(path);
        assert_eq!((answer.field("location"), answer.field("x-a")), (Some(location), Some("b")), "{path}");
    }
}

#[test]
fn fixed_responses_come_from_text_and_files() {
    let origin = Origin::always("200 OK\n\nx");
    let (_folder, file) = file_with("page.html", "<p>closed");
    let rules = format!(
        "[[site.rule]]\nmatch = {{ path = '/robots.txt' }}\nrespond = {{ body = \"User-agent: *\\n\" }}\n\
         [[site.rule]]\nmatch = {{ path = '/closed' }}\nrespond = {{ status = 503, file = '{}' }}\n\
         [[site.rule]]\nmatch = {{ path = '/.git/*' }}\nrespond = 404\n\
         [[site.rule]]\nmatch = {{ path = '/pixel' }}\nrespond = 204\n",
        file.display()
    );
    let larder = with_rules(&origin, &rules);
    let robots = larder.get("/robots.txt");
    assert_eq!((robots.status, robots.text()), (200, "User-agent: *\n"));
    assert_eq!(robots.field("cache-status"), Some("Larder; detail=by-rule"));
    let closed = larder.get("/closed");
    assert_eq!((closed.status, closed.text()), (503, "<p>closed"));
    assert_eq!(closed.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(larder.get("/.git/config").status, 404);
    let empty = larder.get("/pixel");
    assert_eq!((empty.status, empty.text(), empty.field("content-type")), (204, "", None));
    let head = larder.ask("HEAD /robots.txt");
    assert_eq!((head.status, head.field("content-length"), head.text()), (200, Some("14"), ""));
    assert_eq!(origin.count(), 0);
}

#[test]
fn clients_are_served_by_their_networks() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = '/intern*' }\nallow = ['10.0.0.0/8']\n\
                 [[site.rule]]\nmatch = { path = '/blocked' }\ndeny = ['192.0.2.0/24']\n";
    let larder = Larder::start(&format!("trust = '127.0.0.1'\n{}", site(&[&origin], rules)));
    let ask = |path: &str, client: &str| larder.ask(&format!("GET {path}\nX-Forwarded-For: {client}"));
    for (path, client, status) in [
        ("/intern", "10.1.1.1", 200),
        ("/intern", "192.0.2.1", 403),
        ("/%69ntern", "192.0.2.1", 403),
        ("/blocked", "192.0.2.1", 403),
        ("/blocked", "10.1.1.1", 200),
        ("/", "192.0.2.1", 200),
    ] {
        let answer = ask(path, client);
        assert_eq!(answer.status, status, "{path} {client}: {}", answer.text());
    }
}

#[test]
fn clients_that_are_refused_get_no_answer_of_the_proxy_either() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = '/closed*' }\nallow = ['10.0.0.0/8']\n\
                 [[site.rule]]\nrequest = { set = { X-Origin-Key = 'secret' } }\n";
    let larder = with_rules(&origin, rules);
    for method in ["TRACE", "OPTIONS"] {
        let status = |path| larder.ask(&format!("{method} {path}\nMax-Forwards: 0")).status;
        assert_eq!(status("/closed"), 403, "{method}");
        assert_ne!(status("/"), 403, "{method}");
    }
    // The origin could answer TRACE with the secret field, so the proxy does not send it.
    larder.ask("TRACE /b\nX-Own: 2");
    assert_eq!(
        ["x-own", "x-origin-key"].map(|name| origin.last().field(name).map(str::to_owned)),
        [Some("2".to_owned()), None]
    );
    let traced = larder.ask("TRACE /\nMax-Forwards: 0\nX-Own: 1");
    assert!(traced.text().contains("x-own: 1") && !traced.text().contains("secret"), "{}", traced.text());
}

#[test]
fn a_reload_with_a_bad_rule_changes_nothing() {
    let origin = Origin::always("200 OK\n\nx");
    let rule = |rest: &str| site(&[&origin], &format!("[[site.rule]]\nmatch = {{ path = '/a' }}\n{rest}"));
    let larder = Larder::start(&rule("respond = 404\n"));
    larder.reload(&rule("respnd = 410\n"));
    larder.wait_for_log("unknown key 'respnd' in this rule; did you mean 'respond'?");
    assert_eq!(larder.get("/a").status, 404);
    larder.reload(&rule("respond = 410\n"));
    larder.wait_for_log("config reloaded");
    assert_eq!(larder.get("/a").status, 410);
}
