//! The panel of the cluster, which is shown only in a cluster.

use crate::browser::Browser;
use crate::{WIDE, mixed};
use larder_testkit::nodes::{node, three};
use larder_testkit::{Engine, Larder, Origin};

#[test]
fn nodes_are_shown_with_their_parts_of_the_keys() {
    let (origin, mut engine) = (Origin::by(mixed), Engine::start());
    let nodes = three(&engine, &origin, "");
    let mut browser = Browser::at(nodes[0].admin, WIDE);
    browser.until("document.querySelectorAll('#nodes tbody tr').length === 3");
    assert_eq!(browser.text("#standing"), "a is a member of the cluster");
    let table = browser.text("#nodes");
    for words in ["a (this node)", "up http://", "33.3%"] {
        assert!(table.contains(words), "{words} in {table}");
    }
    assert!(browser.text("#engine").starts_with("engine redis://127.0.0.1:"), "{}", browser.text("#engine"));
    (0..40).for_each(|number| drop(nodes[0].get(&format!("/a/{number}"))));
    browser.until("parseInt(document.querySelector('#peers').innerText) > 10");
    engine.kill();
    browser.until(
        "document.querySelector('#standing').innerText === 'a works alone: the engine does not answer'",
    );
    browser.until("document.querySelector('#engine').innerText.includes(' down for ')");
    browser.is_content(nodes[0].admin);
}

#[test]
fn a_lost_node_is_reported_with_the_time() {
    let (origin, engine) = (Origin::by(mixed), Engine::start());
    let mut nodes = three(&engine, &origin, "");
    let mut browser = Browser::at(nodes[0].admin, WIDE);
    browser.until("document.querySelectorAll('#nodes tbody tr').length === 3");
    assert_eq!(browser.eval("document.querySelector('#troubles').hidden"), true);
    drop(nodes.pop());
    let told = r"/^Node c \(http:\S+\) left the cluster or was lost: not a member since \d\d:\d\d:\d\d\./";
    browser.until(&format!("{told}.test(document.querySelector('#troubles').innerText)"));
    browser.until("document.querySelectorAll('#nodes tbody tr').length === 2");
    nodes.push(node(&engine, &origin, "c", ""));
    browser.until("document.querySelector('#troubles').hidden");
    browser.is_content(nodes[0].admin);
}

#[test]
fn a_proxy_without_a_cluster_shows_no_panel_of_one() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelectorAll('#plots canvas').length > 0");
    assert_eq!(browser.eval("document.querySelector('#cluster').hidden"), true);
    browser.is_content(larder.admin);
}
