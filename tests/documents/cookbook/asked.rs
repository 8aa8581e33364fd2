//! The checks of tasks that operators of other programs ask for.

use std::time::{Duration, Instant};

use larder_testkit::{Client, eventually};

use super::{Check, OTHER, hits, lifetime, redirects};

/// The checks, by the numbers of their tasks.
pub(super) const ASKED: &[(usize, Check)] = &[
    (182, |larder, origin| {
        let shown = || {
            let answer = larder.get("/cc:max-age=9");
            ["x-origin", "server-timing"].map(|name| answer.field(name).unwrap_or("-").to_owned())
        };
        let [name, timing] = shown();
        assert_eq!(name, origin.address.to_string());
        assert!(
            timing.starts_with("cache;desc=miss, origin;dur=") && !timing.ends_with("=0.000"),
            "{timing}"
        );
        assert_eq!(shown(), ["", "cache;desc=hit, origin;dur=0.000"]);
    }),
    (183, |larder, _| {
        // The other origin, which is checked last, answers 200.
        let is_well = |at: usize| larder.stats()["sites"][0]["origins"][at]["healthy"].as_bool();
        eventually("the checks", || is_well(1));
        assert_eq!([is_well(0), is_well(1)], [Some(true); 2]);
        let texts = ["/a", "/b"].map(|path| larder.get(path).text() == OTHER);
        assert!(texts.contains(&true) && texts.contains(&false));
    }),
    (184, |larder, _| {
        redirects(larder, "GET /a?b\nHost: www.old.test", 301, "https://new.test/a?b");
        assert_eq!(larder.ask("GET /\nHost: other.test").status, 421);
    }),
    (185, |larder, _| {
        for host in ["site.test", "site.test:8080"] {
            redirects(larder, &format!("GET /a?b\nHost: {host}"), 301, "https://site.test:4443/a?b");
        }
    }),
    (186, |larder, _| {
        let answer = larder.get("/");
        assert_eq!([answer.field("x-powered-by"), answer.field("server")], [None, Some("secret")]);
    }),
    (187, |larder, _| {
        eventually("a reply that is limited only behind its first MiB", || {
            let begun = Instant::now();
            assert!(larder.get("/long:1150").body.len() > 1150 << 10);
            let took = begun.elapsed();
            assert!(took >= Duration::from_millis(100), "{took:?}");
            (took < Duration::from_secs(2)).then_some(())
        });
    }),
    (188, |larder, _| {
        let statuses =
            |client: &str| [(); 4].map(|()| larder.ask(&format!("GET /\nX-Forwarded-For: {client}")).status);
        assert_eq!((statuses("10.0.0.1"), statuses("192.0.2.1")), ([200; 4], [200, 200, 429, 429]));
    }),
    (189, |larder, _| {
        let is_shed = |client: u8| {
            let request = format!("GET /cc:max-age=9\nX-Load: serve\nX-Forwarded-For: 192.0.2.{client}");
            larder.ask(&request).status == 503
        };
        let shed: Vec<_> = (0..64).map(is_shed).collect();
        let count = shed.iter().filter(|own| **own).count();
        // Of one in four. Beyond these bounds are one in 10^8 of all choices.
        assert!((1..=40).contains(&count), "{count}");
        assert_eq!((0..64).map(is_shed).collect::<Vec<_>>(), shed, "another client is chosen");
    }),
    (190, |larder, origin| {
        let mut client = Client::to(larder.forward);
        assert_eq!(client.ask("GET http://a.corp.test/x\nHost: a.corp.test").status, 200);
        assert_eq!(origin.last().target, "http://a.corp.test/x");
        assert_ne!(client.ask("GET http://a.invalid/x\nHost: a.invalid").status, 200);
        assert_eq!(origin.count(), 1);
    }),
    (191, |larder, _| {
        let page = "GET /cc:max-age=9/age:9/etag:1";
        larder.ask(page);
        let stale = larder.ask(&format!("{page}\nUser-Agent: Googlebot/2.1"));
        assert_eq!(stale.cache(), "hit; detail=max-stale");
        assert!(!larder.ask(page).is_hit());
    }),
    (192, |larder, _| {
        assert_eq!(lifetime(larder, "/type:text-html"), Some(3_600));
        assert!(hits(larder, "GET /type:text-html"));
        assert_eq!(larder.get("/type:text-html").field("cache-control"), Some("max-age=0, must-revalidate"));
    }),
    (193, |larder, _| {
        for is_hit in [false, true] {
            let answer = larder.get("/status:404/cc:max-age=9/a");
            assert_eq!((answer.status, answer.is_hit()), (410, is_hit));
            assert!(answer.text().starts_with("/status:404/"), "{}", answer.text());
        }
        assert_eq!([larder.get("/a").status, larder.ask("HEAD /status:404/b").status], [200, 410]);
    }),
    (194, |larder, _| {
        let login = "https://login.test/?next=http://site.test%2Faccount%2Fa%3Fb%3D1%26c%3D%2523";
        redirects(larder, "GET /account/a?b=1&c=%23\nHost: site.test", 302, login);
        assert_eq!(larder.ask("GET /account/a\nCookie: session=1").status, 200);
    }),
    (195, |larder, _| {
        redirects(larder, "GET /spring", 302, "/sale?campaign=spring");
        redirects(larder, "GET /spring?a=b&c?", 302, "/sale?campaign=spring&a=b&c?");
    }),
];
