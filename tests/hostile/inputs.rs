//! Request fields that an origin trusts and the cache key does not contain.

use larder_testkit::{Larder, Origin};

/// Each case has the fields of the first request, and different fields that must not select the same variant.
#[test]
fn fields_without_a_known_form_select_by_their_lines() {
    let cases = [
        ("X-Tenant: ,acme", "X-Tenant: acme"),
        ("X-Tenant: a,b", "X-Tenant: a\nX-Tenant: b"),
        ("X-Tenant: a\nX-Tenant:", "X-Tenant: a"),
        ("User-Agent: a, b", "User-Agent: a,b"),
        ("Accept-Language: en, de", "Accept-Language: de, en"),
    ];
    for (first, second) in cases {
        let origin = Origin::by(|seen| {
            let vary = "Vary: X-Tenant, User-Agent, Accept-Language\nContent-Language: en";
            format!("200 OK\nCache-Control: max-age=1000\n{vary}\n\n{}", seen.number)
        });
        let larder = Larder::before(&origin);
        for (number, fields) in [first, second].iter().enumerate() {
            let response = larder.ask(&format!("GET /\n{fields}"));
            assert_eq!(response.text(), number.to_string(), "{first} {second}");
        }
        assert!(larder.ask(&format!("GET /\n{first}")).is_hit(), "{first}");
    }
}

#[test]
fn fields_whose_forms_are_known_select_by_their_meaning() {
    let cases = [
        ("Accept-Language: en, de;q=0.5", "Accept-Language: DE;q=0.50,en"),
        ("Accept-Encoding: gzip, br", "Accept-Encoding: br,GZIP"),
        ("Accept: a/b, c/d", "Accept: a/b\nAccept: c/d"),
    ];
    for (first, second) in cases {
        let origin = Origin::always(
            "200 OK\nCache-Control: max-age=1000\nVary: Accept, Accept-Language, Accept-Encoding\n\nx",
        );
        let larder = Larder::before(&origin);
        larder.ask(&format!("GET /\n{first}"));
        assert!(larder.ask(&format!("GET /\n{second}")).is_hit(), "{first} {second}");
    }
}

/// Fields from which some origins take the host, the scheme, the path, the method or the client of a request.
const TRUSTED: &[&str] = &[
    "Forwarded: for=1.2.3.4;host=evil.test;proto=https",
    "X-Forwarded-For: 1.2.3.4",
    "X-Forwarded-Host: evil.test",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Port: 1",
    "X-Forwarded-Prefix: /evil",
    "X-Forwarded-Scheme: https",
    "X-Forwarded-Server: evil.test",
    "X-Forwarded-SSL: on",
    "X_Forwarded_Host: evil.test",
    "X.Forwarded.Host: evil.test",
    "X-Original-URL: /evil",
    "X-Original-Host: evil.test",
    "X-Rewrite-URL: /evil",
    "X-HTTP-Method-Override: DELETE",
    "X-HTTP-Method: DELETE",
    "X-Method-Override: DELETE",
    "X-Host: evil.test",
    "X-Real-IP: 1.2.3.4",
    "True-Client-IP: 1.2.3.4",
    "Front-End-Https: on",
    "CF-Visitor: {\"scheme\":\"https\"}",
    "CloudFront-Forwarded-Proto: https",
    "Fastly-SSL: 1",
    "Forwarded-For: 1.2.3.4",
    "X-Remote-IP: 1.2.3.4",
    "Fly-Client-IP: 1.2.3.4",
    "CF-Pseudo-IPv4: 1.2.3.4",
    "CloudFront-Viewer-Address: 1.2.3.4:5",
    "X-NF-Client-Connection-IP: 1.2.3.4",
    "X-Vercel-Forwarded-For: 1.2.3.4",
    "X-Appengine-User-IP: 1.2.3.4",
    "X-MS-Original-URL: https://evil.test/",
    "Proxy: http://evil.test",
    "X-Http-Path-Override: /evil",
    "X-Proxyuser-Ip: 1.2.3.4",
    "X-Envoy-External-Address: 1.2.3.4",
    "X-Wap-Profile: http://evil.test",
    "X-Middleware-Subrequest: evil",
    "X-React-Router-SPA-Mode: yes",
    "X-React-Router-Prerender-Data: evil",
    "X-Nuxt-No-SSR: 1",
    "X-Astro-Path: /evil",
    "X-Astro-Locals: {}",
    "Surrogate-Capability: evil=\"ESI/1.0\"",
    "X-Ghost-Preview: c=evil",
    "X-Nextjs-Data: 1",
    "Larder-Peer: reverse 1.2.3.4:1 -",
    "Larder-Validate: 1",
];

/// Starts an origin whose page shows all fields of the request except Host, Via and Cache-Control.
fn echo() -> Origin {
    Origin::by(|seen| {
        let told = |(name, _): &&(String, String)| {
            !["host", "via", "cache-control"].contains(&&*name.to_lowercase())
        };
        let told: Vec<_> =
            seen.fields.iter().filter(told).map(|(name, value)| format!("{name}: {value}")).collect();
        format!("200 OK\nCache-Control: max-age=100\n\n{}", told.join("\n"))
    })
}

#[test]
fn fields_that_origins_trust_poison_no_page() {
    let origin = echo();
    let larder = Larder::before(&origin);
    for (number, field) in TRUSTED.iter().enumerate() {
        let poisoned = larder.ask(&format!("GET /{number}\n{field}"));
        let shown = "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: site.test";
        assert_eq!(poisoned.text(), shown, "{field}");
        assert_eq!(larder.get(&format!("/{number}")).text(), shown, "{field}");
    }
    let off = Larder::with(&origin, "client_address = 'off'");
    assert_eq!(off.ask(&format!("GET /\n{}", TRUSTED.join("\n"))).text(), "");
}

#[test]
fn previews_and_data_of_applications_reach_their_origin() {
    let origin = echo();
    let larder = Larder::before(&origin);
    for request in ["POST /\nX-Ghost-Preview: c=blue", "GET /_next/data/b/page.json?a=b\nX-Nextjs-Data: 1"] {
        let (_, field) = request.split_once('\n').expect("a field");
        assert!(larder.ask(request).text().contains(field), "{request}");
    }
    let elsewhere = larder.ask("GET /page?utm=/_next/data/\nX-Nextjs-Data: 1");
    assert!(!elsewhere.text().contains("Nextjs"), "rules may drop the query from the key");
}

#[test]
fn trailers_do_not_become_fields() {
    let origin = echo();
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("POST /\nTransfer-Encoding: chunked\nTrailer: X-Forwarded-Host, Cookie");
    client.raw(b"1\r\na\r\n0\r\nX-Forwarded-Host: evil.test\r\nCookie: a=b\r\nContent-Digest: d\r\n\r\n");
    assert_eq!(client.receive("POST").status, 200);
    assert_eq!(origin.last().trailers, [("Content-Digest".to_owned(), "d".to_owned())]);
}

#[test]
fn an_https_target_on_a_plain_listener_is_refused() {
    let origin = echo();
    let larder = Larder::before(&origin);
    assert_eq!(larder.ask("GET https://site.test/").status, 421);
    assert_eq!((larder.ask("GET http://site.test/").status, origin.count()), (200, 1));
}

#[test]
fn requests_by_a_trusted_proxy_are_stored_per_scheme_and_host() {
    let origin = echo();
    let larder = Larder::with(&origin, "trust = ['127.0.0.0/8']");
    let ask = |fields: &str| larder.ask(&format!("GET /\nX-Forwarded-For: 9.9.9.9, 192.0.2.1{fields}"));
    let page = |scheme: &str, host: &str| {
        format!("X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: {scheme}\nX-Forwarded-Host: {host}")
    };
    for _ in 0..2 {
        assert_eq!(ask("").text(), page("http", "site.test"));
        assert_eq!(ask("\nX-Forwarded-Proto: https").text(), page("https", "site.test"));
        assert_eq!(ask("\nX-Forwarded-Host: evil.test").text(), page("http", "evil.test"));
        // Fields that are not in the key are not accepted from trusted proxies either.
        assert_eq!(ask("\nX-Forwarded-Prefix: /evil\nX-Forwarded-Port: 1").text(), page("http", "site.test"));
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_trusted_proxy_gives_the_address_of_the_client() {
    let origin = echo();
    let log = tempfile::NamedTempFile::new().expect("a file");
    let site = larder_testkit::site(&[&origin], "purge_from = ['192.0.2.1']");
    let start = |trust: &str| {
        let log = log.path().display();
        Larder::start(&format!(
            "{trust}\naccess_log = 'combined'\naccess_log_flush = 'line'\naccess_log_file = '{log}'\n{site}"
        ))
    };
    let purge = |larder: &Larder, client: &str| {
        larder.ask(&format!("PURGE /\nX-Forwarded-For: 9.9.9.9, {client}, 127.0.0.7")).status
    };
    let trusting = start("trust = ['127.0.0.0/8']");
    assert_eq!((purge(&trusting, "192.0.2.1"), purge(&trusting, "192.0.2.2")), (200, 403));
    let written = std::fs::read_to_string(log.path()).expect("a log");
    let clients: Vec<_> = written.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(clients, ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(purge(&start(""), "192.0.2.1"), 403);
}
