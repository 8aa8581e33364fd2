//! `packages` and `min_age`: content is what its index or its URL says, what a registry never changes stays, and versions
//! are old enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::with_rules;
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_testkit::{Answer, Client, Larder, Origin, Seen, eventually};

/// The content "hello\n" by its digests.
const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
const SHA512: &str =
    "sha512-58IrmUxZ2c8rSOVJseJGZmNgRZMNPafBrLKZ0cO3+TH5Sq5B7dosKyB6NuEPi8uNRSI+VIePWzFufOO2vAGWKQ==";
/// The content "other\n".
const OTHER: &str = "7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87";

const RULE: &str = "[[site.rule]]\npackages = 'all'\n";
const TARBALL: &str = "/left-pad/-/left-pad-1.3.0.tgz";

/// Starts an origin whose short answer depends on the request and on a step that the test sets.
fn stepped(script: impl Fn(&Seen, usize) -> String + Send + Sync + 'static) -> (Origin, Arc<AtomicUsize>) {
    let step = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&step);
    (Origin::by(move |seen| script(seen, current.load(Ordering::Acquire))), step)
}

fn npm(seen: &Seen, step: usize) -> String {
    match (&*seen.target, step) {
        (TARBALL, 0) => "200 OK\nCache-Control: max-age=100\n\nHELLO\n".to_owned(),
        (TARBALL, _) => "200 OK\nCache-Control: no-cache\nSet-Cookie: id=123456\n\nhello\n".to_owned(),
        _ => format!(
            "200 OK\nContent-Type: application/json\nCache-Control: max-age=300\n\n{{\"name\":\"left-pad\",\"versions\":\
             {{\"1.3.0\":{{\"dist\":{{\"integrity\":\"{SHA512}\",\"tarball\":\"https://registry.test{TARBALL}\"}}}}}}}}"
        ),
    }
}

fn whole(larder: &Larder, path: &str) -> Option<String> {
    let answer = Client::try_ask(larder.address(), &format!("GET {path}"))?;
    (answer.status == 200).then(|| answer.text().to_owned())
}

#[test]
fn content_with_a_wrong_digest_is_neither_whole_nor_stored() {
    let (origin, step) = stepped(npm);
    let larder = with_rules(&origin, RULE);
    assert_eq!(larder.get("/left-pad").status, 200);
    assert_eq!(whole(&larder, TARBALL), None);
    assert_eq!(whole(&larder, TARBALL), None);
    let why = larder.ask_admin(&format!("GET /why?url=http://site.test{TARBALL}"));
    assert!(why.text().contains("digest"), "{}", why.text());
    step.store(1, Ordering::Release);
    assert_eq!(whole(&larder, TARBALL).as_deref(), Some("hello\n"));
    let asked = origin.count();
    let hit = larder.get(TARBALL);
    assert!(hit.is_hit() && hit.field("set-cookie").is_none(), "{hit:?}");
    assert_eq!(origin.count(), asked);
    let metrics = larder.ask_admin("GET /metrics");
    let refused = "larder_package_contents_total{result=\"refused\"} 2\n";
    assert!(metrics.text().contains(refused), "{}", metrics.text());
}

#[test]
fn a_digest_that_becomes_known_later_removes_stored_wrong_content() {
    let (origin, step) = stepped(npm);
    let larder = with_rules(&origin, RULE);
    assert_eq!(whole(&larder, TARBALL).as_deref(), Some("HELLO\n"));
    larder.get("/left-pad");
    step.store(1, Ordering::Release);
    larder_testkit::eventually("the stored content is removed", || {
        (whole(&larder, TARBALL).as_deref() == Some("hello\n")).then_some(())
    });
}

#[test]
fn blobs_by_digest_are_shared_across_repositories_and_credentials() {
    let origin = Origin::always("200 OK\nCache-Control: private, no-cache\n\nhello\n");
    let larder = with_rules(&origin, RULE);
    for (repository, token) in [("a/b", "one"), ("a/b", "two"), ("c", "three")] {
        let path = format!("/v2/{repository}/blobs/sha256:{SHA256}");
        let answer = larder.ask(&format!("GET {path}\nAuthorization: Bearer {token}"));
        assert_eq!((answer.status, answer.text()), (200, "hello\n"));
    }
    assert_eq!(origin.count(), 1);
    assert_eq!(whole(&larder, &format!("/v2/a/b/blobs/sha256:{OTHER}")), None);
}

#[test]
fn tags_are_looked_up_by_head_and_outlast_limits_on_pulls() {
    let (origin, step) = stepped(|seen, step| match (&*seen.method, step) {
        ("HEAD", 1) => "429 Too Many Requests\n\n".to_owned(),
        _ => format!("200 OK\nDocker-Content-Digest: sha256:{SHA256}\n\nhello\n"),
    });
    let larder = with_rules(&origin, RULE);
    for refusing in [0, 0, 1] {
        step.store(refusing, Ordering::Release);
        let answer = larder.get("/v2/library/debian/manifests/bookworm");
        assert_eq!((answer.status, answer.text()), (200, "hello\n"));
    }
    assert_eq!(origin.count_of("/v2/library/debian/manifests/bookworm"), 3);
    assert_eq!(origin.count_of(&format!("/v2/library/debian/manifests/sha256:{SHA256}")), 1);
}

#[test]
fn packages_of_debian_follow_the_digests_of_the_current_index() {
    let (origin, step) = stepped(|seen, step| {
        let (content, digest) = [("hello\n", SHA256), ("other\n", OTHER)][step];
        match &*seen.target {
            "/dists/a/main/binary-amd64/Packages" => format!(
                "200 OK\nETag: \"{step}\"\nCache-Control: max-age=100\n\nPackage: p\nFilename: pool/p_1_all.deb\nSHA256: {digest}\n\n"
            ),
            _ => format!("200 OK\nCache-Control: max-age=1000\n\n{content}"),
        }
    });
    let larder = with_rules(&origin, RULE);
    let index = "/dists/a/main/binary-amd64/Packages";
    larder.get(index);
    for _ in 0..2 {
        assert_eq!(whole(&larder, "/pool/p_1_all.deb").as_deref(), Some("hello\n"));
    }
    step.store(1, Ordering::Release);
    larder.ask(&format!("GET {index}\nCache-Control: no-cache"));
    assert_eq!(whole(&larder, "/pool/p_1_all.deb").as_deref(), Some("other\n"));
    assert_eq!(origin.count_of("/pool/p_1_all.deb"), 2);
}

#[test]
fn digests_are_known_after_a_restart() {
    let (origin, _) = stepped(npm);
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "[[disk]]\npath = '{}'\nsize = '16MiB'\n{}",
        folder.path().display(),
        larder_testkit::site(&[&origin], RULE)
    );
    Larder::start(&config).get("/left-pad");
    assert_eq!(whole(&Larder::start(&config), TARBALL), None);
}

#[test]
fn ranges_of_content_with_a_digest_come_from_the_whole() {
    let (origin, step) = stepped(npm);
    step.store(1, Ordering::Release);
    let larder = with_rules(&origin, RULE);
    larder.get("/left-pad");
    for _ in 0..2 {
        let part = larder.ask(&format!("GET {TARBALL}\nRange: bytes=1-2"));
        assert_eq!((part.status, part.text()), (206, "el"));
    }
    assert_eq!(origin.count_of(TARBALL), 1);
}

#[test]
fn young_versions_vanish_from_npm_and_their_files_are_refused() {
    let origin = Origin::by(|seen| match &*seen.target {
        "/pad" => {
            let version = |number: &str| {
                format!(
                    "\"{number}\":{{\"dist\":{{\"tarball\":\"http://site.test/pad/-/pad-{number}.tgz\"}}}}"
                )
            };
            let versions = [version("1.0.0"), version("2.0.0"), version("3.0.0")].join(",");
            format!(
                "200 OK\nContent-Type: application/json\nETag: \"a\"\n\n{{\"name\":\"pad\",\"dist-tags\":{{\"latest\":\"2.0.0\"}},\
                 \"versions\":{{{versions}}},\"time\":{{\"1.0.0\":\"2020-01-01T00:00:00Z\",\"2.0.0\":\"2999-01-01T00:00:00Z\"}}}}"
            )
        }
        _ => "200 OK\n\nx".to_owned(),
    });
    let rule = format!("{RULE}min_age = {{ all = '7d', allow = ['pad@3.0.0'] }}\n");
    let larder = with_rules(&origin, &rule);
    let document = larder.ask("GET /pad\nAccept: application/vnd.npm.install-v1+json\nIf-None-Match: \"a\"");
    let left = document.json();
    let numbers: Vec<_> =
        left["versions"].as_object().expect("versions").keys().map(String::as_str).collect();
    assert_eq!(numbers, ["1.0.0", "3.0.0"]);
    assert_eq!(left["dist-tags"]["latest"], "1.0.0");
    assert_ne!(document.field("etag"), Some("\"a\""));
    for (number, status) in [("1.0.0", 200), ("2.0.0", 403), ("3.0.0", 200)] {
        let answer = larder.get(&format!("/pad/-/pad-{number}.tgz"));
        assert_eq!(answer.status, status, "{number}: {}", answer.text());
    }
    assert_eq!(origin.count_of("/pad/-/pad-2.0.0.tgz"), 0);
    let old = |age: &str, dates: &str| {
        let larder =
            with_rules(&origin, &format!("{RULE}min_age = {{ all = '{age}', dates = '{dates}' }}\n"));
        larder.get("/pad");
        larder
    };
    for (dates, status) in [("registry", 200), ("first-seen", 403), ("later", 403)] {
        assert_eq!(old("7d", dates).get("/pad/-/pad-1.0.0.tgz").status, status, "{dates}");
    }
    let seen = old("1s", "first-seen");
    eventually("the age", || (seen.get("/pad/-/pad-2.0.0.tgz").status == 200).then_some(()));
}

#[test]
fn files_without_a_date_have_that_of_their_last_change() {
    let origin = Origin::by(|seen| match &*seen.target {
        "/packages/a/six-1.0-py3-none-any.whl" => {
            "200 OK\nLast-Modified: Wed, 01 Jan 2020 00:00:00 GMT\n\nx".to_owned()
        }
        _ => "200 OK\n\nx".to_owned(),
    });
    let larder = with_rules(&origin, &format!("{RULE}min_age = '7d'\n"));
    for (number, status) in [("1.0", 200), ("2.0", 403)] {
        let answer = larder.get(&format!("/packages/a/six-{number}-py3-none-any.whl"));
        assert_eq!(answer.status, status, "{number}: {}", answer.text());
    }
}

#[test]
fn young_files_vanish_from_the_simple_index_of_python() {
    let origin = Origin::by(|seen| {
        assert_eq!(seen.field("accept"), Some("application/vnd.pypi.simple.v1+json"));
        let file = |number: &str, year: u32| {
            format!(
                "{{\"filename\":\"six-{number}.tar.gz\",\"url\":\"/packages/six-{number}.tar.gz\",\"upload-time\":\"{year}-01-01T00:00:00Z\"}}"
            )
        };
        let files = [file("1.0", 2020), file("2.0", 2999)].join(",");
        format!(
            "200 OK\nContent-Type: application/vnd.pypi.simple.v1+json\n\n{{\"name\":\"six\",\"versions\":[\"1.0\",\"2.0\"],\"files\":[{files}]}}"
        )
    });
    let larder = with_rules(&origin, &format!("{RULE}min_age = '7d'\n"));
    let index = larder.ask("GET /simple/six/\nAccept: application/vnd.pypi.simple.v1+json, text/html; q=0.1");
    assert!(index.text().contains("six-1.0.tar.gz") && !index.text().contains("2.0"), "{}", index.text());
    assert_eq!(larder.get("/packages/six-2.0.tar.gz").status, 403);
}

/// The archive of a module of Go, and its hash in the checksum database.
const MODULE: &str = "UEsDBBQACAAIAAAAAAAAAAAAAAAAAAAAAAAZAAAAcnNjLmlvL3RpbnlAdjEuMC4wL2dvLm1vZMrNTynNSVUoKk7Wy8zXL8nMq+QCBAAA//9QSwcIhTntAxkAAAATAAAAUEsDBBQACAAIAAAAAAAAAAAAAAAAAAAAAAAXAAAAcnNjLmlvL3RpbnlAdjEuMC4wL2EuZ28qSEzOTkxPVSjJzKvk4tLXVwjJzKtUyCxWKM5NzMnRGxUZFRkVoatIcn5ecQlE0FbBkAsQAAD//1BLBwiBvm+1OAAAAKEDAABQSwECFAAUAAgACAAAAAAAhTntAxkAAAATAAAAGQAAAAAAAAAAAAAAAAAAAAAAcnNjLmlvL3RpbnlAdjEuMC4wL2dvLm1vZFBLAQIUABQACAAIAAAAAACBvm+1OAAAAKEDAAAXAAAAAAAAAAAAAAAAAGAAAAByc2MuaW8vdGlueUB2MS4wLjAvYS5nb1BLBQYAAAAAAgACAIwAAADdAAAAAAA=";
const MODULE_SUM: &str = "h1:y70RtXNT8ywtWeu0lqlw1oJroaJPCbKhlxIFFyiV8aI=";

#[test]
fn archives_of_go_have_the_files_that_the_checksum_database_names() {
    let archive = STANDARD.decode(MODULE).expect("base64");
    let false_one = b"PK\x03\x04 another archive".to_vec();
    let step = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&step);
    let origin = Origin::answering(move |seen| {
        let sum = format!("1\nrsc.io/tiny v1.0.0 {MODULE_SUM}\n\ngo.sum database tree\n").into_bytes();
        let body = match (seen.target.contains("/lookup/"), current.load(Ordering::Acquire)) {
            (true, _) => &sum,
            (false, 0) => &false_one,
            (false, _) => &archive,
        };
        Answer::with_body("200 OK", body)
    });
    let larder = with_rules(&origin, RULE);
    let (zip, lookup) = ("/rsc.io/tiny/@v/v1.0.0.zip", "/sumdb/sum.golang.org/lookup/rsc.io/tiny@v1.0.0");
    // It is stored while its hash is not known, and removed when that becomes known.
    assert_eq!(larder.get(zip).status, 200);
    larder.get(lookup);
    step.store(1, Ordering::Release);
    let good = larder_testkit::eventually("the false archive is removed", || {
        Some(larder.get(zip)).filter(|answer| answer.body == STANDARD.decode(MODULE).expect("base64"))
    });
    assert_eq!(good.status, 200);
    step.store(0, Ordering::Release);
    assert!(larder.get(zip).is_hit());
    assert_eq!(origin.count_of(lookup), 1);
    assert!(larder.get(lookup).is_hit());
    larder.ask_admin(&format!("POST /purge?url=http://site.test{zip}\nLarder-Admin: 1"));
    assert_eq!(whole(&larder, zip), None);
}

#[test]
fn indexes_without_a_lifetime_are_asked_for_again_however_old_they_are() {
    const OLD: &str = "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT";
    let (origin, _) = stepped(|seen, _| match &*seen.target {
        _ if seen.field("if-modified-since").is_some() => format!("304 Not Modified\n{OLD}\n\n"),
        "/simple/pad/" => format!("200 OK\n{OLD}\nContent-Type: text/html\n\n<a href='pad-1.zip'>pad</a>"),
        "/a/b/maven-metadata.xml" => format!("200 OK\n{OLD}\n\n<metadata/>"),
        _ => format!("200 OK\n{OLD}\nContent-Type: text/html\n\na page"),
    });
    let larder = with_rules(&origin, RULE);
    for (path, counts) in
        [("/simple/pad/", [1, 2, 3]), ("/a/b/maven-metadata.xml", [1, 2, 3]), ("/page", [1, 1, 1])]
    {
        let counted = counts.map(|_| {
            assert_eq!(larder.get(path).status, 200);
            larder.settle();
            origin.count_of(path)
        });
        assert_eq!(counted, counts, "{path}");
    }
}

#[test]
fn artifacts_of_maven_are_verified_the_first_time() {
    // A mirror of the second artifact has no digests.
    let (jar, other) = ("/a/b/1.0/b-1.0.jar", "/a/b/2.0/b-2.0.jar");
    let (origin, step) = stepped(|seen, step| match (&*seen.target, step) {
        ("/a/b/1.0/b-1.0.jar.sha1", _) => "200 OK\n\nf572d396fae9206628714fb2ce00f72e94f2258f\n".to_owned(),
        (path, _) if path.ends_with(".sha1") => "404 Not Found\n\n".to_owned(),
        (_, 0) => "200 OK\n\nHELLO\n".to_owned(),
        _ => "200 OK\n\nhello\n".to_owned(),
    });
    let larder = with_rules(&origin, RULE);
    assert_eq!(whole(&larder, jar), None);
    assert_eq!(whole(&larder, other).as_deref(), Some("HELLO\n"));
    step.store(1, Ordering::Release);
    for _ in 0..2 {
        assert_eq!(whole(&larder, jar).as_deref(), Some("hello\n"));
    }
    assert!(larder.get(&format!("{jar}.sha1")).is_hit());
    let counts = [jar, other].map(|path| [origin.count_of(path), origin.count_of(&format!("{path}.sha1"))]);
    assert_eq!(counts, [[2, 1], [1, 1]]);
}

#[test]
fn clients_that_always_ask_for_a_newer_response_get_what_never_changes() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nhello\n");
    let larder = with_rules(&origin, RULE);
    for (path, asked, count) in [
        ("/a/b/1.0/b-1.0.jar", "no-cache", 1),
        ("/a/b/1.0/b-1.0.jar.sha1", "no-cache", 1),
        ("/a/b/1-SNAPSHOT/b-1-SNAPSHOT.jar", "no-cache", 2),
        ("/a/b/1.0/b-1.0.pom", "max-age=0", 2),
    ] {
        for _ in 0..2 {
            assert_eq!(larder.ask(&format!("GET {path}\nCache-Control: {asked}")).status, 200);
        }
        assert_eq!(origin.count_of(path), count, "{path}");
    }
}

#[test]
fn young_versions_vanish_from_indexes_without_dates_by_those_of_files() {
    let origin = Origin::by(|seen| {
        let path = &*seen.target;
        let body = match path {
            "/rsc.io/tiny/@v/list" => "v1.0.0\nv2.0.0\n".to_owned(),
            "/a/b/maven-metadata.xml" => {
                "<metadata><versioning><release>2.0</release><versions><version>1.0</version>\
                 <version>2.0</version></versions></versioning></metadata>"
                    .to_owned()
            }
            "/info/pad" => {
                "---\n1.0 |checksum:0\n1.5 |checksum:0,created_at:2999-01-01T00:00:00Z\n2.0 |checksum:0\n"
                    .to_owned()
            }
            "/simple/pad/" => "<a href='pad-1.0.tar.gz'>1</a><a href='pad-2.0.tar.gz'>2</a>".to_owned(),
            "/rsc.io/tiny/@v/v1.0.0.info" => "{\"Time\":\"2020-01-01T00:00:00Z\"}".to_owned(),
            _ => "{\"Time\":\"2999-01-01T00:00:00Z\"}".to_owned(),
        };
        let kind = if path.starts_with("/simple/") { "text/html" } else { "text/plain" };
        let is_file = path.contains("1.0");
        let date = if is_file { "Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT\n" } else { "" };
        format!("200 OK\nContent-Type: {kind}\n{date}\n{body}")
    });
    let larder = with_rules(&origin, &format!("{RULE}min_age = '7d'\n"));
    let left = |path: &str| larder.get(path).text().to_owned();
    assert_eq!(left("/rsc.io/tiny/@v/list"), "v1.0.0\n");
    assert_eq!(larder.get("/rsc.io/tiny/@latest").status, 403);
    let metadata = left("/a/b/maven-metadata.xml");
    assert!(metadata.contains("<release>1.0<") && !metadata.contains("2.0"), "{metadata}");
    let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, metadata.as_bytes());
    let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(left("/a/b/maven-metadata.xml.sha1"), sum);
    assert_eq!(left("/info/pad"), "---\n1.0 |checksum:0\n");
    assert_eq!(left("/simple/pad/"), "<a href='pad-1.0.tar.gz'>1</a>");
    // Dates are asked for once.
    assert_eq!(origin.count_of("/gems/pad-1.0.gem"), 1);
    larder.ask("GET /info/pad\nCache-Control: no-cache");
    assert_eq!((origin.count_of("/info/pad"), origin.count_of("/gems/pad-1.0.gem")), (2, 1));
}

#[test]
fn indexes_that_have_not_changed_for_the_age_stay_whole() {
    let origin = Origin::always("200 OK\nLast-Modified: Wed, 01 Jan 2020 00:00:00 GMT\n\nv1.0.0\nv2.0.0\n");
    let larder = with_rules(&origin, &format!("{RULE}min_age = '7d'\n"));
    assert_eq!(larder.get("/rsc.io/tiny/@v/list").text(), "v1.0.0\nv2.0.0\n");
    assert_eq!(origin.count(), 1);
}
