//! Responses in the engine: the next owner of a key uses them, unless they were purged, are too old or damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_testkit::nodes::{cluster, wait_for};
use larder_testkit::{Answer, ELECTION, Engine, Gate, Larder, Origin, eventually, within};
use rustix::process::Signal;

use crate::invalidations::{Pages, node, node_by, purge, version};

/// Keys that let a node wait for the engine however busy the machine is, and miss no purge during a test.
pub(crate) const TIER: &str = "tier = '8MiB'\ntier_deadline = '20s'\nmax_invalidation_lag = '10m'";
const PAGE: &str = "200 OK\nCache-Control: max-age=3600\n\nbody";

/// Starts the node `a`, which owns all keys.
pub(crate) fn alone(engine: &Engine, origin: &Origin, keys: &str) -> Larder {
    alone_by(&engine.url(), origin, keys)
}

/// Starts the node `a` with the engine at `url`, and waits until it is a member and receives purges.
fn alone_by(url: &str, origin: &Origin, keys: &str) -> Larder {
    let node = node_by(url, origin, "a", [&format!("{TIER}\n{keys}"), ""], "");
    within(ELECTION, "a member", || (cluster(&node)["standing"] == "member").then_some(()));
    wait_for_news(&node);
    node
}

/// Waits until `node` receives purges: before that it writes no responses to the engine.
pub(crate) fn wait_for_news(node: &Larder) {
    let hears = || cluster(node)["invalidations"]["lag_seconds"].is_number().then_some(());
    within(ELECTION, "a node that hears of purges", hears);
}

/// Stops `node` and starts another node in its place, with an empty memory.
pub(crate) fn again(mut node: Larder, engine: &Engine, origin: &Origin, keys: &str) -> Larder {
    node.signal(Signal::TERM);
    node.ended();
    alone(engine, origin, keys)
}

fn count(node: &Larder, name: &str) -> u64 {
    cluster(node)["tier"][name].as_u64().expect("a number")
}

/// Kills `node` and starts another node in its place, after the `servers` have removed the killed one.
fn killed(mut node: Larder, servers: &[Engine], url: &str, origin: &Origin) -> Larder {
    node.signal(Signal::KILL);
    node.ended();
    servers.iter().for_each(|server| drop(server.tell(&["del", "{larder}:node:a"])));
    alone_by(url, origin, "")
}

/// Waits until `node` has written `written` responses to the engine.
pub(crate) fn wait_for_written(node: &Larder, written: u64) {
    eventually(&format!("{written} written"), || (count(node, "written") == written).then_some(()));
}

/// Returns the names of the engine's keys for content.
pub(crate) fn names(engine: &Engine) -> Vec<String> {
    let names = engine.tell(&["--raw", "keys", "larder:content:*"]);
    names.lines().filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_restarted_node_answers_without_the_origin() {
    let (engine, origin) =
        (Engine::start(), Origin::always("200 OK\nCache-Control: max-age=3600\nAge: 100\n\nbody"));
    let first = alone(&engine, &origin, "");
    assert_eq!(first.get("/page").text(), "body");
    wait_for_written(&first, 1);
    let second = again(first, &engine, &origin, "");
    let response = second.get("/page");
    assert_eq!((response.status, response.text(), response.is_hit()), (200, "body", true));
    assert!(response.age() >= Some(100), "{:?}", response.age());
    second.get("/page");
    second.wait_for("engine_hits", 1);
    second.wait_for("hits", 2);
    assert_eq!((count(&second, "hits"), origin.count()), (1, 1));
}

#[test]
fn section_4_3_4_a_record_with_replaced_fields_answers_no_request() {
    for (method, new, confirmed) in [
        ("GET", "Vary: X-V", "first"),
        ("GET", "Cache-Control: private", "another"),
        ("HEAD", "X: y", "another"),
    ] {
        let engine = Engine::start();
        let origin = Origin::by(move |seen| match (seen.method.as_str(), seen.field("if-none-match")) {
            ("HEAD", _) => format!("200 OK\nContent-Length: 5\nETag: \"1\"\n{new}"),
            (_, Some(_)) => format!("304 Not Modified\nETag: \"1\"\n{new}"),
            _ if seen.number == 0 => "200 OK\nCache-Control: max-age=3600\nETag: \"1\"\n\nfirst".to_owned(),
            _ => "200 OK\nCache-Control: no-store\n\nanother".to_owned(),
        });
        let node = alone(&engine, &origin, "");
        node.get("/page");
        wait_for_written(&node, 1);
        node.ask(&format!("{method} /page\nX-V: 2\nCache-Control: no-cache"));
        match confirmed {
            "first" => wait_for_written(&node, 2),
            _ => eventually("no record", || names(&engine).is_empty().then_some(())),
        }
        let node = again(node, &engine, &origin, "");
        for (value, expected) in [(2, confirmed), (3, "another"), (1, "another")] {
            assert_eq!(node.ask(&format!("GET /page\nX-V: {value}")).text(), expected, "{method} {new}");
        }
    }
}

#[test]
fn a_tier_spread_over_clustered_masters_outlives_a_killed_node() {
    let masters = Engine::cluster();
    let (url, long) = (Engine::url_of_cluster(&masters), vec![b'a'; 3 << 20]);
    let text = long.clone();
    let origin = Origin::answering(move |seen| {
        let body = if seen.target == "/long" { &text[..] } else { seen.target.as_bytes() };
        Answer::with_body("200 OK\nCache-Control: max-age=3600", body)
    });
    let paths: Vec<_> = (0..20).map(|number| format!("/{number}")).collect();
    let first = alone_by(&url, &origin, "tier_compression = false");
    paths.iter().for_each(|path| assert_eq!(first.get(path).text(), path));
    assert!(first.get("/long").body == long);
    wait_for_written(&first, 21);
    masters.iter().for_each(|master| assert!(!names(master).is_empty(), "{}", master.url()));
    let second = killed(first, &masters, &url, &origin);
    for path in &paths {
        let response = second.get(path);
        assert_eq!((response.text(), response.is_hit()), (path.as_str(), true));
    }
    let response = second.get("/long");
    assert!(response.body == long && response.is_hit());
    assert_eq!((count(&second, "hits"), origin.count()), (21, 21));
}

#[test]
fn a_sentinel_tier_outlives_a_node_and_is_distrusted_after_failover() {
    let (mut master, origin) = (Engine::start(), Origin::always(PAGE));
    let replica = Engine::replica(&master);
    let sentinel = Engine::sentinel(&master);
    let (url, servers) = (sentinel.url_of_sentinel(), std::slice::from_ref(&replica));
    sentinel.knows_a_replica();
    let first = alone_by(&url, &origin, "");
    first.get("/page");
    wait_for_written(&first, 1);
    let second = killed(first, std::slice::from_ref(&master), &url, &origin);
    assert!(second.get("/page").is_hit());
    assert_eq!((count(&second, "hits"), origin.count()), (1, 1));
    eventually("the replica to have it", || (names(&replica).len() == 1).then_some(()));
    master.kill();
    within(ELECTION, "the replica to take over", || replica.is_master().then_some(()));
    let third = killed(second, servers, &url, &origin);
    assert!(!third.get("/page").is_hit());
    assert_eq!((count(&third, "outdated"), origin.count()), (1, 2));
    wait_for_written(&third, 1);
    let fourth = killed(third, servers, &url, &origin);
    assert!(fourth.get("/page").is_hit());
    assert_eq!((count(&fourth, "hits"), origin.count()), (1, 2));
}

#[test]
fn another_node_answers_for_a_node_that_ended() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let start = |name| node(&engine, &origin, name, [TIER, ""], "");
    let mut nodes = vec![start("a"), start("b")];
    wait_for(&nodes, &["a", "b"]);
    let paths: Vec<_> = (0..20).map(|number| format!("/{number}")).collect();
    paths.iter().for_each(|path| assert_eq!(nodes[0].get(path).status, 200));
    let written = || nodes.iter().map(|node| count(node, "written")).sum::<u64>();
    eventually("all to be written", || (written() == 20).then_some(()));
    let mut leaves = nodes.pop().expect("two");
    leaves.signal(Signal::TERM);
    leaves.ended();
    wait_for(&nodes, &["a"]);
    paths.iter().for_each(|path| assert!(nodes[0].get(path).is_hit(), "{path}"));
    assert_eq!(origin.count(), 20);
}

#[test]
fn a_long_body_comes_back_in_pieces() {
    let body: Vec<u8> = (0..5_000_000_u32).map(|number| (number >> 9) as u8).collect();
    let text = body.clone();
    let head = "200 OK\nCache-Control: max-age=3600";
    let (engine, origin) = (Engine::start(), Origin::answering(move |_| Answer::with_body(head, &text)));
    let mut node = alone(&engine, &origin, "");
    for compression in ["true", "false"] {
        let (keys, path) = (format!("tier_compression = {compression}"), format!("/{compression}"));
        node = again(node, &engine, &origin, &keys);
        assert!(node.get(&path).body == body, "{compression}");
        wait_for_written(&node, 1);
        node = again(node, &engine, &origin, &keys);
        let response = node.get(&path);
        assert!(response.body == body && response.is_hit(), "{compression}");
    }
    // A record and five chunks for each of the two responses.
    assert_eq!((origin.count(), names(&engine).len()), (2, 12));
}

#[test]
fn each_variant_answers_the_requests_that_select_it() {
    let origin = Origin::by(|seen| {
        let language = seen.field("accept-language").unwrap_or("none").to_owned();
        format!("200 OK\nCache-Control: max-age=3600\nVary: Accept-Language\n\n{language}")
    });
    let engine = Engine::start();
    let ask = |node: &Larder, language: &str| {
        let response = node.ask(&format!("GET /page\nAccept-Language: {language}"));
        (response.text().to_owned(), response.is_hit())
    };
    let first = alone(&engine, &origin, "");
    assert_eq!(["de", "en"].map(|language| ask(&first, language).1), [false, false]);
    wait_for_written(&first, 2);
    let second = again(first, &engine, &origin, "");
    for (language, is_hit) in [("en", true), ("de", true), ("fr", false)] {
        assert_eq!(ask(&second, language), (language.to_owned(), is_hit));
    }
}

#[test]
fn private_stale_and_oversized_responses_are_not_kept_in_the_tier() {
    let origin = Origin::by(|seen| match &*seen.target {
        "/cookie" => "200 OK\nCache-Control: max-age=3600\nSet-Cookie: a=b\n\nbody".to_owned(),
        "/stale" => "200 OK\nCache-Control: max-age=3600\nAge: 3600\nETag: \"1\"\n\nbody".to_owned(),
        "/long" => format!("200 OK\nCache-Control: max-age=3600\n\n{}", "a".repeat(1_100_000)),
        _ => "200 OK\nCache-Control: public, max-age=3600\n\nbody".to_owned(),
    });
    let engine = Engine::start();
    let node = node(&engine, &origin, "a", [&TIER.replace("8MiB", "1MiB"), ""], "");
    eventually("a member", || (cluster(&node)["standing"] == "member").then_some(()));
    for path in ["/cookie", "/stale", "/long", "/page\nAuthorization: Basic YTpi"] {
        assert_eq!(node.ask(&format!("GET {path}")).status, 200, "{path}");
    }
    node.get("/plain");
    wait_for_written(&node, 1);
    assert_eq!(names(&engine).len(), 1);
}

#[test]
fn an_expired_tier_record_is_gone() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let keys = "tier_lifetime = '1s'";
    let first = alone(&engine, &origin, keys);
    first.get("/page");
    wait_for_written(&first, 1);
    eventually("it to expire", || names(&engine).is_empty().then_some(()));
    let second = again(first, &engine, &origin, keys);
    assert!(!second.get("/page").is_hit());
    assert_eq!((origin.count(), count(&second, "hits")), (2, 0));
}

#[test]
fn a_purged_response_does_not_come_back_from_the_tier() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let mut node = alone(&engine, &origin, "");
    for query in [
        "tag=t",
        "url=http://site.test/page&hard",
        "prefix=http://site.test/",
        "group=g&host=site.test",
        "all",
    ] {
        let before = version(&node, "/page");
        wait_for_written(&node, 1);
        let now = pages.change();
        assert_eq!(purge(&node, query)["nodes"]["published"], true, "{query}");
        node = again(node, &engine, &origin, "");
        assert_eq!((before, version(&node, "/page")), (now - 1, now), "{query}");
        assert_eq!((count(&node, "hits"), count(&node, "outdated")), (0, 1), "{query}");
    }
}

#[test]
fn a_purge_wins_over_a_fetch_that_is_under_way() {
    let (gate, asked) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (held, number) = (gate.clone(), Arc::clone(&asked));
    let origin = Origin::answering(move |_| {
        let number = number.fetch_add(1, Ordering::SeqCst);
        if number == 0 {
            held.pass();
        }
        let body = number.to_string();
        Answer::with_body("200 OK\nCache-Control: max-age=3600\nCache-Tag: t", body.as_bytes())
    });
    let engine = Engine::start();
    let first = alone(&engine, &origin, "");
    let mut client = first.client();
    client.send("GET /page");
    eventually("the origin to be asked", || (asked.load(Ordering::SeqCst) == 1).then_some(()));
    assert_eq!(purge(&first, "tag=t")["nodes"]["published"], true);
    gate.open();
    assert_eq!(client.receive("GET").text(), "0");
    let second = again(first, &engine, &origin, "");
    assert_eq!(second.get("/page").text(), "1");
    assert_eq!(count(&second, "hits"), 0);
}

/// The kind of damage, and a function that does it to the chunk or the record of this name.
type Damage<'d> = (&'static str, &'d dyn Fn(&str));

#[test]
fn a_damaged_or_incomplete_tier_record_is_fetched_again() {
    let body = vec![b'a'; 3 << 20];
    let text = body.clone();
    let head = "200 OK\nCache-Control: max-age=3600";
    let (engine, origin) = (Engine::start(), Origin::answering(move |_| Answer::with_body(head, &text)));
    let mut node = alone(&engine, &origin, "");
    node.get("/page");
    wait_for_written(&node, 1);
    let is_chunk = |name: &&String| name.ends_with(":2");
    let damages: [Damage<'_>; 4] = [
        ("a chunk is other bytes", &|name| drop(engine.tell(&["setrange", name, "9", "xyz"]))),
        ("a chunk is gone", &|name| drop(engine.tell(&["del", name]))),
        ("the record is cut off", &|name| {
            let record = &name[..name.find('}').expect("a slot") + 1];
            engine.tell(&["set", record, "larder 2", "keepttl"]);
        }),
        ("the record lives for ever", &|name| {
            engine.tell(&["persist", &name[..name.find('}').expect("a slot") + 1]]);
        }),
    ];
    for (number, (what, damage)) in damages.iter().enumerate() {
        let names = names(&engine);
        let known: Vec<_> = names.iter().filter(is_chunk).collect();
        known.iter().for_each(|name| damage(name));
        assert!(!known.is_empty(), "{what}: {names:?}");
        node = again(node, &engine, &origin, "");
        assert_eq!((node.get("/page").body == body, count(&node, "damaged")), (true, 1), "{what}");
        assert_eq!(origin.count(), number + 2, "{what}");
        wait_for_written(&node, 1);
    }
}

#[test]
fn of_an_overlong_value_on_the_engine_little_is_read() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let node = alone(&engine, &origin, "");
    node.get("/page");
    wait_for_written(&node, 1);
    let [record] = &names(&engine)[..] else { panic!("{:?}", names(&engine)) };
    engine.tell(&["setrange", record, "100000000", "x"]);
    let node = again(node, &engine, &origin, "");
    let sent = || -> u64 {
        let figures = engine.tell(&["info", "stats"]);
        let line = figures.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.and_then(|count| count.trim().parse().ok()).expect("a number")
    };
    let before = sent();
    assert_eq!((node.get("/page").status, count(&node, "damaged"), origin.count()), (200, 1, 2));
    assert!(sent() - before < 10 << 20, "{} bytes", sent() - before);
}

#[test]
fn requests_continue_while_the_engine_is_down_and_the_tier_recovers() {
    let (mut engine, origin) = (Engine::start(), Origin::always(PAGE));
    let node = alone(&engine, &origin, "");
    engine.kill();
    let mut paths = (0..).map(|number| format!("/{number}"));
    let mut ask = || node.get(&paths.next().expect("endless")).status;
    let state = |side: &str| cluster(&node)["tier"][side].as_str().expect("a word").to_owned();
    eventually("both to be left alone", || {
        assert_eq!(ask(), 200);
        ["reads", "writes"].iter().all(|side| state(side) != "closed").then_some(())
    });
    node.wait_for_log("the second tier is not read for a while");
    eventually("both to be counted", || {
        assert_eq!(ask(), 200);
        (count(&node, "failed") >= 3 && count(&node, "dropped") >= 3).then_some(())
    });
    engine.restart();
    eventually("both to be used again", || {
        assert_eq!(ask(), 200);
        ["reads", "writes"].iter().all(|side| state(side) == "closed").then_some(())
    });
    let before = count(&node, "written");
    eventually("responses to be kept", || {
        assert_eq!(ask(), 200);
        (count(&node, "written") > before).then_some(())
    });
}

#[test]
fn an_engine_that_hangs_does_not_delay_requests_for_long() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let short = TIER.replace("20s", "200ms");
    let node = node(&engine, &origin, "a", [&short, ""], "");
    eventually("a member", || (cluster(&node)["standing"] == "member").then_some(()));
    engine.signal(Signal::STOP);
    let mut paths = (0..).map(|number| format!("/{number}"));
    eventually("it to be left alone", || {
        assert_eq!(node.get(&paths.next().expect("endless")).status, 200);
        (count(&node, "skipped") > 0).then_some(())
    });
    engine.signal(Signal::CONT);
    eventually("it to be used again", || {
        assert_eq!(node.get(&paths.next().expect("endless")).status, 200);
        (cluster(&node)["tier"]["reads"] == "closed").then_some(())
    });
}
