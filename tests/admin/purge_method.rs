//! `PURGE` on a site's listener: the clients that may send it, and the entries that it removes.

use larder_testkit::{Client, Larder, Origin, Response, site};

const TOKEN: &str = "0123456789abcdef";
const FROM_HERE: &str = "purge_from = ['127.0.0.1', '10.0.0.0/8']";

fn origin() -> Origin {
    Origin::by(|seen| {
        let class = seen.target.chars().last().unwrap_or_default();
        format!(
            "200 OK\nCache-Control: max-age=100\nETag: \"1\"\nxkey: all,t{class}\nCache-Groups: \"g{class}\"\n\nbody"
        )
    })
}

fn reached(answer: &Response) -> u64 {
    let answer = answer.json();
    answer["objects"].as_u64().expect("a number")
}

#[test]
fn fields_say_what_goes_besides_the_target() {
    let origin = origin();
    let larder = Larder::with_site(&[&origin], FROM_HERE);
    let all = ["/a/1", "/a/2", "/b/1"];
    let table: [(&str, &[&str]); 18] = [
        ("/a/1", &["/a/1"]),
        ("/none", &[]),
        ("/a/\nLarder-Purge: prefix", &["/a/1", "/a/2"]),
        ("/a*1\nLarder-Purge: glob", &["/a/1"]),
        ("/*/1\nLarder-Purge: glob, hard", &["/a/1", "/b/1"]),
        ("/a/1*1\nLarder-Purge: glob", &[]),
        ("/none\nLarder-Purge: host, hard", &all),
        ("/\nxkey: t1", &["/a/1", "/b/1"]),
        ("/\nCache-Tag: t1, t2\nLarder-Purge: hard", &all),
        ("/\nxkey: t3,t2", &["/a/2"]),
        ("/\nSurrogate-Key: t2 t3", &["/a/2"]),
        ("/\nSurrogate-Key: t2, t3", &["/a/2"]),
        ("/\nCache-Groups: \"g1\"", &["/a/1", "/b/1"]),
        ("/.*\nX-Purge-Method: regex", &all),
        ("/a/.*\nX-Purge-Method: regex", &["/a/1", "/a/2"]),
        ("/a/1\nX-Purge-Method: default", &["/a/1"]),
        ("/a/1\nX-Purge-Method: exact", &["/a/1"]),
        ("/a/.*", &[]),
    ];
    for (request, expected) in table {
        all.iter().for_each(|path| drop(larder.get(path)));
        // A field may be sent in several lines.
        let answer = larder.ask(&format!("PURGE {request}\nLarder-Purge: count"));
        assert_eq!((answer.status, reached(&answer)), (200, expected.len() as u64), "{request}");
        let missed = all.into_iter().filter(|path| !larder.get(path).is_hit());
        assert_eq!(missed.collect::<Vec<_>>(), expected, "{request}");
    }
    for wrong in [
        "/a\nLarder-Purge: prefixes",
        "/a\nLarder-Purge: soft, hard",
        "/a\nxkey: b\nLarder-Purge: prefix",
        "/a\nLarder-Purge: glob",
        "/*/*\nLarder-Purge: glob",
        "/a\nCache-Groups: bare",
        "/a\nxkey: ",
        "/a\nX-Purge-Method: regex",
        "/a/.*\nX-Purge-Method: ban-regex",
        "/a/.*\nX-Purge-Method: regex\nLarder-Purge: glob",
        "/\nX-Magento-Tags-Pattern: ((^|,)t1(,|$))",
        "/\nCache-Tags: t1",
    ] {
        let answer = larder.ask(&format!("PURGE {wrong}"));
        assert_eq!((answer.status, answer.text().lines().count()), (400, 1), "{wrong}");
    }
}

#[test]
fn only_those_whom_the_site_names_may_purge() {
    let origin = origin();
    let larder = Larder::with_site(&[&origin], "purge_from = ['10.0.0.0/8', '::1']");
    larder.get("/page");
    let refused = larder.ask("PURGE /page\nX-Forwarded-For: 10.0.0.1");
    assert_eq!((refused.status, refused.text().lines().count()), (403, 1));
    let why =
        "127.0.0.1 may not purge: it is not in purge_from of the site, and did not send the admin token";
    assert!(refused.text().contains(why), "{refused:?}");
    assert!(larder.get("/page").is_hit());
    assert_eq!(origin.count(), 1, "the origin got no other request");
}

#[test]
fn without_allowed_clients_it_is_off() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let refused = larder.ask("PURGE /page");
    assert_eq!((refused.status, origin.count()), (405, 0));
    assert!(refused.text().starts_with("405: PURGE is off here; list"), "{refused:?}");
    // RFC 9110 section 15.5.6.
    assert!(refused.field("allow").is_some_and(|methods| methods.starts_with("GET, HEAD, ")), "{refused:?}");
}

#[test]
fn the_admin_token_is_as_good() {
    let origin = origin();
    let larder = Larder::start(&format!("admin_token = '{TOKEN}'\n{}", site(&[&origin], "")));
    larder.get("/page");
    assert_eq!(larder.ask("PURGE /page\nAuthorization: Bearer fedcba9876543210").status, 403);
    assert_eq!(larder.ask("PURGE /page").status, 403);
    assert!(larder.get("/page").is_hit());
    assert_eq!(larder.ask(&format!("PURGE /page\nAuthorization: Bearer {TOKEN}")).status, 200);
    assert!(!larder.get("/page").is_hit());
}

#[test]
fn a_forward_proxy_passes_it_on() {
    let origin = origin();
    let larder = Larder::start("[forward]\nallow_private = true");
    let answer = Client::to(larder.forward).ask(&format!("PURGE {}/page", origin.url()));
    assert_eq!((answer.status, origin.last().method), (200, "PURGE".to_owned()));
}

#[test]
fn a_purge_of_a_url_reaches_its_pages_for_http_and_https() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let config = site(&[&origin], "hosts = 'site.test'\npurge_from = '127.0.0.1'");
    let larder = Larder::start(&format!("trust = '127.0.0.1'\n{config}"));
    let over = |scheme: &str| larder.ask(&format!("GET /a\nX-Forwarded-Proto: {scheme}"));
    for (purge, reaches) in [("PURGE /a", 2), ("PURGE /\nLarder-Purge: prefix, count", 2), ("PURGE /b", 0)] {
        ["http", "https"].iter().for_each(|scheme| drop(over(scheme)));
        assert_eq!(reached(&larder.ask(purge)), reaches, "{purge}");
    }
}
