//! Purges: what is stored for a URL goes, from every tier, whatever selects it and whoever asked for it.

use serde_json::{Value, json};

use super::{command, json, printed};
use crate::support::{Larder, Origin, Response, eventually, site};

const URL: &str = "http://site.test/page";

fn purge(larder: &Larder, url: &str) -> Response {
    larder.ask_admin(&format!("POST /purge?url={url}\nLarder-Admin: 1"))
}

fn origin() -> Origin {
    Origin::by(|seen| {
        let number = seen.number;
        format!("200 OK\nCache-Control: max-age=100\nVary: V\n\nanswer {number}")
    })
}

#[test]
fn the_next_request_after_a_purge_asks_the_origin() {
    let origin = origin();
    let larder = Larder::before(&origin);
    larder.get("/page");
    larder.ask("GET /page\nV: 1");
    larder.get("/other");
    let purged: Value = serde_json::from_slice(&purge(&larder, URL).body).expect("json");
    assert_eq!((&purged["url"], &purged["objects"]), (&json!(URL), &json!(2)));
    assert!(purged["bytes"].as_u64() > Some(16), "{purged}");
    assert_eq!(larder.get("/page").text(), "answer 3");
    assert_eq!(larder.ask("GET /page\nV: 1").text(), "answer 4");
    assert!(larder.get("/other").is_hit());
    let again: Value = serde_json::from_slice(&purge(&larder, "http://site.test/none").body).expect("json");
    assert_eq!((&again["objects"], &again["bytes"]), (&json!(0), &json!(0)));
}

#[test]
fn a_purge_reaches_the_disk() {
    let (directory, origin) = (tempfile::tempdir().expect("a directory"), origin());
    let disk = format!("[[disk]]\npath = '{}'\n[memory]\nentries = 1\n", directory.path().display());
    let larder = Larder::start(&format!("{disk}{}", site(&[&origin], "")));
    larder.get("/page");
    larder.get("/other");
    eventually("both on the disk", || (larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(()));
    let purged = json(&larder, &["purge", "--json", URL]);
    assert_eq!(purged["objects"], 1);
    assert_eq!(larder.get("/page").text(), "answer 2");
}

#[test]
fn the_command_says_what_is_gone() {
    let origin = origin();
    let larder = Larder::before(&origin);
    larder.get("/page");
    let said = printed(&larder, &["purge", URL, "http://site.test/none"]);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("http://site.test/page: 1 object forgotten, "), "{said}");
    assert_eq!(lines[1], "http://site.test/none: nothing was stored");
    assert_eq!(command(&larder, &["purge"]).status.code(), Some(2));
}

#[test]
fn what_is_no_purge_is_refused() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let ask = |request: &str| larder.ask_admin(request);
    let get = ask("GET /purge?url=http://site.test/page");
    assert_eq!((get.status, get.field("allow")), (405, Some("POST")));
    for query in ["", "?url=x", "?url=http://a/&soft"] {
        let refused = ask(&format!("POST /purge{query}\nLarder-Admin: 1"));
        assert_eq!((refused.status, refused.text().lines().count()), (400, 1), "{query}");
    }
    assert_eq!(ask("POST /stats\nLarder-Admin: 1").status, 405);
}
