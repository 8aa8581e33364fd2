//! The checks of later tasks.

use std::process::Command;
use std::time::{Duration, Instant};

use larder_testkit::{Client, Response, eventually};

use super::{AUTHORITY, Check, FOLDER, OTHER, TOKENS, compresses, cookie, hits, part, redirects, shares};

/// The checks, by the numbers of their tasks.
pub(super) const MORE: &[(usize, Check)] = &[
    (46, |larder, _| {
        assert!(compresses(larder, &format!("/type:text-html/cc:max-age=9/{}", "a".repeat(1_024))))
    }),
    (47, |larder, _| {
        let path = format!("/type:text-html/cc:max-age=9/{}", "a".repeat(256));
        assert!(compresses(larder, &path) && !compresses(larder, &format!("/api{path}")));
    }),
    (97, |larder, _| {
        let coding = |path: &str| {
            let page = format!("{path}/type:application-json/cc:no-store/{}", "a".repeat(1_024));
            let answer = larder.ask(&format!("GET {page}\nAccept-Encoding: gzip, br"));
            answer.field("content-encoding").map(str::to_owned)
        };
        assert_eq!([coding("/api"), coding("/account")], [Some("br".to_owned()), None]);
    }),
    (113, |larder, _| {
        let young = larder.get("/pad/-/pad-1.0.0.tgz");
        assert_eq!((young.status, larder.get("/own-pad/-/own-pad-1.0.0.tgz").status), (403, 200));
    }),
    (41, |larder, _| {
        let statuses = ["", "\nAuthorization: Basic YmVhOm9wZW4gc2VzYW1l", "\nAuthorization: Basic YmVhOng="]
            .map(|shown| larder.ask(&format!("GET /intern/a{shown}")).status);
        assert_eq!(statuses, [401, 200, 401]);
        assert_eq!(larder.get("/").status, 200);
    }),
    (42, |larder, _| {
        let statuses = ["", "\nAuthorization: Bearer 0123456789abcdef", "\nAuthorization: Bearer x"]
            .map(|shown| larder.ask(&format!("GET /api/a{shown}")).status);
        assert_eq!(statuses, [401, 200, 401]);
    }),
    (43, |larder, _| {
        let mut client = Client::to(larder.forward);
        assert_eq!(client.ask("GET http://www.ads.test/\nHost: www.ads.test").status, 403);
        assert_ne!(client.ask("GET http://other.invalid/\nHost: other.invalid").status, 403);
    }),
    (44, |larder, _| {
        assert_eq!([(); 3].map(|()| larder.get("/search").status), [200, 200, 429]);
        assert_eq!(larder.ask("GET /search\nX-Forwarded-For: 192.0.2.1").status, 200);
    }),
    (45, |larder, _| {
        larder.get("/cc:max-age=9");
        let statuses = ["/cc:max-age=9", "/1", "/2", "/cc:max-age=9"].map(|path| larder.get(path).status);
        assert_eq!(statuses, [200, 200, 429, 200]);
    }),
    (48, |larder, origin| {
        assert_eq!(
            [larder.get("/status:404").text(), larder.get("/status:500").text()],
            ["<p>404", "<p>5xx"]
        );
        origin.die();
        let down = larder.get("/");
        assert_eq!((down.status, down.text()), (502, "<p>5xx"));
    }),
    (49, |larder, origin| {
        let asked = "OPTIONS /api/a\nAccess-Control-Request-Method: PUT\nOrigin: https://";
        let allowed = |answer: &Response| answer.field("access-control-allow-origin").map(str::to_owned);
        let preflight = larder.ask(&format!("{asked}app.example"));
        assert_eq!((preflight.status, preflight.text(), origin.count()), (204, "", 0));
        assert_eq!(
            preflight.field("access-control-allow-methods"),
            Some("GET, HEAD, POST, PUT, PATCH, DELETE")
        );
        assert_eq!(allowed(&preflight).as_deref(), Some("https://app.example"));
        assert_eq!(allowed(&larder.ask(&format!("{asked}other.example"))), None);
        for (host, expected) in [("app.example", Some("https://app.example")), ("other.example", None)] {
            let answer = larder.ask(&format!("GET /api/cc:max-age=9\nOrigin: https://{host}"));
            assert_eq!((allowed(&answer).as_deref(), answer.field("vary")), (expected, Some("Origin")));
            assert_eq!(answer.is_hit(), expected.is_none());
        }
    }),
    (50, |larder, _| {
        let answer = larder.get("/");
        assert_eq!(answer.field("content-security-policy"), Some("frame-ancestors 'self'"));
        assert_eq!(answer.field("referrer-policy"), Some("strict-origin-when-cross-origin"));
    }),
    (52, |larder, origin| {
        larder.get("/cc:max-age=9?utm_source=a");
        larder.settle();
        let other = larder.get("/cc:max-age=9?utm_source=b");
        assert!(other.field("cache-status").is_some_and(|status| status.contains("detail=no-vary-search")));
        assert_eq!(origin.last().target, "/cc:max-age=9?utm_source=a");
        assert!(!larder.get("/cc:max-age=9?page=2").is_hit());
    }),
    (53, |larder, _| {
        let kept = larder.ask("GET /cc:max-age=9\nX-Request-Id: 7f");
        assert_eq!(kept.field("x-request-id"), Some("7f"));
        let made = larder.get("/cc:max-age=9");
        assert_eq!((made.is_hit(), made.field("x-request-id").map(str::len)), (true, Some(32)));
    }),
    (54, |larder, _| {
        let ask = || larder.ask("GET /u/cc:max-age=9?a\nHost: a.test");
        for outcome in ["miss", "hit"] {
            let answer = ask();
            assert_eq!(part(&answer, 5), "127.0.0.1 http://a.test/u/cc:max-age=9?a");
            assert_eq!(answer.field("x-cache"), Some(outcome));
            assert_eq!(answer.field("link"), Some("<https://a.test/u/cc:max-age=9>; rel=\"canonical\""));
        }
    }),
    (55, |larder, _| {
        redirects(larder, "GET /A/b?C", 301, "/a/b?C");
        assert_eq!(larder.get("/a/b?C").status, 200);
    }),
    (56, |larder, _| {
        redirects(larder, "GET /old?a", 301, "/new?a");
        redirects(larder, "GET /far", 301, "https://other.example/");
        assert_eq!(larder.get("/other").status, 200);
    }),
    (57, |larder, _| {
        assert_eq!(
            ["/a/b", "/%61/b", "/a"].map(|path| part(&larder.get(path), 5).to_owned()),
            ["alpha", "alpha", "-"]
        );
    }),
    (58, |larder, _| {
        let status = |client: &str| larder.ask(&format!("GET /\nCF-Connecting-IP: {client}")).status;
        assert_eq!(["203.0.113.9", "192.0.2.1"].map(status), [403, 200]);
    }),
    (59, |larder, origin| {
        larder.get("/npm/@types%2fnode");
        assert_eq!(origin.last().target, "/@types%2fnode");
    }),
    (60, |larder, origin| {
        assert!(shares(larder, "GET /own/cc:max-age=9", "GET /own/cc:max-age=9\nAuthorization: Basic eDp5"));
        assert_eq!(origin.last().field("authorization"), Some("Basic bGFyZGVyOnNlY3JldA=="));
        assert!(!hits(larder, "GET /cc:max-age=9\nAuthorization: Basic eDp5"));
    }),
    (61, |larder, _| {
        let answer = larder.get("/?utm_source=a&gclid=1&page=2");
        assert_eq!(part(&answer, 1), "gclid=1&page=2");
    }),
    (62, |larder, _| {
        // printf '/paid/cc:max-age=9?expires=9000000000' | openssl dgst -sha256 -hmac 0123456789abcdef
        let signature = "fe2bd0c2c705c37ad1f2b41ceeace4b1696b356bcc727b5cdd4d0255c9a42980";
        let signed = format!("GET /paid/cc:max-age=9?expires=9000000000&signature={signature}");
        assert!(hits(larder, &signed));
        assert_eq!([larder.get("/paid/cc:max-age=9").status, larder.get("/free").status], [403, 200]);
    }),
    (80, |larder, _| {
        let first = larder.get("/a");
        let cookie = cookie(&first).expect("a cookie");
        for _ in 0..4 {
            assert_eq!(larder.ask(&format!("GET /a\nCookie: {cookie}")).text(), first.text());
        }
        assert!(hits(larder, &format!("GET /cc:max-age=9\nCookie: {cookie}")));
    }),
    (81, |larder, origin| {
        assert_eq!(part(&larder.get("/a"), 0), "/a");
        origin.die();
        assert_eq!(larder.get("/a").text(), OTHER);
    }),
    (82, |larder, origin| {
        assert!((0..4).all(|_| larder.get("/a").text() != OTHER));
        assert_eq!(origin.count(), 4);
    }),
    (114, |larder, origin| {
        let at_first: Vec<_> = (0..40).map(|n| larder.get(&format!("/{n}")).text() == OTHER).collect();
        assert!(at_first.contains(&true) && at_first.contains(&false));
        let again = (0..40).map(|n| larder.get(&format!("/{n}")).text() == OTHER);
        assert!(again.eq(at_first.iter().copied()));
        assert_eq!(origin.count(), 2 * at_first.iter().filter(|is_other| !**is_other).count());
    }),
    (127, |larder, origin| {
        let part = |range: &str| larder.ask(&format!("GET /videos/a.mp4\nRange: bytes={range}"));
        assert_eq!(part("9000000-9000009").text(), "vvvvvvvvvv");
        assert_eq!(origin.last().field("range"), Some("bytes=8912896-9175039"));
        assert!(part("9100000-9175039").is_hit() && part("8912896-8913000").is_hit());
    }),
    (115, |larder, origin| {
        (0..12).for_each(|n| drop(larder.get(&format!("/status:503/{n}"))));
        assert_eq!(origin.count(), 5, "it is ejected");
        assert_eq!(larder.get("/a").text(), OTHER);
    }),
    (112, |larder, origin| {
        let answer = larder.get("/a?b");
        assert_eq!(
            (part(&answer, 2), origin.last().target.as_str()),
            ("origin.example", "http://origin.example/a?b")
        );
    }),
    (83, |larder, origin| {
        let path = "/cc:max-age=9/age:9/slow:3";
        larder.get(path);
        let stale = larder.client().ask(&format!("GET {path}"));
        assert_eq!(stale.cache(), "hit; detail=stale-if-slow");
        origin.wait_for(2);
    }),
    (84, |larder, origin| {
        let with = |bucket: &str| larder.ask(&format!("GET /cc:max-age=9\nCookie: bucket={bucket}"));
        for _ in 0..2 {
            let [stable, canary] = ["stable", "canary"].map(with);
            assert_eq!((part(&stable, 3), part(&stable, 7), canary.text()), ("-", "stable", OTHER));
        }
        assert_eq!(origin.count(), 1);
        let new = cookie(&larder.get("/cc:max-age=9")).expect("a cookie");
        assert!(["bucket=stable", "bucket=canary"].contains(&&*new), "{new}");
    }),
    (85, |larder, _| {
        let with = |value: &str| larder.ask(&format!("GET /cc:max-age=9\nCookie: beta={value}"));
        for _ in 0..2 {
            assert_eq!((part(&with("0"), 0), with("1").text()), ("/cc:max-age=9", OTHER));
        }
        assert!(with("0").is_hit());
    }),
    (86, |larder, _| {
        for _ in 0..2 {
            let begun = Instant::now();
            assert!(larder.get("/video/cc:max-age=9/long:600").body.len() > 600 << 10);
            assert!(begun.elapsed() >= Duration::from_secs(1));
        }
    }),
    (87, |larder, _| {
        let long = format!("POST /a\nContent-Length: {}", 2_u64 << 30);
        assert_eq!(larder.client().ask(&long).status, 413);
        assert_eq!((larder.get("/reports/a").status, larder.ask("POST /upload/a\n\na").status), (200, 200));
    }),
    (88, |larder, _| {
        let ask = |cookie: &str| larder.ask(&format!("GET /members/cc:max-age=9\nCookie: {cookie}"));
        let answers = ["session=good", "session=bad", "session=good; a=1"].map(ask);
        assert_eq!([answers[0].status, answers[1].status, answers[2].status], [200, 401, 200]);
        assert_eq!((answers[1].text(), answers[2].is_hit()), ("log in", true));
    }),
    (89, |larder, _| {
        let ask = |more: &str| larder.ask(&format!("GET /account/cc:max-age=9\n{more}"));
        let answer = ask("Cookie: session=good\nX-User: bob");
        assert_eq!([part(&answer, 3), part(&answer, 6)], ["-", "ann"]);
        assert_eq!((ask("Cookie: session=good").is_hit(), ask("X-User: ann").status), (true, 401));
    }),
    (90, |larder, _| {
        let allowed = ["https://a.example.com", "https://b.c.example.com", "https://example.com.evil.test"]
            .map(|page| larder.ask(&format!("GET /api/cc:max-age=9\nOrigin: {page}")))
            .map(|answer| answer.field("access-control-allow-origin").map(str::to_owned));
        assert_eq!(
            allowed.each_ref().map(Option::as_deref),
            [Some("https://a.example.com"), Some("https://b.c.example.com"), None]
        );
    }),
    (91, |larder, _| {
        assert_eq!((larder.get("/shop/").status, larder.get("/film/").text()), (200, "watch it now"));
    }),
    (92, |larder, _| assert_eq!([larder.get("/office/").status, larder.get("/").status], [503, 200])),
    (93, |larder, _| {
        let ask = |tenant: &str| larder.ask(&format!("GET /cc:max-age=9\nX-Tenant: {tenant}"));
        ["7", "8"].iter().for_each(|tenant| drop(ask(tenant)));
        assert_eq!(larder.ask("PURGE /\nCache-Tag: tenant-7").status, 200);
        assert_eq!(["7", "8"].map(|tenant| ask(tenant).is_hit()), [false, true]);
    }),
    (94, |larder, _| {
        let key = |host: &str| part(&larder.ask(&format!("GET /\nHost: {host}")), 5).to_owned();
        assert_eq!(
            ["shop.example", "Shop.Example:8080", "a.example"].map(key),
            ["tenant-1", "tenant-1", "-"]
        );
    }),
    (95, |larder, _| {
        // printf '/paid/cc:max-age=9/9000000000' | openssl dgst -sha256 -hmac 0123456789abcdef
        let signature = "b75981a7b84f034ab805b2d9afa1b11e1939d15a42fa75376e33dc40ce3195a2";
        assert!(hits(larder, &format!("GET /paid/cc:max-age=9/9000000000/{signature}")));
        let forged = format!("/paid/cc:max-age=10/9000000000/{signature}");
        assert_eq!([larder.get("/paid/cc:max-age=9").status, larder.get(&forged).status], [403, 403]);
    }),
    (96, |larder, _| {
        let all = ["/img/cc:max-age=9/a.png", "/img/cc:max-age=9/a.jpg"];
        all.iter().for_each(|path| drop(larder.get(path)));
        assert_eq!(larder.ask("PURGE /img/*.png\nLarder-Purge: glob").status, 200);
        assert_eq!(all.map(|path| larder.get(path).is_hit()), [false, true]);
    }),
    (98, |larder, _| {
        let statuses = [
            "".to_owned(),
            format!("\nAuthorization: Bearer {}", TOKENS[0]),
            "\nAuthorization: Bearer x".to_owned(),
        ]
        .map(|shown| larder.ask(&format!("GET /members/cc:max-age=9{shown}")).status);
        assert_eq!(statuses, [401, 200, 401]);
        assert!(hits(larder, &format!("GET /members/cc:max-age=9\nAuthorization: Bearer {}", TOKENS[1])));
    }),
    (99, |larder, _| {
        let ask = |path, token| larder.ask(&format!("GET {path}\nAuthorization: Bearer {token}"));
        assert_eq!(TOKENS.map(|token| ask("/app/admin/a", token).status), [403, 200]);
        let page = |token| [(); 2].map(|()| ask("/app/cc:max-age=9", token).is_hit());
        assert_eq!(TOKENS.map(page), [[false, true], [false, false]]);
    }),
    (100, |larder, _| {
        let (ann, port) = (AUTHORITY.pair("ann", &[]), larder.door("reverse, TLS").port());
        let status = |path: &str, words: &[&str]| {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--noproxy", "*"]);
            curl.args(["--cacert", &AUTHORITY.file(), "--resolve", &format!("site.test:{port}:127.0.0.1")]);
            curl.args(words).arg(format!("https://site.test:{port}{path}"));
            String::from_utf8_lossy(&curl.output().expect("curl").stdout).into_owned()
        };
        let [cert, key] = [&ann.cert, &ann.key].map(|file| file.display().to_string());
        assert_eq!([status("/", &[]), status("/intern/a", &[])], ["200", "403"]);
        assert_eq!(status("/intern/a", &["--cert", &cert, "--key", &key]), "200");
    }),
    (101, |larder, _| {
        let begun = Instant::now();
        let mut both = [larder.client(), larder.client()];
        both.iter_mut().for_each(|client| client.send("GET /download/long:150"));
        both.iter_mut().for_each(|client| assert_eq!(client.receive("GET").status, 200));
        assert!(begun.elapsed() > Duration::from_millis(300), "{:?}", begun.elapsed());
    }),
    (102, |larder, _| {
        // Without the rule, each takes the 5 seconds of the default, on any machine.
        eventually("an early 504", || {
            let begun = Instant::now();
            assert_eq!(larder.get("/live/a").status, 504);
            (begun.elapsed() < Duration::from_secs(5)).then_some(())
        });
    }),
    (103, |larder, _| {
        let ask = |tenant: usize| larder.ask(&format!("GET /cc:max-age=9\nX-Tenant: {tenant}"));
        (0..40).for_each(|tenant| drop(ask(tenant)));
        assert!((0..40).all(|tenant| ask(tenant).is_hit()));
    }),
    (104, |larder, _| {
        larder.get("/health");
        larder.get("/other");
        let log = eventually("a line of the log", || {
            let text = std::fs::read_to_string(FOLDER.path().join("access.log")).expect("a file");
            text.contains("/other").then_some(text)
        });
        assert!(!log.contains("/health"), "{log}");
    }),
    (105, |larder, _| redirects(larder, "GET /a%2Fb/", 301, "http://site.test/a%2Fb")),
    (106, |larder, _| {
        let robots =
            |host: &str| larder.ask(&format!("GET /\nHost: {host}")).field("x-robots-tag").map(str::to_owned);
        assert_eq!([robots("staging.test"), robots("www.test")], [Some("noindex".to_owned()), None]);
    }),
    (107, |larder, _| {
        assert_eq!(
            ["site.test", "10.0.0.1"].map(|host| larder.ask(&format!("GET /\nHost: {host}")).status),
            [200, 421]
        );
    }),
    (108, |larder, _| {
        let statuses = ["", "\nReferer: https://site.test/a", "\nReferer: https://other.test/"]
            .map(|field| larder.ask(&format!("GET /img/a{field}")).status);
        assert_eq!(statuses, [200, 200, 403]);
    }),
    (109, |larder, _| {
        let statuses = ["10.1.2.3", "192.0.2.1"]
            .map(|client| larder.ask(&format!("GET /\nX-Forwarded-For: {client}")).status);
        assert_eq!(statuses, [200, 401]);
    }),
    (110, |larder, _| {
        assert_eq!([(); 3].map(|()| larder.get("/cc:max-age=9").is_hit()), [false, false, true]);
    }),
    (111, |larder, _| {
        let own = |path: &str| larder.get(path).field("cache-control").map(str::to_owned);
        assert_eq!(
            [own("/a"), own("/cc:max-age=9")],
            [Some("max-age=60".to_owned()), Some("max-age=9".to_owned())]
        );
    }),
    (116, |larder, origin| {
        assert!(hits(larder, "GET /cc:max-age=9"));
        assert!(!larder.ask("GET /cc:max-age=9\nX-Refresh: 1").is_hit());
        assert_eq!((larder.get("/cc:max-age=9").is_hit(), origin.count()), (true, 2));
    }),
    (117, |larder, _| {
        let [a, b] = ["a", "b"].map(|agent| format!("GET /static/vary:accept/cc:max-age=9\nAccept: {agent}"));
        assert!(shares(larder, &a, &b));
        assert!(!shares(larder, &a.replace("static", "other"), &b.replace("static", "other")));
    }),
    (118, |larder, _| {
        let [ann, bea] = ["ann", "bea"].map(|user| format!("GET /api/cc:max-age=9\nAuthorization: {user}"));
        assert!(hits(larder, &ann));
        assert!(!larder.ask(&bea).is_hit());
    }),
    (119, |larder, _| {
        let ask = |language: &str| format!("GET /cc:max-age=9\nAccept-Language: {language}");
        assert!(shares(larder, &ask("de-AT, en;q=0.5"), &ask("de")));
        let class = |own: &str| part(&larder.ask(&ask(own)), 4).to_owned();
        assert_eq!(["fr, de", "es", "de"].map(class), ["fr", "en", "de"]);
    }),
    (120, |larder, _| {
        let ask = |cookie: &str| format!("GET /cc:max-age=9\nCookie: {cookie}");
        assert!(shares(larder, &ask("session=1"), &ask("a=b; session=2")));
        assert!(!larder.ask(&ask("a=b")).is_hit());
    }),
    (121, |larder, _| {
        let shown = ["10.1.2.3", "192.0.2.1"].map(|client| {
            let answer = larder.ask(&format!("GET /\nX-Forwarded-For: {client}"));
            ["via", "cache-status", "server"].map(|name| answer.field(name).is_some())
        });
        assert_eq!(shown, [[true; 3], [false; 3]]);
    }),
    (122, |larder, origin| {
        larder.get("/");
        assert_eq!(origin.last().field("x-forwarded-proto"), Some("https"));
    }),
    (123, |larder, _| {
        (0..20).for_each(|number| drop(larder.get(&format!("/{number}"))));
        larder.get("/status:404");
        let log = eventually("a line of the log", || {
            let text = std::fs::read_to_string(FOLDER.path().join("access.log")).expect("a file");
            text.contains("/status:404").then_some(text)
        });
        assert!(log.lines().count() < 20, "{log}");
    }),
    (124, |larder, _| {
        assert_eq!(larder.get("/status:404/cc:max-age=9").text(), OTHER);
        assert_eq!(part(&larder.get("/a"), 0), "/a");
    }),
    (125, |larder, _| {
        assert_eq!(part(&larder.ask("GET /a?b\nHost: one.site.test"), 0), "/sites/one/a");
    }),
    (126, |larder, _| {
        let asked = |path: &str| part(&larder.get(path), 0).to_owned();
        assert_eq!(["/users/7", "/app.js"].map(asked), ["/index.html", "/app.js"]);
    }),
    (51, |larder, origin| {
        let answer = larder.get("/api/users?page=2");
        assert_eq!(
            [part(&answer, 0), part(&answer, 1), part(&answer, 2)],
            ["/v1/users", "page=2", "api.internal"]
        );
        assert_eq!((larder.get("/a").status, origin.last().target), (200, "/a".to_owned()));
    }),
];
