//! RFC 9111 section 3: which responses are stored, and for which requests.

use larder_testkit::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS};
use larder_testkit::{Answer, Client, Larder, Origin, site};

/// Request fields, the response, and whether a second, plain request is answered from the cache.
type Case = (&'static str, &'static str, bool);

fn check(cases: &'static [Case]) {
    let case = |target: &str| cases[target[1..].parse::<usize>().expect("a number")];
    let origin = Origin::by(move |seen| format!("{}\n\nbody", case(&seen.target).1));
    let larder = Larder::before(&origin);
    for (number, (fields, response, stored)) in cases.iter().enumerate() {
        larder.ask(&format!("GET /{number}{fields}"));
        let second = larder.get(&format!("/{number}"));
        assert_eq!(second.is_hit(), *stored, "{fields:?} {response:?}: {second:?}");
        assert_eq!(second.text(), "body");
    }
}

#[test]
fn section_3_the_response_says_whether_it_is_stored() {
    check(&[
        ("", "200 OK", false),
        ("", "200 OK\nCache-Control: max-age=60", true),
        ("", "200 OK\nCache-Control: MAX-AGE=60", true),
        ("", "200 OK\nCache-Control: max-age=0, s-maxage=60", true),
        ("", "200 OK\nCache-Control: max-age=60, s-maxage=0", false),
        ("", "200 OK\nCache-Control: max-age=60, no-store", false),
        ("", "200 OK\nCache-Control: max-age=60, private", false),
        ("", "200 OK\nCache-Control: max-age=60\nCache-Control: no-store", false),
        ("", "200 OK\nExpires: Thu, 31 Dec 2099 23:59:59 GMT", true),
        ("", "200 OK\nExpires: 0", false),
        ("", "200 OK\nCache-Control: max-age=60\nSet-Cookie: a=b", true),
        ("", "200 OK\nCache-Control: max-age=60\nVary: *", false),
        // The fields by which proxies describe the client are not part of a variant's key.
        ("", "200 OK\nCache-Control: max-age=60\nVary: X-Forwarded-For", false),
        ("", "200 OK\nCache-Control: max-age=60\nVary: Accept, forwarded", false),
        ("", "200 OK\nETag: \"1\"", false),
    ]);
}

#[test]
fn section_3_any_final_status_with_a_lifetime_is_stored() {
    check(&[
        ("", "201 Created\nCache-Control: max-age=60", true),
        ("", "302 Found\nLocation: /x\nCache-Control: max-age=60", true),
        ("", "404 Not Found\nCache-Control: max-age=60", true),
        ("", "500 Oops\nCache-Control: max-age=60", true),
        ("", "599 New\nCache-Control: max-age=60", true),
        ("", "206 Partial Content\nCache-Control: max-age=60", false),
        ("", "416 No\nCache-Control: max-age=60", false),
    ]);
}

#[test]
fn rfc_6585_what_concerns_one_client_is_not_stored_for_others() {
    check(&[
        ("", "428 Precondition Required\nCache-Control: max-age=60", false),
        ("", "429 Too Many Requests\nCache-Control: public, max-age=60", false),
        ("", "431 Request Header Fields Too Large\nCache-Control: max-age=60", false),
        ("", "511 Network Authentication Required\nExpires: Thu, 31 Dec 2099 23:59:59 GMT", false),
    ]);
}

#[test]
fn demands_for_credentials_are_not_stored_for_those_who_have_them() {
    check(&[
        ("", "401 Unauthorized\nWWW-Authenticate: Basic\nCache-Control: public, max-age=60", false),
        ("", "407 Proxy Authentication Required\nCache-Control: max-age=60", false),
    ]);
}

#[test]
fn answers_about_one_connection_are_not_stored_for_others() {
    check(&[
        ("", "408 Request Timeout\nCache-Control: max-age=60", false),
        ("", "421 Misdirected Request\nCache-Control: max-age=60", false),
        ("\nEarly-Data: 1", "425 Too Early\nCache-Control: public, max-age=60", false),
    ]);
}

#[test]
fn rfc_3229_a_difference_to_what_one_client_has_is_not_stored() {
    check(&[(
        "\nA-IM: feed\nIf-None-Match: \"a\"",
        "226 IM Used\nIM: feed\nETag: \"b\"\nCache-Control: max-age=60",
        false,
    )]);
}

#[test]
fn section_5_2_2_3_must_understand_overrides_no_store_when_understood() {
    check(&[
        ("", "200 OK\nCache-Control: max-age=60, must-understand, no-store", true),
        ("", "599 New\nCache-Control: max-age=60, must-understand", false),
    ]);
}

#[test]
fn section_3_5_responses_to_credentials_are_shared_only_if_allowed() {
    check(&[
        ("\nAuthorization: Basic eA==", "200 OK\nCache-Control: max-age=60", false),
        ("\nAuthorization: Basic eA==", "200 OK\nCache-Control: max-age=60, public", true),
        ("\nAuthorization: Basic eA==", "200 OK\nCache-Control: max-age=60, must-revalidate", true),
        ("\nAuthorization: Basic eA==", "200 OK\nCache-Control: s-maxage=60", true),
    ]);
}

#[test]
fn section_5_2_1_5_a_request_with_no_store_stores_nothing() {
    check(&[("\nCache-Control: no-store", "200 OK\nCache-Control: max-age=60", false)]);
}

#[test]
fn rfc_9213_targeted_fields_come_before_cache_control() {
    check(&[
        ("", "200 OK\nCDN-Cache-Control: max-age=60\nCache-Control: no-store", true),
        ("", "200 OK\nCDN-Cache-Control: no-store\nCache-Control: max-age=60", false),
        ("", "200 OK\nCDN-Cache-Control: max-age=0\nExpires: Thu, 31 Dec 2099 23:59:59 GMT", false),
        ("", "200 OK\nCDN-Cache-Control: max-age=\"x\nCache-Control: max-age=60", false),
        ("", "200 OK\nOther-Cache-Control: no-store\nCache-Control: max-age=60", true),
    ]);
}

#[test]
fn section_3_1_connection_and_no_cache_fields_are_not_stored() {
    let origin = Origin::always(
        "200 OK\nCache-Control: max-age=60, no-cache=\"secret\"\nSecret: s\n\
         Connection: hop\nHop: h\nKept: k\n\nbody",
    );
    let larder = Larder::before(&origin);
    let (first, second) = (larder.get("/"), larder.get("/"));
    assert_eq!((first.field("secret"), first.field("hop")), (Some("s"), None));
    assert!(second.is_hit());
    assert_eq!((second.field("secret"), second.field("hop"), second.field("kept")), (None, None, Some("k")));
}

#[test]
fn no_content_is_stored_without_the_fields_that_describe_it() {
    let needed =
        ["Content-Encoding", "x-a, Content-Type", "Content-Length", "Vary", "Cache-Control", "Location"];
    for (directive, hit) in [("private", "miss"), ("no-cache", "stale")] {
        for names in needed {
            let answer = format!(
                "200 OK\nCache-Control: max-age=60, {directive}=\"{names}\"\nETag: \"a\"\n\
                 Content-Encoding: gzip\nContent-Type: text/html\nVary: X-A\nLocation: /a\n\nbody"
            );
            let origin = Origin::by(move |_| answer.clone());
            let larder = Larder::before(&origin);
            larder.get("/");
            let again = larder.get("/");
            assert!(again.cache().starts_with(&format!("fwd={hit}")), "{directive} {names}: {again:?}");
            let described =
                ["content-encoding", "content-type", "vary", "location"].map(|name| again.field(name));
            assert_eq!(
                described,
                [Some("gzip"), Some("text/html"), Some("X-A"), Some("/a")],
                "{directive} {names}"
            );
        }
    }
    for name in ["Date", "Age", "Transfer-Encoding"] {
        let head =
            "HTTP/1.1 200 OK\r\nAge: 5\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60, private=";
        let origin =
            Origin::answering(move |_| Answer::raw(format!("{head}{name}\r\n\r\n4\r\nbody\r\n0\r\n\r\n")));
        let larder = Larder::before(&origin);
        larder.get("/");
        let hit = larder.get("/");
        assert_eq!((hit.is_hit(), hit.text()), (true, "body"), "{name}");
        assert!(hit.field("date").is_some() && hit.field("age") >= Some("5"), "{name}: {hit:?}");
    }
}

#[test]
fn section_2_the_whole_target_is_the_key() {
    let origin = Origin::by(|seen| {
        let host = seen.field("host").unwrap_or_default();
        format!("200 OK\nCache-Control: max-age=60\n\n{host}{}", seen.target)
    });
    let larder = Larder::before(&origin);
    for target in ["/a", "/a?", "/a?x", "/A", "/a/"] {
        for host in ["a.test", "b.test", "a.test:81"] {
            let request = format!("GET {target}\nHost: {host}");
            let expected = format!("{host}{target}");
            for hit in [false, true] {
                let response = larder.ask(&request);
                assert_eq!((response.text(), response.is_hit()), (expected.as_str(), hit), "{request}");
            }
        }
    }
}

#[test]
fn rfc_9110_section_9_3_3_store_post_allows_storing_post_responses() {
    let origin = Origin::by(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("POST", "/same") => "200 OK\nContent-Location: /same\nCache-Control: max-age=60\n\nposted".into(),
        ("POST", "/other") => "200 OK\nContent-Location: /x\nCache-Control: max-age=60\n\nposted".into(),
        _ => "200 OK\nCache-Control: max-age=60\n\ngot".into(),
    });
    let larder = Larder::with_site(&[&origin], "store_post = true");
    for (path, text) in [("/same", "posted"), ("/other", "got")] {
        assert_eq!(larder.ask(&format!("POST {path}\n\nform")).text(), "posted");
        assert_eq!(larder.get(path).text(), text);
    }
    assert_eq!(origin.count(), 3);
    let larder = Larder::before(&origin);
    assert_eq!(larder.ask("POST /same\n\nform").text(), "posted");
    assert_eq!(larder.get("/same").text(), "got");
}

#[test]
fn a_stored_post_response_is_found_again_where_rules_store_apart() {
    let origin = Origin::by(|seen| {
        let tenant = seen.field("x-tenant").unwrap_or("-");
        format!("200 OK\nContent-Location: /x\nCache-Control: max-age=60\n\n{} {tenant}", seen.method)
    });
    let rules = "store_post = true\n[[site.rule]]\nkey_fields = 'X-Tenant'\n";
    let larder = Larder::with_site(&[&origin], rules);
    assert_eq!(larder.ask("GET /x\nX-Tenant: 1").text(), "GET 1");
    assert_eq!(larder.ask("POST /x\nX-Tenant: 2\n\nform").text(), "POST 2");
    assert_eq!(larder.ask("GET /x\nX-Tenant: 2").text(), "POST 2");
    assert!(larder.ask("GET /x\nX-Tenant: 2").is_hit());
    assert!(!larder.ask("GET /x\nX-Tenant: 1").is_hit(), "it was changed");
}

#[test]
fn a_purge_of_something_else_leaves_a_post_response() {
    const POSTED: &str = "HTTP/1.1 200 OK\r\nContent-Location: /x\r\nCache-Control: max-age=60\r\nCache-Tag: own\r\n\
        Cache-Groups: \"g\"\r\nCache-Group-Invalidation: \"g\"\r\nContent-Length: 6\r\n\r\nposted";
    let (gate, origin) = Origin::gated(|seen, held| match seen.method.as_str() {
        "POST" => Answer::raw("").then_wait(held).then(POSTED),
        _ => Answer::with_body("200 OK\nCache-Control: max-age=60", b"got"),
    });
    let by_tenant = "[[site.rule]]\nkey_fields = 'X-Tenant'\n";
    for rules in ["", by_tenant] {
        let larder = Larder::with_site(&[&origin], &format!("store_post = true\n{rules}"));
        for (meanwhile, is_stored) in [
            ("tag=other", true),
            ("url=http://site.test/y", true),
            ("PUT /y\nX-Tenant: 2", true),
            ("tag=own", false),
            ("PUT /x\nX-Tenant: 2", false),
            ("url=http://site.test/x", false),
        ] {
            gate.close();
            let (mut client, asked) = (larder.client(), origin.count());
            client.send("POST /x\nX-Tenant: 1\n\nform");
            origin.wait_for(asked + 1);
            let purged = match meanwhile.starts_with("PUT") {
                true => larder.ask(meanwhile),
                false => larder.ask_admin(&format!("POST /purge?{meanwhile}\nLarder-Admin: 1")),
            };
            assert_eq!(purged.status, 200, "{purged:?}");
            gate.open();
            assert_eq!(client.receive("POST").text(), "posted");
            let found = larder.ask("GET /x\nX-Tenant: 1");
            assert_eq!(
                (found.text(), found.is_hit()),
                if is_stored { ("posted", true) } else { ("got", false) },
                "{rules} {meanwhile}"
            );
        }
    }
}

#[test]
fn a_post_response_is_not_stored_if_its_target_is_invalidated_meanwhile() {
    for meanwhile in ["PUT", "purge"] {
        let (gate, origin) = Origin::gated(|seen, held| match seen.method.as_str() {
            "POST" => Answer::raw("").then_wait(held).then(
                "HTTP/1.1 200 OK\r\nContent-Location: /x\r\nCache-Control: max-age=60\r\n\
                 Cache-Tag: t\r\nContent-Length: 3\r\n\r\nold",
            ),
            "PUT" => Answer::with_body("200 OK", b""),
            _ => Answer::with_body("200 OK", b"new"),
        });
        let larder = Larder::with_site(&[&origin], "store_post = true");
        let mut client = larder.client();
        client.send("POST /x\n\nform");
        origin.wait_for(1);
        match meanwhile {
            "PUT" => assert_eq!(larder.ask("PUT /x\n\nnew").status, 200),
            _ => assert_eq!(larder.ask_admin("POST /purge?tag=t&hard\nLarder-Admin: 1").status, 200),
        }
        gate.open();
        assert_eq!(client.receive("POST").text(), "old", "{meanwhile}");
        assert_eq!(larder.get("/x").text(), "new", "{meanwhile}");
    }
}

#[test]
fn section_4_a_head_is_answered_from_a_stored_get() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nbody");
    let larder = Larder::before(&origin);
    larder.get("/");
    let head = larder.ask("HEAD /");
    assert!(head.is_hit());
    assert_eq!((head.field("content-length"), head.body.len(), origin.count()), (Some("4"), 0, 1));
}

#[test]
fn rfc_10008_queries_pass_with_their_content_and_are_not_stored() {
    let origin =
        Origin::answering(|seen| Answer::with_body("200 OK\nCache-Control: max-age=100", &seen.body));
    let open = "[forward]\nallow_private = true\nports = '1-65535'\n";
    let larder = Larder::start(&format!("{open}{}", site(&[&origin], "")));
    let mut http2 = http2::Client::new(&larder);
    http2.authority = "site.test".to_owned();
    let forwarded = format!("{}/a", origin.url());
    larder.get("/a");
    Client::to(larder.forward).ask(&format!("GET {forwarded}"));
    for round in 0..2 {
        assert_eq!(larder.ask("QUERY /a\n\none").text(), "one");
        let stream = 2 * round + 1;
        let head = http2.head("QUERY", "/a", &[]);
        http2.send(HEADERS, END_HEADERS, stream, &head);
        http2.send(DATA, END_STREAM, stream, b"two");
        assert_eq!(http2.response(stream).body, b"two");
        assert_eq!(Client::to(larder.forward).ask(&format!("QUERY {forwarded}\n\nthree")).text(), "three");
    }
    assert!(larder.get("/a").is_hit());
    assert!(Client::to(larder.forward).ask(&format!("GET {forwarded}")).is_hit());
    assert_eq!(origin.count(), 8);
}
