//! Each task of `docs/cookbook.md`: its lines, before an origin, have the effect in its title.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

mod further;
mod lines;
mod peers;

use further::FURTHER;
use larder_testkit::{Authority, Client, Larder, Origin, Response, Seen, eventually};

const PAGE: &str = include_str!("../../docs/cookbook.md");
const TASKS: usize = 40;

/// The files that the tasks refer to.
const FILES: [(&str, &str); 19] = [
    ("users.txt", "bea:$2y$04$kTb6CD33HQu5TaNPdAbYNujtpQj1pW5VBgqhBLfyhnd.v0UWCPJza\n"),
    ("tokens.txt", "app 0123456789abcdef\n"),
    ("blocked.txt", "ads.test\n"),
    ("work.txt", "docs.invalid\n"),
    ("404.html", "<p>404"),
    ("sorry.html", "<p>5xx"),
    ("moved.txt", "/old /new\n/far https://other.example/\n"),
    ("tenants.txt", "/a/b alpha\n"),
    ("cdn.txt", "127.0.0.0/8\n"),
    ("hosts.txt", "shop.example tenant-1\n"),
    ("signing-keys.txt", "0123456789abcdef\n"),
    ("crawlers.txt", "*GPTBot*\n~(?i)ccbot\n"),
    ("api-keys.txt", "0123456789abcdef\nfedcba9876543210\n"),
    ("origin.key", "a long random text\n"),
    ("gone.txt", "/gone\n/a/b\n"),
    ("closed.txt", "# nobody\n"),
    ("access.log", ""),
    ("admin-token", "0123456789abcdef"),
    (
        "jwks.json",
        r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"MpYGbcO7-gxOD6F0DFQP_I9sbOzPSJRwmjs8-jbtB54","y":"zAH-SLsrsfDXbRq8MC3lrP4DkIcQbnfTGEF_1-4eGtw"}]}"#,
    ),
];

/// Tokens of a user and an administrator that the key in `jwks.json` has signed, until 2255.
const TOKENS: [&str; 2] = [
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJzaG9wIiwic3ViIjoiYW5uIiwicm9sZSI6InVzZXIiLCJleHAiOjkwMDAwMDAwMDB9.GxftTalk9A6_-JOmv2K37Mn7GHY9-2YKPxYdK4xFPuCh53m3-XsIiRb6PF21AxQRXY5BU6fOlpEcQ7EGx74VZw",
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJzaG9wIiwic3ViIjoiYW5uIiwicm9sZSI6ImFkbWluIiwiZXhwIjo5MDAwMDAwMDAwfQ.5VnrFtfePIgabacNzfdLiIN_7oT6baEApGTtYE200ILn8dPbjancQwf3Rb8vitrT-dMjUvuFv3EoATnXd0_DuA",
];

/// The folder of these files.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// The authority of the certificates that the tasks refer to.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

/// The length of videos.
const LONG: usize = 10_000_000;

/// The content of the second origin.
const OTHER: &str = "other";

/// A check of a task's effect, for a proxy with the task's lines.
type Check = fn(&Larder, &Origin);

/// Returns the lines of each task, by its number.
fn tasks() -> BTreeMap<usize, String> {
    let sections = PAGE.split("\n### ").skip(1);
    let task = |section: &str| {
        let number = section.split('.').next()?.parse().ok()?;
        let lines = section.split("```toml\n").nth(1)?.split("```").next()?;
        Some((number, lines.to_owned()))
    };
    sections.filter_map(task).collect()
}

/// Starts an origin whose response is set by the request's path: `status`, `cc` (Cache-Control), `type`, `etag`,
/// `cookie`; the content shows the path, the query and some fields of the request.
fn origin() -> Origin {
    Origin::by(|seen: &Seen| {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let words: BTreeMap<_, _> = path.split('/').filter_map(|part| part.split_once(':')).collect();
        if path == "/check" {
            return match seen.field("cookie") {
                Some("session=good") => "204 X\nX-User: ann\n\n".to_owned(),
                _ => "401 X\nWWW-Authenticate: Login\n\nlog in".to_owned(),
            };
        }
        if path.ends_with(".mp4") {
            let part = seen.range(LONG).unwrap_or(0..LONG);
            let place = format!("bytes {}-{}/{LONG}", part.start, part.end - 1);
            return format!("206 X\nETag: \"1\"\nContent-Range: {place}\n\n{}", "v".repeat(part.len()));
        }
        let mut head = format!("{} X", words.get("status").unwrap_or(&"200"));
        if let Some(value) = words.get("cc") {
            head += &format!("\nCache-Control: {value}");
        }
        if let Some(kind) = words.get("type") {
            head += &format!("\nContent-Type: {}", kind.replace('-', "/"));
        }
        if let Some(tag) = words.get("etag") {
            head += &format!("\nETag: \"{tag}\"");
        }
        if let Some(age) = words.get("age") {
            head += &format!("\nAge: {age}");
        }
        if let Some(seconds) = words.get("slow").filter(|_| seen.number > 0) {
            std::thread::sleep(Duration::from_secs(seconds.parse().expect("a number")));
        }
        if let Some(name) = words.get("vary") {
            head += &format!("\nVary: {name}");
        }
        if words.contains_key("cookie") {
            head += "\nSet-Cookie: session=abcdef";
        }
        let shown = ["host", "cookie", "x-device", "x-origin-key", "x-user", "x-bucket"]
            .map(|name| seen.field(name).unwrap_or("-"));
        let long = words.get("long").map_or(0, |length| length.parse().expect("a number"));
        let (shown, long) = (shown.join("|"), "a".repeat(long << 10));
        format!("{head}\nServer: secret\nX-Powered-By: x\n\n{path}|{query}|{shown}{long}")
    })
}

fn hits(larder: &Larder, request: &str) -> bool {
    larder.ask(request);
    larder.ask(request).is_hit()
}

/// Whether the stored response to the first request is used for the second.
fn shares(larder: &Larder, one: &str, other: &str) -> bool {
    larder.ask(one);
    larder.ask(other).is_hit()
}

fn lifetime(larder: &Larder, path: &str) -> Option<u64> {
    larder.get(path);
    larder.settle();
    let why = larder.ask_admin(&format!("GET /why?url=http://site.test{path}")).json();
    why["stored"]["lifetime"].as_u64()
}

/// Whether a browser gets `path` compressed once the compressor has finished.
fn compresses(larder: &Larder, path: &str) -> bool {
    let request = format!("GET {path}\nAccept-Encoding: gzip, deflate, br, zstd");
    larder.ask(&request);
    let first = larder.ask(&request);
    eventually("the compressor to rest", || (larder.stats()["compression"]["waiting"] == 0).then_some(()));
    let second = larder.ask(&request);
    first.field("content-encoding").is_none() && second.field("content-encoding") == Some("zstd")
}

fn part(answer: &Response, at: usize) -> &str {
    answer.text().split('|').nth(at).unwrap_or_default()
}

fn cookie(answer: &Response) -> Option<String> {
    answer.field("set-cookie")?.split(';').next().map(str::to_owned)
}

fn redirects(larder: &Larder, request: &str, status: u16, location: &str) {
    let answer = larder.ask(request);
    assert_eq!((answer.status, answer.field("location")), (status, Some(location)), "{request}");
}

/// The checks of later tasks, by number.
const MORE: &[(usize, Check)] = &[
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
        let begun = Instant::now();
        let stale = larder.client().ask(&format!("GET {path}"));
        assert_eq!(stale.cache(), "hit; detail=stale-if-slow");
        assert!(begun.elapsed() < Duration::from_secs(3));
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
        let begun = Instant::now();
        assert_eq!(larder.get("/live/a").status, 504);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
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

const CHECKS: [Check; TASKS] = [
    |larder, _| assert_eq!([lifetime(larder, "/static/a"), lifetime(larder, "/a")], [Some(86_400), None]),
    |larder, _| {
        assert_eq!([lifetime(larder, "/a/b.PNG"), lifetime(larder, "/a/png")], [Some(604_800), None]);
    },
    |larder, _| {
        for (path, is_hit) in [("/admin", false), ("/admin/x", false), ("/cart/1", false), ("/adm", true)] {
            assert_eq!(hits(larder, &format!("GET {path}/cc:max-age=9")), is_hit && path == "/adm", "{path}");
        }
    },
    |larder, _| {
        assert_eq!([lifetime(larder, "/a"), lifetime(larder, "/cc:max-age=9")], [Some(300), Some(9)]);
    },
    |larder, _| {
        let lifetimes =
            ["/cc:max-age=9", "/cc:max-age=600", "/cc:max-age=9999"].map(|path| lifetime(larder, path));
        assert_eq!(lifetimes, [Some(60), Some(600), Some(3_600)]);
    },
    |larder, _| {
        let lifetimes = ["/a", "/status:301", "/status:404", "/status:500", "/status:403"]
            .map(|path| lifetime(larder, path));
        assert_eq!(lifetimes, [Some(600), Some(3_600), Some(30), None, None]);
    },
    |larder, _| {
        assert!(hits(larder, "GET /type:image-png/cc:max-age=9"));
        assert!(!hits(larder, "GET /type:text-css/cc:max-age=9"));
    },
    |larder, _| assert!(hits(larder, "GET /cc:max-age=9")),
    |larder, _| {
        assert!(hits(larder, "GET /cc:max-age=9"));
        assert!(!hits(larder, "GET /status:404/cc:max-age=9"));
    },
    |larder, _| {
        assert!(hits(larder, "GET /catalogue/cc:no-cache") && hits(larder, "GET /catalogue/cc:no-store"));
        assert!(!hits(larder, "GET /cc:no-cache"));
    },
    |larder, _| {
        larder.get("/news/a");
        let stale = larder.get("/news/a");
        assert_eq!(
            stale.field("cache-status").map(|status| status.contains("stale-while-revalidate")),
            Some(true)
        );
    },
    |larder, origin| {
        larder.get("/cc:max-age=0/etag:1");
        origin.die();
        assert_eq!(larder.get("/cc:max-age=0/etag:1").status, 200);
    },
    |larder, _| {
        assert_eq!(lifetime(larder, "/blog/cc:max-age=9"), Some(86_400));
        assert_eq!(larder.get("/blog/cc:max-age=9").field("cache-control"), Some("max-age=60"));
    },
    |larder, _| assert!(shares(larder, "GET /cc:max-age=9", "GET /cc:max-age=9\nCache-Control: no-cache")),
    |larder, _| {
        assert!(shares(larder, "GET /cc:max-age=9?a=1", "GET /cc:max-age=9?utm_source=x&a=1&gclid=7"));
        assert!(!larder.get("/cc:max-age=9?a=2").is_hit());
    },
    |larder, _| {
        let answer = larder.get("/search?x=1&page=2&q=a");
        assert_eq!(part(&answer, 1), "page=2&q=a");
    },
    |larder, _| assert_eq!(part(&larder.get("/static/a?v=1"), 1), ""),
    |larder, _| {
        let path = "/static/cookie:1/cc:max-age=9";
        let one = larder.ask(&format!("GET {path}\nCookie: a=1"));
        assert_eq!((part(&one, 3), one.field("set-cookie")), ("-", None));
        assert!(larder.ask(&format!("GET {path}\nCookie: a=2")).is_hit());
    },
    |larder, _| {
        assert!(hits(larder, "GET /a") && !hits(larder, "GET /a\nCookie: x=1; session=2"));
    },
    |larder, _| {
        let path = "/cc:max-age=9";
        assert!(shares(
            larder,
            &format!("GET {path}\nCookie: a=1; lang=de"),
            &format!("GET {path}\nCookie: lang=de")
        ));
        assert!(!larder.ask(&format!("GET {path}\nCookie: lang=en")).is_hit());
    },
    |larder, _| {
        let [phone, desktop] =
            ["Mobile", "Other"].map(|agent| format!("GET /cc:max-age=9\nUser-Agent: a {agent} b"));
        assert_eq!(part(&larder.ask(&phone), 4), "phone");
        assert_eq!(part(&larder.ask(&desktop), 4), "desktop");
        assert!(larder.ask(&phone).is_hit() && larder.ask(&desktop).is_hit());
    },
    |larder, _| {
        assert_eq!(part(&larder.ask("GET /\nCookie: _ga=1; a=2; _gat=3; _gid=4; b=5"), 3), "a=2; b=5");
    },
    |larder, _| {
        let answer = larder.get("/");
        assert_eq!(
            [answer.field("x-frame-options"), answer.field("x-content-type-options")],
            [Some("SAMEORIGIN"), Some("nosniff")]
        );
    },
    |larder, _| {
        let allowed = ["/a.woff2", "/a.css"]
            .map(|path| larder.get(path).field("access-control-allow-origin").map(str::to_owned));
        assert_eq!(allowed, [Some("*".to_owned()), None]);
    },
    |larder, _| {
        let answer = larder.get("/");
        assert_eq!([answer.field("server"), answer.field("x-powered-by")], [None, None]);
    },
    |larder, _| assert_eq!(part(&larder.get("/"), 5), "a long random text"),
    |larder, _| {
        larder.get("/cc:max-age=9");
        assert_eq!(larder.get("/cc:max-age=9").field("x-cache"), Some("HIT"));
    },
    |larder, _| assert_eq!(part(&larder.ask("GET /\nHost: www.example.com"), 2), "bucket.storage.example"),
    |larder, _| {
        redirects(larder, "GET /a?b\nHost: example.com", 301, "https://www.example.com/a?b");
        assert_eq!(larder.ask("GET /\nHost: www.example.com").status, 200);
    },
    |larder, _| redirects(larder, "GET /old/a/b?c", 301, "/new/a/b?c"),
    |larder, _| redirects(larder, "GET /product-17.html", 308, "/products/17"),
    |larder, _| assert_eq!(larder.get("/robots.txt").text(), "User-agent: *\nDisallow: /search\n"),
    |larder, _| {
        let answer = larder.get("/");
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("3600")));
        assert_eq!(larder.ask("GET /\nX-Forwarded-For: 192.0.2.7").status, 200);
    },
    |larder, origin| {
        assert_eq!((larder.get("/health").text(), origin.count()), ("ok\n", 0));
    },
    |larder, _| {
        for (path, status) in
            [("/.git/config", 404), ("/a/.env", 404), ("/dump.sql", 404), ("/%2egit/x", 404), ("/a", 200)]
        {
            assert_eq!(larder.get(path).status, status, "{path}");
        }
    },
    |larder, _| {
        let statuses = [("/intern/x", "192.0.2.1"), ("/intern/x", "10.1.2.3"), ("/", "192.0.2.1")]
            .map(|(path, client)| larder.ask(&format!("GET {path}\nX-Forwarded-For: {client}")).status);
        assert_eq!(statuses, [403, 200, 200]);
    },
    |larder, _| {
        let statuses = ["203.0.113.9", "2001:db8::1", "192.0.2.1"]
            .map(|client| larder.ask(&format!("GET /\nX-Forwarded-For: {client}")).status);
        assert_eq!(statuses, [403, 403, 200]);
    },
    |larder, _| {
        assert_eq!(larder.ask("GET /\nUser-Agent: A BadBot/1").status, 403);
        assert_eq!(larder.ask("GET /\nUser-Agent: A Browser/1").status, 200);
    },
    |larder, _| {
        assert_eq!([larder.ask("DELETE /").status, larder.ask("HEAD /").status], [405, 200]);
    },
    |larder, _| {
        larder.get("/cc:max-age=9");
        assert_eq!(larder.ask("PURGE /cc:max-age=9").status, 200);
        assert!(!larder.get("/cc:max-age=9").is_hit());
    },
];

#[test]
fn each_task_is_done_by_its_lines() {
    let tasks = tasks();
    let checks: BTreeMap<_, _> = (1..).zip(CHECKS).chain(MORE.iter().chain(FURTHER).copied()).collect();
    assert_eq!(tasks.keys().collect::<Vec<_>>(), checks.keys().collect::<Vec<_>>());
    for (name, text) in FILES {
        std::fs::write(FOLDER.path().join(name), text).expect("written");
    }
    // It accepts no connection: the handshake of TLS gets no answer.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("an address").to_string();
    let pair = AUTHORITY.pair("site", &["site.test"]);
    let certificates =
        [("clients.pem", AUTHORITY.file().into()), ("cert.pem", pair.cert), ("key.pem", pair.key)];
    for ((number, lines), check) in tasks.iter().zip(checks.values()) {
        eprintln!("task {number}");
        let origin = origin();
        let other = Origin::always("200 OK\nCache-Control: max-age=9\n\nother");
        let lines = lines.replace("127.0.0.1:3000", &origin.address.to_string());
        let lines = lines.replace("127.0.0.1:3001", &other.address.to_string());
        let lines = lines.replace("127.0.0.1:3002", &silent);
        let lines = lines.replace("127.0.0.1:3003", &origin.address.to_string());
        let mut lines = lines.replace("/srv/errors/", "").replace("/etc/larder/", "");
        lines =
            lines.replace("\"mon-fri\"", "[\"mon-fri\", \"sat-sun\"]").replace("08:00-17:00", "00:00-24:00");
        for (name, _) in FILES {
            lines = lines.replace(name, &FOLDER.path().join(name).to_string_lossy());
        }
        for (name, file) in &certificates {
            lines = lines.replace(&format!("\"{name}\""), &format!("{file:?}"));
        }
        lines = lines.replace("127.0.0.1:8080", "127.0.0.1:0").replace("127.0.0.1:8443", "127.0.0.1:0");
        let lines = lines.replace("127.0.0.1:9145", "127.0.0.1:0");
        let trust = if lines.contains("trust = ") { "" } else { "trust = '127.0.0.1'\n" };
        check(&Larder::start(&format!("{trust}{lines}")), &origin);
    }
}
