//! Sites by path, origins with a path, and origins whose responses contain their own URLs.

use larder_testkit::{Larder, Origin, Response, Seen};
use serde_json::Value;

/// Names the site and the target that arrive at an origin.
fn named(name: &'static str) -> Origin {
    Origin::by(move |seen| format!("200 OK\nCache-Control: max-age=100\n\n{name} {}", seen.target))
}

fn why(larder: &Larder, path: &str) -> Value {
    larder.ask_admin(&format!("GET /why?url=http://site.test{path}")).json()
}

fn purge(larder: &Larder, query: &str) -> Value {
    larder.ask_admin(&format!("POST /purge?{query}&hard&count\nLarder-Admin: 1")).json()
}

#[test]
fn requests_go_below_the_origin_path_and_are_stored_under_client_urls() {
    let origin = named("app");
    let larder = Larder::start(&format!("[[site]]\norigin = 'http://{}/app/v1/'", origin.address));
    let asked = [
        ("/", "/app/v1/"),
        ("/a/b?c=/d", "/app/v1/a/b?c=/d"),
        ("/?q", "/app/v1/?q"),
        ("/app/v1/x", "/app/v1/app/v1/x"),
        ("/a%2Fb", "/app/v1/a%2Fb"),
    ];
    for (path, target) in asked {
        assert_eq!(larder.get(path).text(), format!("app {target}"));
        assert!(larder.get(path).is_hit(), "{path}");
    }
    let why = why(&larder, "/a/b?c=/d");
    assert_eq!(
        (&why["key"], &why["decision"]["outcome"]),
        (&"http://site.test/a/b?c=/d".into(), &"hit".into())
    );
    assert_eq!(why["origins"][0], format!("http://{}/app/v1/", origin.address));
    assert_eq!(purge(&larder, "url=http://site.test/a/b?c=/d")["objects"], 1);
    assert!(!larder.get("/a/b?c=/d").is_hit());
    for path in ["/../secret", "/a/%2e%2e/%2E./secret", "/..%2fsecret", "/a/..\\..\\secret", "/.", "/a/.."] {
        let refused = larder.get(path);
        assert_eq!(refused.status, 400, "{path}");
        assert!(refused.text().contains("segments"), "{}", refused.text());
    }
    assert_eq!(origin.count(), asked.len() + 1);
}

/// Returns the config of four sites of one host; the site `api` has another host, too.
fn by_path(origins: &[Origin; 4]) -> String {
    let [shop, cart, api, rest] = origins.each_ref().map(|origin| origin.address);
    format!(
        "[[site]]\nhosts = 'site.test'\norigin = 'http://{rest}'\n\
         [[site]]\nhosts = 'site.test'\npath = '/shop/'\norigin = 'http://{shop}/'\n\
         [[site]]\nhosts = 'site.test'\npath = '/shop/cart'\norigin = 'http://{cart}/v2'\ncache = false\n\
         [[site]]\nname = 'api'\nhosts = ['*.test', 'api.example']\npath = '/api'\norigin = 'http://{api}'\n"
    )
}

#[test]
fn the_site_with_the_longest_path_takes_a_request() {
    let origins = ["shop", "cart", "api", "rest"].map(named);
    let larder = Larder::start(&by_path(&origins));
    for (path, answer) in [
        ("/", "rest /"),
        ("/shopping", "rest /shopping"),
        ("/shop", "shop /"),
        ("/shop?a", "shop /?a"),
        ("/shop/a?b", "shop /a?b"),
        ("/%73hop/b", "shop /b"),
        ("/shop/cartoon", "shop /cartoon"),
        ("/shop/cart", "cart /v2"),
        ("/shop/cart/1", "cart /v2/1"),
        ("/api/users", "api /api/users"),
    ] {
        assert_eq!(larder.get(path).text(), answer, "{path}");
        assert_eq!(larder.get(path).is_hit(), !answer.starts_with("cart"), "{path}");
    }
    assert_eq!(larder.ask("GET /api/a\nHost: api.example").text(), "api /api/a");
    assert_eq!(larder.ask("GET /a\nHost: api.example").status, 404);
    assert_eq!(larder.ask("GET /api/a\nHost: other.example").status, 421);
    for path in ["/shop/../api/users", "/shop%2Fa"] {
        assert_eq!(larder.get(path).status, 400, "{path}: an origin could read another site's path");
    }
    let site = |path| why(&larder, path)["site"].clone();
    assert_eq!(
        [site("/shop/a"), site("/shop/cart"), site("/api/"), site("/")],
        ["site.test/shop", "site.test/shop/cart", "api", "site.test"]
    );
    let stats = larder.stats();
    let requests = |name: &str| {
        let sites = stats["sites"].as_array().expect("a list");
        sites.iter().find(|site| site["site"] == name).expect(name)["requests"].as_u64()
    };
    assert_eq!((requests("site.test/shop"), requests("site.test/shop/cart")), (Some(10), Some(4)));
    assert_eq!(purge(&larder, "prefix=http://site.test/shop/")["objects"], 2);
    assert!(!larder.get("/shop/a?b").is_hit() && larder.get("/shopping").is_hit());
}

/// Returns an origin whose responses have a location and cookies with its address and its path.
fn self_named(path: &'static str) -> Origin {
    Origin::by(move |seen: &Seen| {
        let host = seen.field("host").expect("a host");
        let name = host.split(':').next().expect("a name");
        format!(
            "201 Created\nCache-Control: max-age=100\nLocation: http://{host}{path}new?a=1\nContent-Location: {path}here\n\
             Set-Cookie: a=b; Path={path}; Domain=.{name}; Secure\nSet-Cookie: __Host-c=d; Path=/; Secure\n\
             Set-Cookie: e=f; path=/elsewhere\nX-Location: http://{host}/\n\nx"
        )
    })
}

fn fields(answer: &Response) -> Vec<&str> {
    let named = |name: &str| ["location", "content-location", "set-cookie"].contains(&name);
    let fields = answer.fields.iter().filter(|(name, _)| named(&name.to_ascii_lowercase()));
    fields.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn urls_of_origins_that_name_themselves_become_those_of_the_site() {
    let origin = self_named("/app/");
    let table = format!(
        "[[site]]\npath = '/shop'\norigin = 'http://{}/app'\nhost = 'origin'\nrewrite_urls = true\n",
        origin.address
    );
    let larder = Larder::start(&table);
    let expected = [
        "http://site.test/shop/new?a=1",
        "/shop/here",
        "a=b; Path=/shop/; Domain=site.test; Secure",
        "__Host-c=d; Path=/; Secure",
        "e=f; path=/elsewhere",
    ];
    let answer = larder.get("/shop/x");
    assert_eq!(fields(&answer), expected);
    assert_eq!(answer.field("x-location"), Some(&*format!("{}/", origin.url())), "no other field is changed");
    assert_eq!(larder.ask("POST /shop/x\nContent-Length: 0").field("location"), Some(expected[0]));
    assert!(why(&larder, "/shop/x")["hints"].is_null());
}

#[test]
fn a_path_never_becomes_another_host() {
    // This origin redirects to the requested path with a slash added.
    let origin = Origin::by(|seen| format!("301 Moved Permanently\nLocation: {}/\n\nx", seen.target));
    let table = format!("[[site]]\norigin = 'http://{}/app/'\nrewrite_urls = true\n", origin.address);
    let larder = Larder::start(&table);
    assert_eq!(larder.get("//evil.test/x").field("location"), Some("http://site.test//evil.test/x/"));
    assert_eq!(larder.get("/x").field("location"), Some("/x/"));
    // Without a Host field there is no absolute URL to write.
    let mut client = larder.client();
    client.raw(b"GET //evil.test/x HTTP/1.0\r\n\r\n");
    assert_eq!(client.receive("GET").field("location"), Some("/app//evil.test/x/"));
}

#[test]
fn urls_stay_unchanged_without_rewrite_urls_and_why_gives_a_hint() {
    let origin = self_named("/");
    let table = format!("[[site]]\norigin = 'http://{}'\n", origin.address);
    let larder = Larder::start(&format!("{table}host = 'origin'\n"));
    assert_eq!(larder.get("/x").field("location"), Some(&*format!("{}/new?a=1", origin.url())));
    let hints = why(&larder, "/other")["hints"].to_string();
    assert!(
        hints.contains("rewrite_urls = true") && hints.contains("Location: http://127.0.0.1:"),
        "{hints}"
    );
    assert!(!hints.contains("a=1"), "queries may be secret: {hints}");
    larder.wait_for_log("its origin names itself in 'Location: http://127.0.0.1:");
    // Without `host = 'origin'`, the origin gets the client's host, and its URLs need no change.
    let larder = Larder::start(&table);
    assert_eq!(larder.get("/x").field("location"), Some("http://site.test/new?a=1"));
    assert!(why(&larder, "/x")["hints"].is_null());
}

#[test]
fn an_unsafe_request_invalidates_what_its_origin_names_by_its_own_url() {
    let origin = Origin::by(|seen| match seen.method.as_str() {
        "POST" => format!("201 Created\nLocation: http://{}/app/list", seen.field("host").expect("a host")),
        _ => "200 OK\nCache-Control: max-age=100\n\nlist".to_owned(),
    });
    let table =
        format!("[[site]]\norigin = 'http://{}/app'\nhost = 'origin'\nrewrite_urls = true\n", origin.address);
    let larder = Larder::start(&table);
    larder.get("/list");
    assert!(larder.get("/list").is_hit());
    assert_eq!(larder.ask("POST /new\nContent-Length: 0").field("location"), Some("http://site.test/list"));
    assert!(!larder.get("/list").is_hit());
}

#[test]
fn why_tells_how_to_have_nginx_compress() {
    let origin = Origin::by(|seen| {
        let coding = if seen.target == "/coded" { "Content-Encoding: gzip\n" } else { "" };
        let content = "x".repeat(2_000);
        format!(
            "200 OK\nServer: nginx/1.24.0\nContent-Type: text/html\n{coding}Cache-Control: max-age=100\n\n{content}"
        )
    });
    let larder = Larder::before(&origin);
    larder.get("/plain");
    larder.get("/coded");
    let hint = why(&larder, "/plain")["hints"][0].clone();
    assert!(hint.as_str().expect("a hint").contains("gzip_proxied any;"), "{hint}");
    assert!(why(&larder, "/coded")["hints"].is_null());
}
