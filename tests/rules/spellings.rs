//! Other spellings of a URL do not evade a rule.

use crate::with_rules;
use larder_testkit::{Client, Larder, Origin};

#[test]
fn a_rule_for_a_path_or_a_host_holds_for_each_spelling_of_it() {
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
