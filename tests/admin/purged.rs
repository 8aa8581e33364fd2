//! Purges: stored responses of a URL, a tag, a group, a host or all are invalidated or removed, in every tier, for all
//! variants and all clients.

use larder_testkit::{Larder, Origin, Response, eventually, site, stderr};
use serde_json::json;

use super::{command, json, printed};

const URL: &str = "http://site.test/page";

fn purge(larder: &Larder, query: &str) -> Response {
    larder.ask_admin(&format!("POST /purge?{query}\nLarder-Admin: 1"))
}

/// Returns the result of a purge with `count`: the number of objects, and its effect on them.
fn purged(larder: &Larder, query: &str) -> (u64, String) {
    let answer = purge(larder, &format!("{query}&count")).json();
    (answer["objects"].as_u64().expect("a number"), answer["effect"].as_str().expect("a word").to_owned())
}

fn origin() -> Origin {
    Origin::by(|seen| {
        let number = seen.number;
        format!("200 OK\nCache-Control: max-age=100\nVary: V\n\nanswer {number}")
    })
}

/// Returns an origin whose responses have two tags, a group and a class of paths, by the last digit of the path.
fn tagged() -> Origin {
    Origin::by(|seen| {
        let class = seen.target.chars().last().unwrap_or_default();
        format!(
            "200 OK\nCache-Control: max-age=100\nETag: \"1\"\nCache-Tag: all, t{class}\nCache-Groups: \"g{class}\"\n\nbody"
        )
    })
}

#[test]
fn the_next_request_after_a_purge_asks_the_origin() {
    let origin = origin();
    let larder = Larder::before(&origin);
    larder.get("/page");
    larder.ask("GET /page\nV: 1");
    larder.get("/other");
    let answer = purge(&larder, &format!("url={URL}&hard")).json();
    assert_eq!((&answer["url"], &answer["objects"]), (&json!(URL), &json!(2)));
    assert!(answer["bytes"].as_u64() > Some(16), "{answer}");
    assert_eq!(larder.get("/page").text(), "answer 3");
    assert_eq!(larder.ask("GET /page\nV: 1").text(), "answer 4");
    assert!(larder.get("/other").is_hit());
    assert_eq!(purged(&larder, "url=http://site.test/none"), (0, "stale".to_owned()));
}

#[test]
fn lists_show_at_once_what_a_purge_has_left() {
    let (directory, origin) = (tempfile::tempdir().expect("a directory"), tagged());
    let disk = format!("[[disk]]\npath = '{}'\n", directory.path().display());
    let larder = Larder::start(&format!("{disk}{}", site(&[&origin], "")));
    for path in ["/1", "/2", "/3"] {
        larder.get(path);
    }
    eventually("all on the disk", || {
        let disk = &larder.stats()["disks"][0];
        (disk["objects"] == 3 && disk["bytes_queued"] == 0).then_some(())
    });
    let fresh = |path: &str| {
        let found = larder.ask_admin("GET /objects").json();
        let objects = found["objects"].as_array().expect("a list");
        let object = objects.iter().find(|object| object["url"] == format!("http://site.test{path}"));
        object.map(|object| object["fresh"].as_bool().expect("a boolean"))
    };
    assert_eq!(["/1", "/2", "/3"].map(fresh), [Some(true); 3]);
    purge(&larder, "tag=t1");
    assert_eq!(["/1", "/2", "/3"].map(fresh), [Some(false), Some(true), Some(true)]);
    purge(&larder, "tag=t2&hard");
    assert_eq!(["/1", "/2", "/3"].map(fresh), [Some(false), None, Some(true)]);
}

#[test]
fn a_path_is_purged_of_the_only_site_whatever_its_host() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let (address, host) = (larder.address(), "GET /caf%C3%A9?x\nHost: other.test");
    for request in [host, &format!("GET http://{address}/caf%C3%A9?x"), "GET /kept"] {
        larder.ask(request);
    }
    assert_eq!(purged(&larder, "url=/caf%C3%A9%3Fx&hard"), (2, "removed".to_owned()));
    assert!(larder.get("/kept").is_hit() && !larder.ask(host).is_hit());
    let said = printed(&larder, &["purge", "--count", "--prefix", "/caf\u{e9}"]);
    assert!(said.starts_with("/caf\u{e9}...: 1 object marked stale"), "{said}");
    let sites = site(&[&origin], "hosts = 'a.test'") + &site(&[&origin], "hosts = 'b.test'");
    let refused = purge(&Larder::start(&sites), "url=/x");
    let expected = "'/x': write the whole URL: a path needs one site, and 2 are configured\n";
    assert_eq!((refused.status, refused.text()), (400, expected));
}

#[test]
fn a_star_in_a_prefix_or_url_is_a_warning() {
    let origin = origin();
    let larder = Larder::before(&origin);
    for (words, warning) in [
        (
            ["--prefix", "/a/*"],
            "'/a/*': a star stands for itself in a prefix; all URLs below are --prefix /a/; --glob has stars",
        ),
        (
            ["--hard", "/a/*.png"],
            "'/a/*.png': a star stands for itself in a URL; --glob '/a/*.png' means any text",
        ),
        (["--prefix", "/a/"], ""),
        (["--glob", "/a/*.png"], ""),
    ] {
        let done = command(&larder, &[&["purge"], &words[..]].concat());
        let expected =
            if warning.is_empty() { String::new() } else { format!("larder: warning: {warning}\n") };
        assert_eq!((stderr(&done), done.status.success()), (expected, true), "{words:?}");
    }
}

#[test]
fn a_softly_purged_response_stands_in_when_the_origin_fails() {
    let origin = Origin::in_order([
        "200 OK\nCache-Control: max-age=100, stale-if-error=100\nETag: \"1\"\n\nbody",
        "503 Service Unavailable",
        "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=100, stale-if-error=100",
    ]);
    let larder = Larder::before(&origin);
    larder.get("/page");
    assert_eq!(purged(&larder, &format!("url={URL}")), (1, "stale".to_owned()));
    assert_eq!((larder.get("/page").text(), origin.count()), ("body", 2));
    assert_eq!((larder.get("/page").text(), origin.count()), ("body", 3));
    assert_eq!(origin.last().field("if-none-match"), Some("\"1\""));
    assert!(larder.get("/page").is_hit());
}

#[test]
fn a_purge_reaches_what_it_names_and_nothing_else() {
    let all = ["/a/1", "/a/2", "/b/1"];
    let table: [(&str, &[&str]); 9] = [
        ("url=http://site.test/a/1", &["/a/1"]),
        ("prefix=http://site.test/a/", &["/a/1", "/a/2"]),
        ("tag=t1", &["/a/1", "/b/1"]),
        ("tag=t1&tag=t2", &all),
        ("tag=T1", &[]),
        ("group=g2&host=site.test", &["/a/2"]),
        ("group=g2&host=http://site.test:81", &[]),
        ("host=SITE.test", &all),
        ("all", &all),
    ];
    let origin = tagged();
    let larder = Larder::before(&origin);
    for effect in ["hard", "soft"] {
        for (query, reached) in table {
            all.iter().for_each(|path| drop(larder.get(path)));
            assert!(all.map(|path| larder.get(path)).iter().all(Response::is_hit));
            assert_eq!(purged(&larder, &format!("{query}&{effect}")).0, reached.len() as u64, "{query}");
            let missed = all.into_iter().filter(|path| !larder.get(path).is_hit());
            assert_eq!(missed.collect::<Vec<_>>(), reached, "{query} {effect}");
        }
    }
}

#[test]
fn a_hard_purge_frees_the_counted_room_of_removed_responses() {
    let origin = tagged();
    let larder = Larder::before(&origin);
    (0..600).for_each(|number| drop(larder.client().ask(&format!("GET /{number}"))));
    larder.settle();
    assert_eq!(larder.stat("objects"), 600);
    assert_eq!(purged(&larder, "tag=t7&hard"), (60, "removed".to_owned()));
    assert_eq!(larder.stat("objects"), 540);
    assert_eq!(purged(&larder, "all&hard"), (540, "removed".to_owned()));
    assert_eq!(larder.stat("objects"), 0);
    // A reply that is still being sent has its head until its end.
    larder.wait_for("bytes_stored", 0);
}

#[test]
fn a_purge_is_answered_without_a_count_and_frees_memory_afterwards() {
    let origin = tagged();
    let larder = Larder::before(&origin);
    ["/a/1", "/a/2"].iter().for_each(|path| drop(larder.get(path)));
    let answer = purge(&larder, "tag=t1&hard").json();
    assert_eq!(answer, json!({"tag": "t1", "effect": "removed"}));
    larder.wait_for("objects", 1);
    assert!(!larder.get("/a/1").is_hit() && larder.get("/a/2").is_hit());
    let with_unit = purge(&larder, "tag=t1&wait&timeout=1s");
    assert_eq!((with_unit.status, larder.get("/a/1").is_hit()), (200, false));
}

#[test]
fn purges_that_are_counted_at_the_same_time_are_all_done() {
    const TAGS: u64 = 30;
    let origin = Origin::by(|seen| {
        let number: u64 = seen.target[1..].parse().expect("a number");
        let tag = number % TAGS;
        format!("200 OK\nCache-Control: max-age=100\nCache-Tag: all, t{tag}.\n\nbody")
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    (0..4 * TAGS).for_each(|number| drop(client.ask(&format!("GET /{number}"))));
    larder.settle();
    std::thread::scope(|scope| {
        for tag in 0..TAGS {
            let (larder, effect) = (&larder, ["soft", "hard"][tag as usize % 2]);
            scope.spawn(move || {
                let answer = purge(larder, &format!("tag=t{tag}.&{effect}&count&wait"));
                let told = answer.json();
                assert_eq!((answer.status, &told["objects"]), (200, &json!(4)), "{told}");
            });
        }
    });
    assert_eq!(purged(&larder, "tag=all&hard").0, 4 * TAGS / 2);
}

#[test]
fn a_purge_reaches_the_disk() {
    let (directory, origin) = (tempfile::tempdir().expect("a directory"), origin());
    let disk = format!("[[disk]]\npath = '{}'\n[memory]\nentries = 1\n", directory.path().display());
    let larder = Larder::start(&format!("{disk}{}", site(&[&origin], "")));
    let on_disk = || {
        let stats = larder.stats();
        (stats["disks"][0]["bytes_queued"] == 0).then(|| stats["disks"][0]["objects"].as_u64())?
    };
    larder.get("/page");
    larder.ask("GET /page\nV: 1");
    larder.get("/other");
    let before = eventually("all on the disk", on_disk);
    let purged = json(&larder, &["purge", "--json", URL, "--hard", "--count", "--wait"]);
    assert_eq!((&purged["objects"], &purged["disk"]), (&json!(2), &json!("done")));
    assert_eq!(larder.get("/page").text(), "answer 3");
    larder.get("/other");
    eventually("all on the disk again", on_disk);
    let all = json(&larder, &["purge", "--json", "--host", "site.test", "--hard", "--count", "--wait"]);
    assert_eq!((&all["objects"], &all["disk"]), (&json!(2), &json!("done")));
    eventually("room on the disk", || on_disk().filter(|objects| *objects < before));
    assert_eq!(larder.get("/other").text(), "answer 4");
}

#[test]
fn the_command_says_what_was_reached() {
    let origin = tagged();
    let larder = Larder::before(&origin);
    larder.get("/page");
    let said = printed(&larder, &["purge", URL, "http://site.test/none"]);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("http://site.test/page: 1 object marked stale, "), "{said}");
    assert_eq!(lines[1], "http://site.test/none: nothing was stored");
    larder.get("/page");
    let said = printed(&larder, &["purge", "--group", "ge", "--host", "site.test", "--hard", "--count"]);
    assert!(said.starts_with("group ge of site.test: 1 object removed, "), "{said}");
    assert_eq!(printed(&larder, &["purge", "--tag", "all"]), "tag all: marked stale\n");
    for wrong in [&["purge"][..], &["purge", "--group", "g"], &["purge", "--all", "--soft", "--hard"]] {
        assert_eq!(command(&larder, wrong).status.code(), Some(2), "{wrong:?}");
    }
    let misspelt = command(&larder, &["purge", "--tags", "x"]);
    assert!(String::from_utf8_lossy(&misspelt.stderr).contains("'--tag'"), "{misspelt:?}");
}

#[test]
fn an_invalid_purge_is_refused_by_the_admin_listener() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let ask = |request: &str| larder.ask_admin(request);
    let get = ask("GET /purge?url=http://site.test/page");
    assert_eq!((get.status, get.field("allow")), (405, Some("POST")));
    for query in ["", "?url=x", "?url=http://a/&sotf", "?url=http://a/&tag=b", "?group=g"] {
        let refused = ask(&format!("POST /purge{query}\nLarder-Admin: 1"));
        assert_eq!((refused.status, refused.text().lines().count()), (400, 1), "{query}");
    }
    let nowhere = ask("POST /purge?url=http://[::1\nLarder-Admin: 1");
    assert_eq!(nowhere.text().trim(), "'http://[::1': '[::1' is not a host");
    assert_eq!(ask("POST /stats\nLarder-Admin: 1").status, 405);
}
