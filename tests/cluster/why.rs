//! `why` about the second tier: it predicts the outcome, then the request is sent and has this outcome.

use std::time::{Duration, Instant};

use larder_testkit::nodes::wait_for;
use larder_testkit::{Answer, Engine, Larder, Origin, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::invalidations::{node, purge};
use crate::tier::{TIER, again, alone, names, wait_for_news, wait_for_written};

const PAGE: &str = "200 OK\nCache-Control: max-age=3600\nAge: 100\nCache-Tag: t\n\nbody";

/// Returns the response to `GET /why` for a path of the site, with more of a query.
fn why(node: &Larder, path: &str, more: &str) -> Value {
    node.ask_admin(&format!("GET /why?url=http://site.test{path}{more}")).json()
}

/// Returns this response once the engine has answered in time: machines that run tests can be busy.
fn answered(node: &Larder, path: &str, more: &str) -> Value {
    eventually("an answer of the engine", || {
        let said = why(node, path, more);
        (!["failed", "skipped"].map(Value::from).contains(&said["second_tier"]["result"])).then_some(said)
    })
}

#[test]
fn why_tells_whether_the_second_tier_would_answer_a_request() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let first = alone(&engine, &origin, "");
    first.get("/page");
    wait_for_written(&first, 1);
    let kept = answered(&first, "/page", "");
    assert_eq!((&kept["decision"]["outcome"], &kept["stored"]["tier"]), (&json!("hit"), &json!("memory")));
    assert_eq!(kept["second_tier"]["answers"], false, "{kept:#}");
    let second = again(first, &engine, &origin, "");
    let first_only = "only misses that other clients may share are looked up there";
    for (path, more, outcome, result, answers, about) in [
        ("/page", "", "hit", "hit", true, "not purged since its fetch began"),
        ("/page", "&method=HEAD", "miss", "hit", false, first_only),
        ("/page", "&method=POST", "pass", "hit", false, first_only),
        ("/page", "&header=Range:+bytes=0-1", "miss", "hit", false, first_only),
        ("/page", "&header=Cache-Control:+no-cache", "miss", "hit", false, first_only),
        ("/page", "&header=Cache-Control:+only-if-cached", "failed", "hit", false, first_only),
        ("/other", "", "miss", "miss", false, "it has no variant that this request selects"),
    ] {
        let said = answered(&second, path, more);
        let tier = &said["second_tier"];
        assert_eq!(
            (&said["decision"]["outcome"], &tier["result"], &tier["answers"], &tier["owner"]),
            (&json!(outcome), &json!(result), &json!(answers), &json!("a")),
            "{path} {more}: {said:#}"
        );
        assert!(
            tier["explanation"].as_str().is_some_and(|text| text.contains(about)),
            "{path} {more}: {tier}"
        );
        assert_eq!(said["stored"], Value::Null, "{path} {more}");
        if result == "hit" {
            let kept = &tier["kept"];
            assert_eq!((&kept["bytes"], &kept["lifetime"]), (&json!(4), &json!(3600)), "{path} {more}");
            assert!(kept["age"].as_u64() >= Some(100), "{kept}");
        }
    }
    // `why` has sent no request to the origin, and counted no request.
    assert_eq!((origin.count(), second.stat("requests")), (1, 0));
    assert!(second.get("/page").is_hit());
    assert_eq!(origin.count(), 1);
}

#[test]
fn why_gives_the_reason_a_second_tier_record_may_not_answer() {
    let body = vec![b'a'; 3 << 20];
    let head = "200 OK\nCache-Control: max-age=3600\nCache-Tag: t";
    let (engine, origin) = (Engine::start(), Origin::answering(move |_| Answer::with_body(head, &body)));
    let first = alone(&engine, &origin, "");
    first.get("/page");
    wait_for_written(&first, 1);
    let second = again(first, &engine, &origin, "");
    let said = |result: &str, about: &str| {
        let said = answered(&second, "/page", "");
        let tier = &said["second_tier"];
        assert_eq!((&tier["result"], &tier["kept"]["bytes"]), (&json!(result), &json!(3 << 20)), "{tier}");
        assert!(tier["explanation"].as_str().is_some_and(|text| text.contains(about)), "{tier}");
        assert_eq!(said["decision"]["asks_origin"], result != "hit", "{said:#}");
    };
    said("hit", "not purged");
    let chunk = names(&engine).into_iter().find(|name| name.ends_with(":2")).expect("three chunks");
    engine.tell(&["rename", &chunk, "elsewhere"]);
    said("damaged", "incomplete");
    engine.tell(&["rename", "elsewhere", &chunk]);
    said("hit", "not purged");
    let is_published = || (purge(&second, "tag=t")["nodes"]["published"] == true).then_some(());
    eventually("a purge that is published", is_published);
    said("outdated", "it was purged since its fetch began");
    engine.tell(&["xtrim", "{larder}:invalidations", "maxlen", "1"]);
    said("outdated", "the stream does not go back so far");
}

#[test]
fn a_node_names_the_owner_of_a_key() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let start = |name| node(&engine, &origin, name, [TIER, ""], "");
    let nodes = vec![start("a"), start("b")];
    wait_for(&nodes, &["a", "b"]);
    nodes.iter().for_each(wait_for_news);
    let owner = answered(&nodes[0], "/page", "")["second_tier"]["owner"].clone();
    let (owns, other) = if owner == "a" { (&nodes[0], &nodes[1]) } else { (&nodes[1], &nodes[0]) };
    owns.get("/page");
    wait_for_written(owns, 1);
    let tier = answered(other, "/page", "")["second_tier"].clone();
    assert_eq!((&tier["result"], &tier["owner"], &tier["answers"]), (&json!("hit"), &owner, &json!(false)));
    let text = tier["explanation"].as_str().expect("a sentence");
    assert!(
        text.ends_with(&format!("but node {owner} owns the key, and reads from there").replace('"', "'")),
        "{text}"
    );
}

#[test]
fn why_reports_a_hanging_or_dead_engine_without_a_long_wait() {
    let (mut engine, origin) = (Engine::start(), Origin::always(PAGE));
    let node = alone(&engine, &origin, "");
    answered(&node, "/page", "");
    engine.signal(Signal::STOP);
    let begun = Instant::now();
    let said = why(&node, "/page", "");
    // A request would wait for 20 seconds here.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let tier = json!({
        "result": "failed", "explanation": "no answer in time", "answers": false, "owner": "a", "kept": null,
    });
    assert_eq!((&said["second_tier"], &said["decision"]["outcome"]), (&tier, &json!("miss")));
    engine.signal(Signal::CONT);
    assert_eq!(answered(&node, "/page", "")["second_tier"]["result"], "miss");
    engine.kill();
    let failed = || (why(&node, "/page", "")["second_tier"]["result"] == "failed").then_some(());
    eventually("a failure", failed);
    engine.restart();
    assert_eq!(answered(&node, "/page", "")["second_tier"]["result"], "miss");
}

#[test]
fn without_a_second_tier_nothing_is_said_of_it() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let node = node(&engine, &origin, "a", ["", ""], "");
    assert_eq!(why(&node, "/page", "").get("second_tier"), None);
}
