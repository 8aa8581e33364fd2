//! Purges at a cache in front of an origin reach the caches before it.

use larder_testkit::{Larder, Origin, site};

use crate::{command, json};

const TOKEN: &str = "admin_token = '0123456789abcdef'\n";

#[test]
fn a_purge_at_a_shield_reaches_its_edges() {
    let origin = Origin::by(|seen| {
        format!("200 OK\nCache-Control: max-age=100\nCache-Tag: t\n\nanswer {}", seen.number)
    });
    let at_shield = site(&[&origin], "purge_from = '127.0.0.1'");
    let shield = Larder::start(&format!("{TOKEN}{at_shield}"));
    let at_edge = format!("[[site]]\norigin = 'http://{}'\n", shield.address());
    let edges = [(); 2].map(|()| Larder::start(&format!("{TOKEN}{at_edge}")));
    let [one, other] = edges.each_ref().map(|edge| edge.admin);
    shield.reload(&format!("{TOKEN}purge_edges = ['http://{one}', 'http://{other}']\n{at_shield}"));
    shield.wait_for_log("config reloaded");
    let read = || edges.each_ref().map(|edge| edge.get("/a").text().to_owned());
    assert_eq!(read(), ["answer 0", "answer 0"]);
    let purged = json(&shield, &["purge", "http://site.test/a", "--hard", "--json"]);
    assert_eq!(purged["edges"]["purged"], 2, "{purged}");
    assert_eq!(read(), ["answer 1", "answer 1"]);
    assert_eq!(shield.ask("PURGE /\nCache-Tag: t\nLarder-Purge: hard").status, 200);
    assert_eq!(read(), ["answer 2", "answer 2"]);
    let [one, other] = edges;
    drop(other);
    let failed = command(&shield, &["purge", "--all", "--hard"]);
    assert!(!failed.status.success(), "{failed:?}");
    assert!(
        String::from_utf8_lossy(&failed.stderr).contains("not in force at an edge: http://"),
        "{failed:?}"
    );
    assert_eq!(one.get("/a").text(), "answer 3");
}
