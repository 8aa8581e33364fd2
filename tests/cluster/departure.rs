//! Nodes that leave, and give the hottest of their responses away with their keys.

use std::process::Command;
use std::thread::scope;
use std::time::{Duration, Instant};

use larder_testkit::nodes::{cluster, node, wait_for};
use larder_testkit::{Engine, Larder, Origin, eventually, output, programs};
use rustix::process::Signal;

use crate::peers::{PAGE, paths};

/// Starts the nodes `a` and `b`, which keep no copies of each other's responses.
fn two(engine: &Engine, origin: &Origin) -> [Larder; 2] {
    let nodes = ["a", "b"].map(|name| node(engine, origin, name, "hot = 0.0"));
    wait_for(&nodes, &["a", "b"]);
    nodes
}

/// Makes `node` leave within `timeout`, and returns what the command prints.
fn leave(node: &Larder, timeout: &str) -> String {
    let mut command = Command::new(programs::larder());
    let admin = node.admin.to_string();
    output(command.args(["cluster", "leave", "--admin", &admin, "--timeout", timeout]))
}

#[test]
fn responses_of_a_node_that_leaves_stay_hits_after_its_end() {
    let (engine, origin) = (
        Engine::start(),
        Origin::by(|seen| {
            let language = seen.field("accept-language").unwrap_or("-");
            format!("200 OK\nCache-Control: max-age=60\nVary: Accept-Language\n\n{language}")
        }),
    );
    let [mut a, b] = two(&engine, &origin);
    let ask = |node: &Larder, path: &str, language: &str| {
        node.ask(&format!("GET {path}\nAccept-Language: {language}"))
    };
    for path in paths(30) {
        for language in ["de", "en"] {
            assert_eq!(ask(&a, &path, language).text(), language);
        }
    }
    let said = leave(&a, "20s");
    assert!(said.starts_with("a: owns no keys; gave ") && said.contains(" to b)"), "{said}");
    assert_eq!(a.ask_admin("GET /readyz").status, 503);
    a.stop();
    wait_for(std::slice::from_ref(&b), &["b"]);
    for path in paths(30) {
        for language in ["de", "en"] {
            let answer = ask(&b, &path, language);
            let status = answer.field("cache-status").unwrap_or_default();
            assert!(answer.text() == language && status.contains("; hit"), "{path}: {status}");
        }
    }
    assert_eq!(origin.count(), 60);
}

#[test]
fn the_owner_of_a_drained_key_asks_that_node_before_the_origin() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let [a, b] = two(&engine, &origin);
    for path in paths(10) {
        assert_eq!(a.get(&path).status, 200);
    }
    assert_eq!(b.ask_admin("POST /cluster/drain?node=a\nLarder-Admin: 1").status, 200);
    for node in [&a, &b] {
        let drains = || (cluster(node)["nodes"][0]["draining"] == true).then_some(());
        eventually("a to drain", drains);
    }
    for path in paths(20) {
        assert_eq!(b.get(&path).text(), "body", "{path}");
    }
    assert_eq!(origin.count(), 20, "ten of them were stored at one of the nodes");
}

#[test]
fn purges_win_over_responses_that_a_leaving_node_gives_away() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let [a, b] = two(&engine, &origin);
    for path in paths(300) {
        assert_eq!(a.get(&path).status, 200);
    }
    scope(|threads| {
        let leaving = threads.spawn(|| leave(&a, "20s"));
        for path in paths(300) {
            let before = origin.count_of(&path);
            let url = format!("http://site.test{path}");
            let purged = b.ask_admin(&format!("POST /purge?url={url}&hard&wait\nLarder-Admin: 1"));
            assert_eq!((purged.status, b.get(&path).status), (200, 200));
            assert_eq!(origin.count_of(&path), before + 1, "{path} was purged");
        }
        leaving.join().expect("it leaves");
    });
}

#[test]
fn an_owner_that_hangs_delays_a_departure_no_longer_than_its_limit() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let [a, b] = two(&engine, &origin);
    for path in paths(30) {
        assert_eq!(a.get(&path).status, 200);
    }
    b.signal(Signal::STOP);
    let begun = Instant::now();
    let said = leave(&a, "1s");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(said.contains("gave 0 responses"), "{said}");
    b.signal(Signal::CONT);
}
