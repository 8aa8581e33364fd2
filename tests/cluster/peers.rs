//! Ownership of keys, and requests between nodes.

use std::time::Duration;

use larder_testkit::nodes::{OVER_TLS, asked, cluster, config, node, peer_address, three, wait_for};
use larder_testkit::{Answer, Client, Engine, Gate, Larder, Origin, eventually};
use rustix::process::Signal;

pub(crate) const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\nbody";

pub(crate) fn paths(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/page/{number}")).collect()
}

/// Returns a path that the node `owner` owns; `asks` is another node, which has requested it from `owner` once.
pub(crate) fn path_of(owner: &Larder, asks: &Larder) -> String {
    let mine = |path: &String| {
        let (before, others) = (owner.stat("requests"), asked(asks, "asked"));
        asks.get(path);
        // A node counts a request after its response, so the check waits before it decides that another node owns the
        // path.
        let is_counted = |_| {
            let counted = owner.stat("requests") > before;
            if !counted {
                std::thread::sleep(Duration::from_millis(10));
            }
            counted
        };
        asked(asks, "asked") > others && (0..50).any(is_counted)
    };
    paths(64).into_iter().find(mine).expect("one in three or so")
}

#[test]
fn each_key_is_fetched_once_for_all() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "");
    for path in paths(30) {
        for node in &nodes {
            let response = node.get(&path);
            assert_eq!((response.status, response.text()), (200, "body"), "{path}");
        }
    }
    for path in paths(30) {
        assert_eq!(origin.count_of(&path), 1, "{path}");
    }
    assert!(nodes.iter().all(|node| asked(node, "asked") > 0 && asked(node, "failed") == 0));
}

#[test]
fn each_slice_is_fetched_once_for_all() {
    let content: Vec<u8> = (0..500_000_u32).flat_map(u32::to_ne_bytes).collect();
    let (engine, film) = (Engine::start(), content.clone());
    let fields = "Cache-Control: max-age=60";
    let origin = Origin::answering(move |seen| Answer::file(seen, "\"1\"", fields, &film));
    let start = |name| Larder::start(&(config(&engine.url(), &origin, name, "") + "slice = '64KiB'\n"));
    let nodes = ["a", "b", "c"].map(start);
    wait_for(&nodes, &["a", "b", "c"]);
    for range in [300_000..400_000, 350_000..1_000_000] {
        for node in nodes.iter().chain(&nodes) {
            let part = node.ask(&format!("GET /film\nRange: bytes={}-{}", range.start, range.end - 1));
            assert!(part.status == 206 && part.body == content[range.clone()], "{range:?} {part:?}");
        }
    }
    // Bytes 300,000 to 1,000,000 are in twelve slices.
    assert_eq!(origin.count(), 12);
}

#[test]
fn nodes_hand_each_other_content_without_a_coding() {
    const LINES: &str = "200 OK\nCache-Control: max-age=60\nContent-Type: text/html\nETag: \"a\"\n\n";
    let (engine, origin) = (Engine::start(), Origin::by(|_| LINES.to_owned() + &"again and ".repeat(500)));
    let start =
        |name| Larder::start(&format!("{}compress = 'gzip'\n", config(&engine.url(), &origin, name, "")));
    let nodes = ["a", "b"].map(start);
    wait_for(&nodes, &["a", "b"]);
    let [one, other] = nodes;
    let path = path_of(&one, &other);
    let ask = |node: &Larder| node.ask(&format!("GET {path}\nAccept-Encoding: gzip"));
    let first = ask(&other);
    assert_eq!([first.field("vary"), first.field("etag")], [Some("Accept-Encoding"), Some("W/\"a\"")]);
    eventually("a form at the owner", || ask(&one).field("content-encoding").map(drop));
    let before = one.stat("compressed");
    for _ in 0..3 {
        let answer = ask(&other);
        assert_eq!(one.stat("compressed"), before, "what a node asks for is not compressed");
        let weak = answer.field("content-encoding").map_or("\"a\"", |_| "W/\"a\"");
        assert_eq!([answer.field("vary"), answer.field("etag")], [Some("Accept-Encoding"), Some(weak)]);
    }
    assert_eq!(origin.count_of(&path), 1);
}

#[test]
fn requests_that_accept_only_stored_responses_get_those_of_the_owner() {
    let engine = Engine::start();
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\nbody");
    for (number, keys) in ["", OVER_TLS].into_iter().enumerate() {
        let keys = format!("{keys}\nprefix = 'cluster{number}'\nhot = '0%'");
        let start = |name| {
            Larder::start(
                &(config(&engine.url(), &origin, name, &keys) + "client_prefetch = 'cached-only'\n"),
            )
        };
        let nodes = ["a", "b"].map(start);
        wait_for(&nodes, &["a", "b"]);
        let [one, other] = nodes;
        let path = path_of(&one, &other);
        let asked = origin.count();
        for (only, refusal) in [("Cache-Control: only-if-cached", 504), ("Sec-Purpose: prefetch", 503)] {
            for (request, expected) in [
                (format!("GET {path}\n{only}"), 200),
                (format!("HEAD {path}\n{only}"), 200),
                (format!("GET {path}\n{only}\nIf-None-Match: \"a\""), 304),
                (format!("GET {path}\n{only}\nRange: bytes=1-2"), 206),
                (format!("GET {path}?absent\n{only}"), refusal),
                (format!("HEAD {path}?absent\n{only}"), refusal),
            ] {
                for node in [&other, &one] {
                    assert_eq!(node.ask(&request).status, expected, "{request}");
                }
            }
        }
        assert_eq!(origin.count(), asked);
    }
}

#[test]
fn section_4_1_selecting_fields_that_the_owner_learns_separate_requests() {
    let engine = Engine::start();
    let origin = Origin::by(|seen| match (seen.field("if-none-match"), seen.field("begin")) {
        (Some(_), _) => "304 Not Modified\nETag: \"a\"\nCache-Control: max-age=99\nVary: X-V".to_owned(),
        (_, Some(_)) => "200 OK\nETag: \"a\"\nCache-Control: max-age=99\nAge: 99\n\nfirst".to_owned(),
        _ => "200 OK\nCache-Control: no-store\n\nanother".to_owned(),
    });
    let nodes = three(&engine, &origin, "");
    for (number, path) in paths(9).iter().enumerate() {
        let ask = |at: usize, lines: &str| {
            let answer = nodes[(number + at) % 3].ask(&format!("GET {path}\n{lines}"));
            nodes.iter().for_each(Larder::settle);
            answer.text().to_owned()
        };
        assert_eq!(ask(0, "Begin: 1\nX-V: 1"), "first", "{path}");
        assert_eq!(ask(0, "X-V: 2"), "first", "{path}");
        for at in 0..3 {
            let answers = [1, 3].map(|value| ask(at, &format!("X-V: {value}")));
            assert_eq!(answers, ["another"; 2], "{path} at {at}");
        }
    }
}

#[test]
fn rules_change_requests_and_replies_at_one_node_only() {
    let engine = Engine::start();
    let origin = Origin::by(|seen| {
        format!("{PAGE}{}", seen.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-add")).count())
    });
    let rule = "[[site.rule]]\nrequest = { add = { X-Add = 'a' } }\nreply = { add = { X-Reply = 'b' } }\n";
    let start = |name| Larder::start(&format!("{}{rule}", config(&engine.url(), &origin, name, "")));
    let nodes = ["a", "b", "c"].map(start);
    wait_for(&nodes, &["a", "b", "c"]);
    for path in paths(10) {
        for node in &nodes {
            let response = node.get(&path);
            let replies = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-reply"));
            assert_eq!((response.text(), replies.count()), ("body1", 1), "{path}");
        }
    }
}

#[test]
fn peers_do_not_apply_rules_again_to_a_changed_request() {
    let engine = Engine::start();
    let origin = Origin::by(|seen| format!("{PAGE} {}", seen.field("cookie").unwrap_or("-")));
    let rules = "[[site.rule]]\nmatch = { not = { cookie = 'session' } }\nredirect = '/login'\n\
                 [[site.rule]]\nmatch = { not = { field = 'X-Key' } }\ndeny = '127.0.0.0/8'\n\
                 [[site.rule]]\nrequest = { cookies = 'drop', remove = 'X-Key' }\n";
    let start = |name| Larder::start(&format!("{}{rules}", config(&engine.url(), &origin, name, "")));
    let nodes = ["a", "b", "c"].map(start);
    wait_for(&nodes, &["a", "b", "c"]);
    for path in paths(10) {
        for node in &nodes {
            let answer = node.ask(&format!("GET {path}\nCookie: session=1\nX-Key: 1"));
            assert_eq!((answer.status, answer.text()), (200, "body -"), "{path}");
            assert_eq!(node.ask(&format!("GET {path}\nX-Key: 1")).status, 302);
            assert_eq!(node.ask(&format!("GET {path}\nCookie: session=1")).status, 403);
        }
        assert_eq!(origin.count_of(&path), 1, "{path}");
    }
}

#[test]
fn why_names_the_node_that_owns_the_key() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "");
    for path in paths(5) {
        let mut owners: Vec<String> = Vec::new();
        for node in &nodes {
            let why = node.ask_admin(&format!("GET /why?url=http://site.test{path}")).json();
            owners.extend(why["owner"].as_str().map(str::to_owned));
        }
        // The owner itself asks no other node.
        assert_eq!(owners.len(), 2, "{owners:?}");
        assert_eq!(owners[0], owners[1]);
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn requests_of_all_nodes_wait_for_one_fetch() {
    let (engine, (gate, origin)) = (Engine::start(), gated());
    gate.close();
    let nodes = three(&engine, &origin, "");
    let clients: Vec<_> = nodes
        .iter()
        .chain(&nodes)
        .map(|node| {
            let mut client = node.client();
            client.send("GET /slow");
            client
        })
        .collect();
    eventually("the origin to be asked", || (origin.count() > 0).then_some(()));
    // Five of the six requests wait: those of the owner for its fill, and one request of each other node for the owner.
    let waiting = || nodes.iter().map(|node| node.stat("in_flight")).sum::<u64>();
    eventually("all requests to wait", || (waiting() >= 3).then_some(()));
    gate.open();
    for mut client in clients {
        assert_eq!(client.receive("GET").text(), "body");
    }
    assert_eq!(origin.count(), 1);
}

/// Returns an origin that holds its answers while its gate, which is open at first, is closed.
pub(crate) fn gated() -> (Gate, Origin) {
    let (gate, origin) = Origin::gated(|_, held| {
        held.pass();
        Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nbody")
    });
    gate.open();
    (gate, origin)
}

#[test]
fn an_owner_with_too_much_to_do_is_spared() {
    let (engine, (gate, origin)) = (Engine::start(), gated());
    let nodes = ["a", "b"].map(|name| node(&engine, &origin, name, ""));
    wait_for(&nodes, &["a", "b"]);
    let is_of_b = |path: &String| {
        let before = asked(&nodes[0], "asked");
        nodes[0].get(path);
        asked(&nodes[0], "asked") > before
    };
    let of_b: Vec<_> = paths(200).into_iter().filter(is_of_b).take(40).collect();
    for node in &nodes {
        assert_eq!(node.ask_admin("POST /purge?all&hard\nLarder-Admin: 1").status, 200);
    }
    gate.close();
    let begin = |path: &String| {
        let mut client = nodes[0].client();
        client.send(&format!("GET {path}"));
        client
    };
    let clients: Vec<_> = of_b.iter().map(begin).collect();
    eventually("a to spare b", || (asked(&nodes[0], "spilled") > 0).then_some(()));
    gate.open();
    for mut client in clients {
        assert_eq!(client.receive("GET").text(), "body");
    }
}

#[test]
fn a_reload_asks_the_owner_which_serves_stored_responses_when_allowed() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = ["a", "b"].map(|name| node(&engine, &origin, name, "hot = 0.0"));
    wait_for(&nodes, &["a", "b"]);
    let path = path_of(&nodes[1], &nodes[0]);
    for (ask, by_origin) in
        [("Cache-Control: no-cache", 1), ("Cache-Control: max-age=30", 0), ("Cache-Control: min-fresh=5", 0)]
    {
        let (before, to_owner) = (origin.count_of(&path), asked(&nodes[0], "asked"));
        assert_eq!(nodes[0].ask(&format!("GET {path}\n{ask}")).text(), "body");
        let (after, to_owner_after) = (origin.count_of(&path), asked(&nodes[0], "asked"));
        assert_eq!((after, to_owner_after), (before + by_origin, to_owner + 1), "{ask}");
    }
}

#[test]
fn requests_succeed_without_a_killed_owner() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let mut nodes = three(&engine, &origin, "");
    let path = path_of(&nodes[2], &nodes[0]);
    let mut dead = nodes.pop().expect("three");
    dead.signal(Signal::KILL);
    dead.ended();
    let before = origin.count();
    let response = nodes[0].get(&path);
    assert_eq!((response.status, origin.count()), (200, before + 1));
    wait_for(&nodes, &["a", "b"]);
    assert_eq!(nodes[1].get(&path).status, 200);
}

#[test]
fn requests_succeed_without_an_owner_that_has_no_origin() {
    let (engine, origin, gone) = (Engine::start(), Origin::always(PAGE), Origin::always(PAGE));
    gone.die();
    let nodes =
        [("a", &origin), ("b", &origin), ("c", &gone)].map(|(name, origin)| node(&engine, origin, name, ""));
    wait_for(&nodes, &["a", "b", "c"]);
    let path = path_of(&nodes[2], &nodes[0]);
    assert_eq!((origin.count_of(&path), asked(&nodes[0], "failed")), (1, 1));
}

#[test]
fn a_popular_response_becomes_a_local_hit_on_other_nodes() {
    let (engine, origin) =
        (Engine::start(), Origin::always("200 OK\nCache-Control: max-age=60\nAge: 7\n\nbody"));
    let nodes = three(&engine, &origin, "");
    let path = path_of(&nodes[2], &nodes[0]);
    let status = |response: &larder_testkit::Response| {
        let all = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
        all.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let second = nodes[0].get(&path);
    assert!(status(&second)[0].starts_with("Larder; hit"), "{second:?}");
    let third = nodes[0].get(&path);
    let age = third.field("age").and_then(|age| age.parse::<u64>().ok());
    assert!(status(&third).len() == 1 && status(&third)[0].starts_with("Larder; hit"), "{third:?}");
    assert!(age >= Some(7), "{third:?}");
    assert_eq!(cluster(&nodes[0])["copies"], 1);
    assert_eq!(origin.count_of(&path), 1);
}

#[test]
fn section_4_3_4_an_owners_304_updates_all_fields_of_copies() {
    let engine = Engine::start();
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some(_) => "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=600\nX-News: yes".to_owned(),
        None => "200 OK\nETag: \"1\"\nCache-Control: max-age=600\nAge: 100\n\nbody".to_owned(),
    });
    let nodes = three(&engine, &origin, "");
    let path = path_of(&nodes[2], &nodes[0]);
    nodes[0].get(&path);
    nodes[0].get(&path);
    assert_eq!(cluster(&nodes[0])["copies"], 1);
    nodes[2].ask(&format!("GET {path}\nCache-Control: no-cache"));
    nodes[0].ask(&format!("GET {path}\nCache-Control: max-age=90"));
    let copy = nodes[0].get(&path);
    assert_eq!((copy.text(), copy.field("x-news"), copy.is_hit()), ("body", Some("yes"), true));
    assert_eq!(origin.count_of(&path), 2);
}

#[test]
fn without_a_share_for_copies_the_owner_is_asked_each_time() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "hot = 0.0");
    let path = path_of(&nodes[2], &nodes[0]);
    let before = nodes[2].stat("hits");
    (0..5).for_each(|_| drop(nodes[0].get(&path)));
    nodes[2].wait_for("hits", before + 5);
    assert_eq!(origin.count_of(&path), 1);
}

#[test]
fn the_origin_receives_the_address_of_the_client_and_of_no_node() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "token = '0123456789abcdef'");
    for path in paths(12) {
        nodes[0].ask(&format!("GET {path}\nLarder-Peer: reverse 192.0.2.1:1 0123456789abcdef"));
        let seen = origin.last();
        assert_eq!(seen.target, path);
        let named = |name: &str| seen.field(name).map(str::to_owned);
        assert_eq!((named("x-forwarded-for").as_deref(), named("larder-peer")), (Some("127.0.0.1"), None));
        assert!(named("via").is_some_and(|via| via.starts_with("1.1 Larder (")), "{seen:?}");
    }
    assert!(asked(&nodes[0], "asked") > 0);
}

#[test]
fn requests_without_a_valid_token_are_refused() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let node = node(&engine, &origin, "a", "token = '0123456789abcdef'");
    let ask = |line: &str| Client::to(peer_address(&node)).ask(&format!("GET /{line}"));
    for line in [
        "",
        "\nLarder-Peer: reverse 192.0.2.1:1 0123456789abcdeg",
        "\nLarder-Peer: reverse 192.0.2.1:1 -",
        "\nLarder-Peer: reverse client 0123456789abcdef",
        "\nLarder-Peer: sideways 192.0.2.1:1 0123456789abcdef",
    ] {
        assert_eq!(ask(line).status, 403, "{line}");
    }
    for word in ["0123456789abcdef", "00000000000000000000000000000000 -"] {
        assert_eq!(
            ask(&format!("\nLarder-Peer: reverse 192.0.2.1:1 {word}")).status,
            403,
            "no token, but a seal"
        );
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn unsafe_and_authorized_requests_go_straight_to_the_origin() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "");
    for (number, path) in paths(6).into_iter().enumerate() {
        nodes[number % 3].ask(&format!("POST {path}\nContent-Length: 2\n\nhi"));
        nodes[number % 3].ask(&format!("GET {path}\nAuthorization: Basic eDp5"));
    }
    assert!(nodes.iter().all(|node| asked(node, "asked") == 0));
    assert_eq!(origin.count(), 12);
}

#[test]
fn slices_of_a_response_are_fetched_by_the_node_that_owns_it() {
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (engine, sent) = (Engine::start(), content.clone());
    let origin =
        Origin::answering(move |seen| Answer::file(seen, "\"1\"", "Cache-Control: max-age=60", &sent));
    let start = |name| Larder::start(&(config(&engine.url(), &origin, name, "") + "slice = '64KiB'\n"));
    let nodes: Vec<_> = ["a", "b", "c"].map(start).into();
    wait_for(&nodes, &["a", "b", "c"]);
    for (first, last) in [(200_000, 399_999), (250_000, 250_009), (390_000, 399_999)] {
        for node in &nodes {
            let part = node.ask(&format!("GET /film\nRange: bytes={first}-{last}"));
            assert!(part.status == 206 && part.body == content[first..=last], "{first}: {}", part.status);
        }
    }
    assert_eq!(origin.count(), 4, "slices 3 to 6, once each");
}
