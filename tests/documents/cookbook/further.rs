//! The checks of tasks that several servers do in their own ways: addresses of pages, cookies, crawlers, limits.

use std::process::Command;
use std::time::{Duration, Instant};

use larder_testkit::{Client, Larder, Pair, Response, eventually};

use super::{AUTHORITY, Check, FOLDER, OTHER, hits, lifetime, part, redirects};

fn set_cookie(answer: &Response) -> &str {
    answer.field("set-cookie").unwrap_or_default()
}

/// Checks that each client has one origin for all of its pages in `folder`, and not all clients the same.
fn stays_at_one_origin(larder: &Larder, folder: &str) {
    let is_other = |client: u8, page: u8| {
        let asked = format!("GET {folder}/{client}/{page}\nX-Forwarded-For: 192.0.2.{client}");
        larder.ask(&asked).text() == OTHER
    };
    let origins: Vec<_> = (0..16).map(|client| [0, 1, 2].map(|page| is_other(client, page))).collect();
    assert!(origins.iter().all(|all| all.iter().all(|own| *own == all[0])), "{origins:?}");
    assert!(origins.contains(&[true; 3]) && origins.contains(&[false; 3]));
}

/// The checks, by the numbers of their tasks.
pub(super) const FURTHER: &[(usize, Check)] = &[
    (128, |larder, _| {
        redirects(larder, "GET /article.php?a=b&id=55", 301, "/articles/55");
        redirects(larder, "GET /article.php?id=//evil.test", 301, "/articles///evil.test");
        assert_eq!(larder.get("/article.php?id=").status, 200);
    }),
    (129, |larder, _| {
        redirects(larder, "GET /a?b\nHost: www.shop.test", 301, "https://shop.test/a?b");
        assert_eq!(larder.ask("GET /\nHost: shop.test").status, 200);
    }),
    (130, |larder, _| {
        redirects(larder, "GET /docs/index.html?a", 301, "/docs/?a");
        redirects(larder, "GET /index.html", 301, "/");
        redirects(larder, "GET //evil.test/index.html", 301, "/evil.test/");
    }),
    (131, |larder, origin| {
        for (path, asked) in [("/", "/index.html"), ("/a/", "/a/index.html"), ("/a/b?c", "/a/b/index.html?c")]
        {
            larder.get(path);
            assert_eq!(origin.last().target, asked);
        }
        assert_eq!(part(&larder.get("/a.css"), 0), "/a.css");
    }),
    (132, |larder, _| {
        let page = larder.get("/status:404/a");
        assert_eq!(
            (page.status, page.text(), page.field("content-type")),
            (200, "<p>404", Some("text/html; charset=utf-8"))
        );
        assert_eq!(larder.get("/api/status:404").status, 404);
    }),
    (133, |larder, _| {
        assert_eq!(set_cookie(&larder.get("/cookie:a")), "session=abcdef; Secure; HttpOnly; SameSite=Lax");
    }),
    (134, |larder, _| {
        assert_eq!(
            [larder.get("/a").text(), larder.ask("POST /a\n\nx").text()].map(|text| text == OTHER),
            [false, true]
        );
        assert!(hits(larder, "GET /cc:max-age=9"));
    }),
    (135, |larder, _| {
        let texts = ["/?version=2", "/?version=1"].map(|path| larder.get(path).text() == OTHER);
        assert_eq!(texts, [true, false]);
    }),
    (136, |larder, _| {
        let with = |key: &str| larder.get(&format!("/api/a?key={key}")).status;
        assert_eq!([with("1"), with("1"), with("%31"), with("2")], [200, 200, 429, 200]);
    }),
    (137, |larder, _| {
        let statuses = [(); 6].map(|()| larder.ask("POST /login\n\nx").status);
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
        assert_eq!(
            (larder.get("/login").status, larder.ask("POST /login\nX-Forwarded-For: 10.0.0.1\n\nx").status),
            (200, 200)
        );
    }),
    (138, |larder, _| {
        assert_eq!(larder.ask("GET /ip\nX-Forwarded-For: 192.0.2.7").text(), "{\"ip\": \"192.0.2.7\"}\n")
    }),
    (139, |larder, origin| {
        larder.get("/");
        let begun = origin.last().field("x-request-start").map(str::to_owned).expect("a time");
        assert!(
            begun.strip_prefix("t=").is_some_and(|time| time.parse::<f64>().is_ok_and(|time| time > 1e9)),
            "{begun}"
        );
    }),
    (140, |larder, origin| {
        let ask = |accept: &str| larder.ask(&format!("GET /img/cc:max-age=9/a.jpg\nAccept: {accept}"));
        ask("image/webp,*/*");
        assert_eq!(origin.last().target, "/img/cc:max-age=9/a.webp");
        ask("*/*");
        assert_eq!(origin.last().target, "/img/cc:max-age=9/a.jpg");
        assert!(ask("image/webp").is_hit() && ask("image/*").is_hit());
    }),
    (141, |larder, _| {
        assert!(!hits(larder, "GET /type:text-html/cc:max-age=9/a.css"));
        assert!(hits(larder, "GET /type:text-css/cc:max-age=9/a.css"));
    }),
    (142, |larder, _| {
        let crawler = larder.ask("GET /a?b\nUser-Agent: Googlebot/2.1");
        assert_eq!(
            (crawler.text(), larder.ask("GET /a?b\nUser-Agent: Browser").text() == OTHER),
            (OTHER, false)
        );
        assert_ne!(larder.ask("GET /a.js\nUser-Agent: Googlebot/2.1").text(), OTHER);
    }),
    (143, |larder, origin| {
        assert_eq!([larder.get("/").status, larder.ask("GET /\nX-Edge-Key: guess").status], [403, 403]);
        assert_eq!(larder.ask("GET /\nX-Edge-Key: a long random text").status, 200);
        assert_eq!(origin.last().field("x-edge-key"), None);
    }),
    (144, |larder, _| {
        let long = larder.get("/app.0a1b2c3d.js");
        assert_eq!(long.field("cache-control"), Some("public, max-age=31536000, immutable"));
        assert!(larder.get("/app.0a1b2c3d.js").is_hit() && !hits(larder, "GET /app.js"));
    }),
    (145, |larder, _| {
        assert!(!hits(larder, "GET /cc:max-age=9/cookie:a") && hits(larder, "GET /cc:max-age=9"))
    }),
    (146, |larder, _| {
        let mut client = Client::to(larder.forward);
        let refused = client.ask("GET http://ads.test/\nHost: ads.test");
        assert_eq!((refused.status, refused.text()), (403, "ask the help desk for this site\n"));
        assert_ne!(client.ask("GET http://docs.invalid/\nHost: docs.invalid").status, 403);
    }),
    (147, |larder, _| {
        let mut client = Client::to(larder.forward);
        assert_eq!(client.ask("GET http://www.ads.test/\nHost: www.ads.test").status, 403);
    }),
    (148, |larder, _| {
        let statuses = ["a=1+UNION+SELECT+2", "a=%3Cscript%3E", "a=union"]
            .map(|query| larder.ask(&format!("GET /?{query}\nUser-Agent: a")).status);
        assert_eq!(statuses, [403, 403, 200]);
        assert_eq!(
            (larder.ask("GET /\nUser-Agent: ").status, larder.ask("GET /\nUser-Agent: a").status),
            (403, 200)
        );
    }),
    (149, |larder, _| {
        let vary = |path: &str| larder.get(&format!("{path}/cc:max-age=9")).field("vary").map(str::to_owned);
        assert_eq!([vary(""), vary("/static")], [Some("Cookie".to_owned()), None]);
        assert!(!larder.ask("GET /static/cc:max-age=9\nCookie: lang=de").is_hit());
    }),
    (150, |larder, origin| {
        let purge = "POST /purge?tag=t\nLarder-Admin: 1\nAuthorization: Bearer 0123456789abcdef";
        larder.ask_admin(purge);
        let seen = origin.last();
        assert_eq!(
            (seen.method.as_str(), seen.field("authorization")),
            ("POST", Some("Bearer 0123456789abcdef"))
        );
        assert!(
            seen.target.starts_with("/purge?tag=t") && seen.target.contains("of_shield"),
            "{}",
            seen.target
        );
    }),
    (151, |larder, origin| {
        assert_eq!(larder.get("/status:503/a").status, 503);
        let line = format!(
            "larder_origin_responses_total{{site=\"site1\",origin=\"{}\",code=\"503\"}} 1\n",
            origin.url()
        );
        let page = larder.ask_admin("GET /metrics").text().to_owned();
        assert!(page.contains(&line), "{line}{page}");
    }),
    (152, |larder, origin| {
        let stale = "GET /cc:max-age=9/age:20";
        assert_eq!((larder.ask(stale).status, origin.count()), (504, 0));
        assert_eq!(larder.ask(&format!("{stale}\nX-Forwarded-For: 10.0.0.1")).status, 200);
        assert_eq!((larder.ask(stale).status, larder.get("/other").status, origin.count()), (200, 504, 1));
    }),
    (153, |larder, _| {
        assert_eq!(larder.get("/health").text(), "ok\n");
        redirects(larder, "GET /a?b\nHost: site.test", 308, "https://site.test/a?b");
    }),
    (154, |larder, _| {
        let log = FOLDER.path().join("access.log");
        ["/fast", "/slow:1/a", "/status:500/a"].iter().for_each(|path| drop(larder.get(path)));
        let lines = eventually("the last line", || {
            Some(std::fs::read_to_string(&log).expect("a log")).filter(|text| text.contains("/status:500/a"))
        });
        assert!(!lines.contains("/fast") && lines.contains("/slow:1/a"), "{lines}");
    }),
    (155, |larder, _| {
        let both = |path: &str| {
            let begun = Instant::now();
            let mut both = [larder.client(), larder.client()];
            for (client, own) in both.iter_mut().zip(["192.0.2.1", "198.51.100.1"]) {
                client.send(&format!("GET {path}\nX-Forwarded-For: {own}"));
            }
            both.iter_mut().for_each(|client| assert_eq!(client.receive("GET").status, 200));
            begun.elapsed()
        };
        // One of them alone would take 0.2 s. A busy machine delays those without a limit, too.
        eventually("the limit to be the cause", || {
            let (free, limited) = (both("/long:3072"), both("/download/long:3072"));
            assert!(limited > Duration::from_millis(400), "{limited:?}");
            (free < limited / 2).then_some(())
        });
    }),
    (156, |larder, _| {
        for (language, location) in [("de-AT,en", "/de/"), ("en,de", "/en/")] {
            let answer = larder.ask(&format!("GET /\nAccept-Language: {language}"));
            assert_eq!(
                (answer.field("location"), answer.field("vary")),
                (Some(location), Some("Accept-Language"))
            );
        }
    }),
    (157, |larder, _| {
        let shown = larder.get("/download/2026/a%20b.pdf").field("content-disposition").map(str::to_owned);
        assert_eq!(shown.as_deref(), Some("attachment; filename=\"a%20b.pdf\""));
    }),
    (158, |larder, _| {
        let field = |host: &str| {
            larder.ask(&format!("GET /\nHost: {host}")).field("x-frame-options").map(str::to_owned)
        };
        assert_eq!(["site.test", "other.test"].map(field), [(); 2].map(|()| Some("SAMEORIGIN".to_owned())));
    }),
    (159, |larder, _| {
        let status = |agent: &str| larder.ask(&format!("GET /\nUser-Agent: {agent}")).status;
        assert_eq!(["a GPTBot/1", "CCBot/2", "Browser"].map(status), [403, 403, 200]);
    }),
    (160, |larder, _| {
        let status = |field: &str| larder.ask(&format!("GET /api/a\n{field}")).status;
        assert_eq!(["A: b", "X-Api-Key: 0", "X-Api-Key: fedcba9876543210"].map(status), [401, 401, 200]);
    }),
    (161, |larder, _| assert_eq!(part(&larder.get("/"), 5), "a long random text")),
    (162, |larder, _| stays_at_one_origin(larder, "")),
    (163, |larder, _| {
        let page = "GET /intern/cc:max-age=9\nX-User: ann\nAuthorization: Basic YmVhOm9wZW4gc2VzYW1l";
        assert_eq!(part(&larder.ask(page), 6), "bea");
        assert!(larder.ask(page).is_hit());
        assert_eq!(part(&larder.ask("GET /\nX-User: ann"), 6), "-");
    }),
    (164, |larder, origin| {
        let ([ann, bea], port) =
            (["ann", "bea"].map(|name| AUTHORITY.pair(name, &[])), larder.door("reverse, TLS").port());
        let user = |words: &[&str]| {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--noproxy", "*", "--cacert", &AUTHORITY.file()]);
            curl.args(["--resolve", &format!("site.test:{port}:127.0.0.1")]).args(words);
            let page =
                curl.arg(format!("https://site.test:{port}/cc:max-age=9")).output().expect("curl").stdout;
            String::from_utf8_lossy(&page).split('|').nth(6).unwrap_or_default().to_owned()
        };
        let by = |pair: &Pair| {
            let [cert, key] = [&pair.cert, &pair.key].map(|file| file.display().to_string());
            user(&["--cert", &cert, "--key", &key])
        };
        assert_eq!([by(&ann), by(&bea), user(&[]), by(&ann)], ["CN=ann", "CN=bea", "", "CN=ann"]);
        // The two pages of ann are one of them.
        assert_eq!(origin.count(), 3);
    }),
    (165, |larder, _| {
        assert_eq!(["/gone", "/%67one", "/other"].map(|path| larder.get(path).status), [410, 410, 200]);
    }),
    (166, |larder, _| {
        assert_eq!(larder.get("/").status, 200);
        std::fs::write(FOLDER.path().join("closed.txt"), "0.0.0.0/0\n").expect("written");
        eventually("the file to be read", || (larder.get("/").status == 503).then_some(()));
    }),
    (167, |larder, origin| {
        let page = || larder.get("/cc:max-age=9");
        // A busy machine takes longer than the lifetime for two requests.
        eventually("a hit", || page().is_hit().then_some(()));
        assert!(!hits(larder, "GET /a\nCookie: session=1"));
        let before = origin.count();
        eventually("a stale page, and the origin's next", || {
            (page().cache().contains("stale-while-revalidate") && origin.count() > before).then_some(())
        });
    }),
    (168, |larder, _| {
        redirects(larder, "GET /a?b=1&utm_source=c&gclid=d", 302, "/a?b=1");
        assert_eq!(larder.get("/a?b=1").status, 200);
    }),
    (169, |larder, origin| {
        for (path, asked) in [("/product/7?a=b", "id=7&a=b"), ("/product/7", "id=7")] {
            larder.get(path);
            assert_eq!(origin.last().target, format!("/product.php?{asked}"));
        }
    }),
    (170, |larder, _| {
        let status = |query: &str, field: &str| larder.ask(&format!("GET /api/a{query}\n{field}")).status;
        let key = "0123456789abcdef";
        assert_eq!([status("", "A: b"), status("?key=no", "X-Api-Key: no")], [401, 401]);
        assert_eq!(
            [status("", &format!("X-Api-Key: {key}")), status(&format!("?key={key}"), "A: b")],
            [200, 200]
        );
    }),
    (171, |larder, _| {
        let is_other = |host: &str| larder.ask(&format!("GET /\nHost: {host}")).text() == OTHER;
        assert_eq!(["two.test", "THREE.test:80", "four.test"].map(is_other), [false, true, false]);
    }),
    (172, |larder, _| {
        larder.get("/cc:max-age=9");
        larder.settle();
        let mut first = larder.client();
        let begun = Instant::now();
        first.send("GET /slow:1/a");
        eventually("the first to be at the origin", || (larder.stats()["in_flight"] == 1).then_some(()));
        let hit = larder.get("/cc:max-age=9");
        assert_eq!(hit.cache(), "hit", "after {:?}", begun.elapsed());
        assert_eq!(larder.ask("GET /b\nX-Forwarded-For: 192.0.2.1").status, 200);
        assert!(begun.elapsed() >= Duration::from_millis(900), "it did not wait: {:?}", begun.elapsed());
        assert_eq!(first.receive("GET").status, 200);
    }),
    (173, |larder, origin| {
        // printf '/video/9000000000/' | openssl dgst -sha256 -hmac 0123456789abcdef
        let folder = "/video/9000000000/d9d9916d82989034c30b666b0610b4c2183a3cd63aa68d2d6d17b40bf729d6bd";
        for part in ["/cc:max-age=9/a.ts", "/cc:max-age=9/b.ts"] {
            assert!(hits(larder, &format!("GET {folder}{part}")));
            assert_eq!(origin.last().target, format!("/video{part}"));
        }
        let later = folder.replace("9000000000", "9000000001");
        let statuses =
            [folder, &later, "/video", "/other"].map(|path| larder.get(&format!("{path}/a.ts")).status);
        assert_eq!(statuses, [200, 403, 403, 200]);
    }),
    (174, |larder, _| {
        let link = "/paid/a?expires=9000000000";
        // printf '/paid/a?expires=9000000000 192.0.2.1' | openssl dgst -sha256 -hmac 0123456789abcdef
        let signature = "48447c21a571c60bb4ac9f6ec0668e3ce6eb5601964f3d82a3e4cb2554b44eed";
        let signed = format!("GET {link}&signature={signature}\nX-Forwarded-For: ");
        let statuses =
            ["192.0.2.1", "192.0.2.2"].map(|client| larder.ask(&format!("{signed}{client}")).status);
        assert_eq!(statuses, [200, 403]);
    }),
    (175, |larder, _| {
        let log = FOLDER.path().join("access.log");
        ["/cc:max-age=9/seen", "/cc:max-age=9/seen", "/last"].iter().for_each(|path| drop(larder.get(path)));
        let lines = eventually("the last line", || {
            Some(std::fs::read_to_string(&log).expect("a log")).filter(|text| text.contains("/last"))
        });
        assert_eq!(lines.matches("/seen").count(), 1, "{lines}");
    }),
    (176, |larder, _| assert_eq!(set_cookie(&larder.get("/cookie:a")), "session=abcdef; HttpOnly")),
    (177, |larder, origin| {
        let coding = |codings: &str| {
            larder.ask(&format!("GET /vary:Accept-Encoding/cc:max-age=9\nAccept-Encoding: {codings}"));
            origin.last().field("accept-encoding").map(str::to_owned)
        };
        let seen = ["gzip, deflate, br", "gzip, br;q=0.9", "gzip"].map(coding);
        assert_eq!(seen, ["br", "br", "gzip"].map(|own| Some(own.to_owned())));
        assert_eq!(origin.count(), 2);
    }),
    (178, |larder, _| {
        redirects(larder, "GET /", 302, "/welcome");
        assert_eq!(set_cookie(&larder.get("/")), "seen=1; Path=/; Max-Age=31536000");
        assert_eq!([larder.ask("GET /\nCookie: seen=1").status, larder.get("/welcome").status], [200, 200]);
    }),
    (179, |larder, _| assert_eq!(lifetime(larder, "/a.deb"), Some(30 * 86_400))),
    (180, |larder, origin| {
        let ask = |user: &str| larder.ask(&format!("GET /cc:max-age=9\nCookie: token={user}"));
        for user in ["ann", "bea"] {
            assert_eq!(ask(user).field("vary"), Some("Cookie"));
            assert_eq!(origin.last().field("authorization"), Some(&*format!("Bearer {user}")));
        }
        assert_eq!((ask("ann").is_hit(), ask("bea").is_hit(), origin.count()), (true, true, 2));
    }),
    (181, |larder, _| stays_at_one_origin(larder, "/app")),
];
