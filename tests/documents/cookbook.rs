//! Each task of `docs/cookbook.md`: its lines, before an origin, have the effect in its title.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

mod asked;
mod further;
mod later;
mod lines;
mod peers;

use asked::ASKED;
use further::FURTHER;
use larder_testkit::{Authority, Larder, Origin, Response, Seen, eventually};
use later::MORE;

const PAGE: &str = include_str!("../../docs/cookbook.md");
const TASKS: usize = 40;

/// The files that the tasks refer to.
const FILES: [(&str, &str); 20] = [
    ("users.txt", "bea:$2y$04$kTb6CD33HQu5TaNPdAbYNujtpQj1pW5VBgqhBLfyhnd.v0UWCPJza\n"),
    ("tokens.txt", "app 0123456789abcdef\n"),
    ("blocked.txt", "ads.test\n"),
    ("work.txt", "docs.invalid\n"),
    ("404.html", "<p>404"),
    ("sorry.html", "<p>5xx"),
    ("moved.txt", "/old /new\n/far https://other.example/\n"),
    ("tenants.txt", "/a/b alpha\n"),
    ("cdn.txt", "127.0.0.0/8\n"),
    ("origins.txt", ""),
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
        if path.ends_with(".deb") {
            head += "\nLast-Modified: Sat, 01 Jan 2000 00:00:00 GMT";
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
    let checks: BTreeMap<_, _> =
        (1..).zip(CHECKS).chain(MORE.iter().chain(FURTHER).chain(ASKED).copied()).collect();
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
        let mapped = format!("two.test http://{}\nthree.test http://{}\n", origin.address, other.address);
        std::fs::write(FOLDER.path().join("origins.txt"), mapped).expect("written");
        check(&Larder::start(&format!("{trust}{lines}")), &origin);
    }
}
