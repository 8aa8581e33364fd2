//! Calls: the counts, the failures, and the refusals.

use larder_rpc::{Answer, Call};
use larder_testkit::{Client, Origin};

use crate::caller::{Caller, DOORS, get, open, open_with};

const PAGE: &str = "200 OK\nCache-Control: max-age=100\n\nthe page";

#[test]
fn a_page_is_fetched_once_and_then_a_hit() {
    for door in DOORS {
        let origin = Origin::always(PAGE);
        let larder = open("");
        let mut caller = Caller::to(&larder, door);
        for _ in 0..3 {
            assert_eq!(caller.page(&origin.url()), "the page", "{door}");
            larder.settle();
        }
        assert_eq!(origin.count(), 1, "{door}");
        assert_eq!((larder.stat("hits"), larder.stat("misses")), (2, 1), "{door}");
        let seen = origin.last();
        assert_eq!(seen.field("accept-encoding"), Some("identity"));
        assert!(seen.field("user-agent").is_some_and(|agent| agent.starts_with("Larder/")));
    }
}

#[test]
fn forward_proxy_pages_are_hits_over_every_rpc_protocol() {
    let origin = Origin::always(PAGE);
    let larder = open("");
    Client::to(larder.forward).ask(&format!("GET {}/a%20b?c", origin.url()));
    larder.settle();
    for door in DOORS {
        let mut caller = Caller::to(&larder, door);
        assert_eq!(caller.page(&format!("{}/a b?c#part", origin.url())), "the page", "{door}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn failures_say_why() {
    let missing = Origin::always("404 Not Found\n\nnothing");
    let forbidden = Origin::always("403 Forbidden\n\nno");
    let dead = Origin::always(PAGE);
    dead.die();
    let larder = open("");
    let rows = [
        (missing.url(), 404, "answered 404 Not Found"),
        (dead.url(), 502, "origin"),
        (String::new(), 400, "the url is empty"),
        ("ftp://a/".to_owned(), 400, "scheme 'ftp' is neither http nor https"),
        (forbidden.url(), 403, "answered 403 Forbidden"),
        ("example.com".to_owned(), 400, "write the scheme too"),
        (format!("http://a/{}", "x".repeat(9_000)), 414, "request-target too long"),
    ];
    for (url, status, why) in &rows {
        for door in ["thrift", "line"] {
            let failure = Caller::to(&larder, door).failure(url);
            assert_eq!((failure.status, &failure.what), (*status, url), "{door} {failure:?}");
            assert!(failure.why.contains(why), "{door} {failure:?}");
        }
        // The ONC RPC program has three kinds of errors, and no messages.
        let kind = match status {
            400 | 414 => "garbage arguments",
            403 => "not permitted",
            _ => "system error",
        };
        let failure = Caller::to(&larder, "onc").failure(url);
        assert!(failure.why.contains(kind), "{url} {failure:?}");
    }
}

#[test]
fn urls_too_long_fail_by_the_error_of_the_protocol() {
    let larder = open("");
    for length in [16 << 10, 1 << 20] {
        for (door, status, why) in [
            ("thrift", 414, "the url is too long"),
            ("onc", 0, "the server cannot use the arguments"),
            ("line", 414, "a line of more than"),
        ] {
            let failure = Caller::to(&larder, door).failure(&format!("http://a/{}", "x".repeat(length)));
            assert!(failure.status == status && failure.why.starts_with(why), "{door} {failure:?}");
        }
    }
}

#[test]
fn a_url_without_newline_is_answered_when_the_client_ends() {
    let origin = Origin::always(PAGE);
    let larder = open("");
    for _ in 0..2 {
        let mut line = Caller::to(&larder, "line");
        line.send(origin.url().as_bytes());
        line.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert_eq!(line.rest(), b"+8\nthe page.\n");
        larder.settle();
    }
}

#[test]
fn a_door_reaches_no_further_than_the_forward_proxy() {
    let origin = Origin::always(PAGE);
    let larder = open_with("[line]\nlisten = '127.0.0.1:0'\n");
    for door in ["thrift", "line"] {
        assert_eq!(Caller::to(&larder, door).failure(&origin.url()).status, 403, "{door}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn each_door_has_numbers_of_its_own() {
    let origin = Origin::always(PAGE);
    let larder = open("[memory]\nentries = 50\npolicy = 'lru'");
    let [mut thrift, mut line] = ["thrift", "line"].map(|door| Caller::to(&larder, door));
    let mut page = Vec::new();
    for caller in [&mut thrift, &mut line] {
        page = caller.page(&origin.url()).to_vec();
        larder.settle();
        caller.failure("nothing");
    }
    let told = [thrift.statistics(), line.statistics()];
    let counts = told.clone().map(|told| (told.requests, told.hits, told.misses));
    assert_eq!(counts, [(2, 0, 1), (2, 1, 0)]);
    assert_eq!((told[1].hit_ratio, told[1].byte_hit_ratio, told[1].entries), (1.0, 1.0, 1));
    let cache = (told[0].capacity, told[0].capacity_unit.as_str(), told[0].policy.as_str());
    assert_eq!(cache, (50, "entries", "lru"));
    // The door counts only content; the proxy also counts heads and metadata.
    assert!(!page.is_empty() && larder.stat("bytes_stored") > page.len() as u64);
    assert_eq!(told[1].bytes_stored, page.len() as u64);
    assert!(told[0].average_micros > 0.0 && told[0].p50_micros <= told[0].p99_micros);
    assert_eq!(line.call(&Call::Reset), Answer::Done);
    assert_eq!((line.statistics().requests, thrift.statistics().requests), (0, 2));
    let stats = larder.stats();
    assert_eq!((&stats["requests"], &stats["doors"]["thrift"]["requests"]), (&4.into(), &2.into()));
    assert_eq!(stats["doors"]["line"]["requests"], 0);
}

#[test]
fn a_memory_size_counted_by_content_holds_exactly_its_page_bytes() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{:>10}", seen.target));
    let larder = open("[memory]\nsize = '30B'\ncount = 'content'\npolicy = 'lru'");
    let mut thrift = Caller::to(&larder, "thrift");
    let mut ask = |path: &str| {
        assert_eq!(thrift.page(&format!("{}{path}", origin.url())).len(), 10);
        larder.settle();
        let told = thrift.statistics();
        (told.hits, told.entries, told.bytes_stored, told.capacity)
    };
    for (path, told) in [
        ("/1", (0, 1, 10, 30)),
        ("/2", (0, 2, 20, 30)),
        ("/3", (0, 3, 30, 30)),
        ("/1", (1, 3, 30, 30)),
        // The least recently used page is evicted.
        ("/4", (1, 3, 30, 30)),
        ("/2", (1, 3, 30, 30)),
        ("/1", (2, 3, 30, 30)),
    ] {
        assert_eq!(ask(path), told, "{path}");
    }
    assert_eq!((&larder.stats()["by"], larder.stat("bytes_content")), (&"content".into(), 30));
}

#[test]
fn pipelined_calls_are_answered_in_their_order() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target));
    let larder = open("");
    let mut line = Caller::to(&larder, "line");
    let calls: String = (0..50).map(|number| format!("{}/{}\n", origin.url(), number % 7)).collect();
    // The client's codec supports one call at a time, so the other calls are sent as raw bytes.
    line.encode(&get(&origin.url()));
    line.send(calls.as_bytes());
    let expected: Vec<_> = (0..50).map(|number| format!("+2\n/{}.\n", number % 7)).collect();
    line.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(String::from_utf8(line.rest()).expect("text"), expected.concat());
}

#[test]
fn ping_has_an_answer() {
    let larder = open("");
    assert_eq!(Caller::to(&larder, "onc").call(&Call::Ping), Answer::Done);
    assert_eq!(larder.stat("requests"), 0);
}

#[test]
fn forward_proxy_rules_apply_to_stored_pages_over_rpc() {
    let origin = Origin::always(PAGE);
    let url = origin.url();
    let larder = open(
        "[[forward.rule]]\nmatch = { path = '/closed/*', not = { client = '127.0.0.2' } }\ndeny = '127.0.0.0/8'\n",
    );
    for path in ["/closed/a", "/open"] {
        let from = std::net::Ipv4Addr::new(127, 0, 0, 2);
        assert_eq!(Client::from(from, larder.forward).ask(&format!("GET {url}{path}")).status, 200);
    }
    larder.settle();
    for door in DOORS {
        let mut caller = Caller::to(&larder, door);
        assert_eq!(caller.page(&format!("{url}/open")), "the page", "{door}");
        for path in ["/closed/a", "/closed/b", "/%63losed/a"] {
            let failure = caller.failure(&format!("{url}{path}"));
            // Clients of `onc` get no status.
            assert!(failure.status == 403 || door == "onc", "{door} {path}: {failure:?}");
        }
    }
    assert_eq!(origin.count(), 2);
}
