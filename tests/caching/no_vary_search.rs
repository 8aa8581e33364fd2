//! `No-Vary-Search` (draft-ietf-httpbis-no-vary-search): one response for several queries. Unit tests of the rule cover
//! the equivalence of queries.

use larder_testkit::{Answer, Client, Gate, Larder, Origin, Response, eventually};

const LEFT_OUT: &str = "params=(\"utm\")";
const HIT: &str = "hit; detail=no-vary-search";

/// Returns an origin that answers each GET with its target and the request's number, with this value of the field and
/// `lines`.
fn origin(field: &'static str, lines: &'static str) -> Origin {
    Origin::by(move |seen| match seen.method.as_str() {
        "GET" | "HEAD" => format!(
            "200 OK\nCache-Control: max-age=100\nNo-Vary-Search: {field}{lines}\n\n{} {}",
            seen.target, seen.number
        ),
        _ => "204 No Content".to_owned(),
    })
}

/// Gets `path` and waits until the response is stored, which can be a moment after the client has received it.
fn get(larder: &Larder, path: &str) -> Response {
    let response = larder.get(path);
    larder.settle();
    response
}

fn purge(larder: &Larder, path: &str, how: &str) -> Response {
    let url = format!("http://site.test{path}").replace('%', "%25").replace('&', "%26").replace('+', "%2B");
    let response = larder.ask_admin(&format!("POST /purge?url={url}{how}\nLarder-Admin: 1"));
    assert_eq!(response.status, 200, "{response:?}");
    response
}

#[test]
fn section_7_a_stored_response_answers_queries_that_differ_as_it_allows() {
    let (left_out, only, order) = (LEFT_OUT, "except=(\"id\")", "key-order");
    for (field, stored, asked, is_hit) in [
        (left_out, "/?id=1&utm=a", "/?utm=b&id=1", true),
        (left_out, "/?utm=a", "/", true),
        (left_out, "/", "/?%75tm", true),
        (left_out, "/?a=1&b=1", "/?b=1&a=1", false),
        (left_out, "/?id=1", "/?id=2&utm=a", false),
        (left_out, "/a?utm=1", "/b?utm=1", false),
        (only, "/?id=1&x=2", "/?y=3&id=%31", true),
        (only, "/?id=1", "/?id=2", false),
        (order, "/?a=1&b=+", "/?b=%20&a=1", true),
        (order, "/?a=1&a=2", "/?a=2&a=1", false),
        ("params=(\"utm\"), except=(\"id\")", "/?utm=1", "/?utm=2", false),
        ("params", "/?utm=1", "/?utm=2", false),
        ("params=(\"utm\"", "/?utm=1", "/?utm=2", false),
    ] {
        let origin = origin(field, "");
        let larder = Larder::before(&origin);
        assert_eq!(get(&larder, stored).cache(), "fwd=uri-miss; fwd-status=200; stored");
        let answer = get(&larder, asked);
        assert_eq!(answer.cache() == HIT, is_hit, "{field}: {stored} and {asked}: {}", answer.cache());
        let expected = if is_hit { format!("{stored} 0") } else { format!("{asked} 1") };
        assert_eq!((answer.text(), origin.count()), (&*expected, 2 - usize::from(is_hit)));
        assert!(get(&larder, stored).is_hit(), "{field}: {stored}");
    }
}

#[test]
fn another_host_and_another_port_have_other_responses() {
    let larder = Larder::before(&origin(LEFT_OUT, ""));
    get(&larder, "/?utm=1");
    for host in ["other.test", "site.test:81"] {
        let request = format!("GET /?utm=2\nHost: {host}");
        assert!(larder.client().ask(&request).cache().starts_with("fwd=uri-miss"), "{host}");
    }
    assert_eq!(get(&larder, "/?utm=2").cache(), HIT);
}

#[test]
fn variants_conditions_ranges_and_heads_are_as_for_the_url_itself() {
    let larder = Larder::before(&origin(LEFT_OUT, "\nVary: V\nETag: \"1\""));
    for (value, path) in [("1", "/?utm=1"), ("2", "/?utm=2")] {
        assert!(!larder.ask(&format!("GET {path}\nV: {value}")).cache().starts_with("hit"));
    }
    larder.settle();
    for value in ["1", "2", "1"] {
        let answer = larder.ask(&format!("GET /?utm=3\nV: {value}"));
        assert_eq!((answer.cache().as_str(), answer.text().len()), (HIT, 9));
        assert!(answer.text().starts_with(&format!("/?utm={value}")), "{}", answer.text());
    }
    let range = larder.ask("GET /?utm=3\nV: 1\nRange: bytes=0-4");
    assert_eq!((range.status, range.text(), range.cache().as_str()), (206, "/?utm", HIT));
    let same = larder.ask("GET /?utm=3\nV: 1\nIf-None-Match: \"1\"");
    assert_eq!((same.status, same.cache().as_str()), (304, HIT));
    let head = larder.ask("HEAD /?utm=3\nV: 2");
    assert_eq!((head.status, head.field("content-length"), head.cache().as_str()), (200, Some("9"), HIT));
    assert_eq!(larder.ask("GET /?utm=3\nV: 1\nCache-Control: only-if-cached").cache(), HIT);
}

#[test]
fn a_stale_response_is_refreshed_by_its_own_url_and_stands_in() {
    const STALE: &str = "Age: 50\nETag: \"1\"\nNo-Vary-Search: params=(\"utm\")";
    let origin = Origin::by(|seen| match (seen.target.as_str(), seen.field("if-none-match")) {
        ("/while?utm=1", None) => {
            format!("200 OK\nCache-Control: max-age=1, stale-while-revalidate=1000\n{STALE}\n\none")
        }
        ("/while?utm=1", Some(_)) => {
            "304 Not Modified\nCache-Control: max-age=100\nETag: \"1\"\nAge: 0".to_owned()
        }
        ("/error?utm=1", None) => {
            format!("200 OK\nCache-Control: max-age=1, stale-if-error=1000\n{STALE}\n\ntwo")
        }
        ("/plain?utm=1", None) => format!("200 OK\nCache-Control: max-age=1\n{STALE}\n\nthree"),
        ("/plain?utm=2", None) => format!("200 OK\nCache-Control: max-age=1\n{STALE}\n\nfour"),
        _ => "503 Busy".to_owned(),
    });
    let larder = Larder::before(&origin);
    for path in ["/while?utm=1", "/error?utm=1", "/plain?utm=1"] {
        assert_eq!(get(&larder, path).status, 200);
    }
    let stale = get(&larder, "/while?utm=2");
    assert_eq!((stale.text(), stale.cache().as_str()), ("one", "hit; detail=stale-while-revalidate"));
    eventually("a refresh", || (get(&larder, "/while?utm=3").cache() == HIT).then_some(()));
    assert_eq!((origin.count_of("/while?utm=1"), origin.count_of("/while?utm=2")), (2, 0));
    let stand_in = get(&larder, "/error?utm=2");
    assert_eq!((stand_in.status, stand_in.text()), (200, "two"));
    assert!(stand_in.cache().contains("stale-if-error"), "{}", stand_in.cache());
    // A validator belongs to one URL: the response for another URL is fetched whole.
    let fetched = get(&larder, "/plain?utm=2");
    assert_eq!((fetched.text(), origin.last().field("if-none-match")), ("four", None));
}

#[test]
fn requests_for_equivalent_queries_share_a_fetch() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nNo-Vary-Search: params=(\"utm\")\r\n";
        let answer = Answer::raw(format!("{head}Content-Length: 4\r\n\r\n"));
        match seen.number {
            0 => answer.then("zero"),
            _ => answer.then_wait(held).then("body"),
        }
    });
    let larder = Larder::before(&origin);
    assert_eq!(get(&larder, "/?id=0").text(), "zero");
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&format!("GET /?id=1&utm={n}"));
    }
    // All clients have the head before the origin has sent the end of the content.
    let shared =
        clients.iter_mut().filter_map(|client| client.head().cache().contains("collapsed").then_some(()));
    assert_eq!(shared.count(), 19);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.exactly(4) == b"body"));
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_follower_fetches_for_itself_if_the_shared_response_does_not_match() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let (head, target) = ("200 OK\nCache-Control: max-age=100", seen.target.as_bytes());
        match seen.number {
            0 => Answer::with_body(&format!("{head}\nNo-Vary-Search: params=(\"utm\")"), b"0"),
            _ => {
                held.pass();
                Answer::with_body(head, target)
            }
        }
    });
    let larder = Larder::before(&origin);
    get(&larder, "/?id=0");
    let [mut first, mut second] = [larder.client(), larder.client()];
    first.send("GET /?id=1&utm=1");
    origin.wait_for(2);
    second.send("GET /?id=1&utm=2");
    larder.stats();
    gate.open();
    assert_eq!(first.receive("GET").text(), "/?id=1&utm=1");
    assert_eq!(second.receive("GET").text(), "/?id=1&utm=2");
    assert_eq!(origin.count(), 3);
}

#[test]
fn each_no_vary_search_value_applies_only_to_responses_that_carry_it() {
    let origin = Origin::by(|seen| {
        let field = match seen.target.as_bytes().last() {
            Some(b'a') => "\nNo-Vary-Search: params=(\"a\")",
            Some(b'b') => "\nNo-Vary-Search: params=(\"b\")",
            _ => "",
        };
        format!("200 OK\nCache-Control: max-age=100{field}\n\n{}", seen.target)
    });
    let larder = Larder::before(&origin);
    for (path, answer) in [
        ("/?x=1&a", "/?x=1&a"),
        ("/?x=2&b", "/?x=2&b"),
        ("/?x=3&c", "/?x=3&c"),
        ("/?x=1&a=2", "/?x=1&a"),
        ("/?x=2&b=2", "/?x=2&b"),
        ("/?x=1&b=2", "/?x=1&b=2"),
        ("/?x=3&c&a=1", "/?x=3&c&a=1"),
    ] {
        assert_eq!(get(&larder, path).text(), answer, "{path}");
    }
}

#[test]
fn a_purge_or_change_of_one_url_reaches_its_equivalent_urls() {
    let origin = origin(LEFT_OUT, "");
    let larder = Larder::before(&origin);
    let paths = ["/?id=1&utm=1", "/?id=1&utm=2", "/?id=1"];
    let other = "/?id=2&utm=1";
    let spoil: [&dyn Fn(&str); 4] = [
        &|path| drop(purge(&larder, path, "")),
        &|path| drop(purge(&larder, path, "&hard")),
        &|path| assert_eq!(larder.ask(&format!("PUT {path}\n\nnew")).status, 204),
        &|path| assert_eq!(larder.ask(&format!("DELETE {path}")).status, 204),
    ];
    get(&larder, other);
    for spoil in spoil {
        for (spoiled, asked) in paths.iter().flat_map(|one| paths.iter().map(move |other| (one, other))) {
            get(&larder, paths[0]);
            let count = origin.count();
            assert!(get(&larder, asked).cache().starts_with("hit"), "{asked}");
            spoil(spoiled);
            let (before, answer) = (origin.count(), get(&larder, asked));
            assert!(
                before >= count && origin.count() == before + 1,
                "{spoiled}, then {asked}: {}",
                answer.cache()
            );
            assert!(answer.text().starts_with(asked), "{}", answer.text());
        }
    }
    assert!(get(&larder, other).is_hit());
    let said = purge(&larder, "/?id=2", "&hard").json();
    assert_eq!(said["objects"], 1);
}

#[test]
fn a_response_fetched_during_an_invalidation_answers_only_its_own_url() {
    let spoil: [fn(&Larder); 3] = [
        |larder| drop(purge(larder, "/?utm=2", "")),
        |larder| drop(purge(larder, "/?utm=2", "&hard")),
        |larder| assert_eq!(larder.client().ask("PUT /?utm=2\n\nnew").status, 204),
    ];
    for spoil in spoil {
        let (gate, origin) = Origin::gated(|seen, held| {
            if seen.number == 0 {
                held.pass();
            }
            match seen.method.as_str() {
                "GET" => {
                    let head = "200 OK\nCache-Control: max-age=100\nNo-Vary-Search: params=(\"utm\")";
                    Answer::with_body(head, seen.target.as_bytes())
                }
                _ => Answer::raw("HTTP/1.1 204 No Content\r\n\r\n"),
            }
        });
        let larder = Larder::before(&origin);
        // The cache learns of the field only with the response's head.
        let mut first = larder.client();
        first.send("GET /?utm=1");
        origin.wait_for(1);
        spoil(&larder);
        gate.open();
        assert_eq!(first.receive("GET").text(), "/?utm=1");
        larder.settle();
        // The response may be older than the change, and so answers only its own URL.
        assert_eq!(get(&larder, "/?utm=1").text(), "/?utm=1");
        assert_eq!(get(&larder, "/?utm=3").text(), "/?utm=3");
        assert_eq!(get(&larder, "/?utm=2").text(), "/?utm=3");
        // The latest response has replaced it.
        assert_eq!(get(&larder, "/?utm=1").text(), "/?utm=3");
    }
}

const PART: &str = "GET /?utm=1\nRange: bytes=0-3";

/// Starts an origin that answers a read of a range with a part, any other read with a response that breaks off, and the
/// request of this number when the gate is open.
fn origin_of_parts(held: usize) -> (Gate, Origin) {
    const FIELDS: &str = "Cache-Control: max-age=100\r\nNo-Vary-Search: params=(\"utm\")\r\nETag: \"1\"\r\n";
    Origin::gated(move |seen, gate| {
        if seen.number == held {
            gate.pass();
        }
        match (seen.method.as_str(), seen.field("range")) {
            ("GET", Some(_)) => {
                let part = "Content-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\npart";
                Answer::raw(format!("HTTP/1.1 206 Partial Content\r\n{FIELDS}{part}"))
            }
            ("GET", None) => {
                Answer::raw(format!("HTTP/1.1 200 OK\r\n{FIELDS}Content-Length: 9\r\n\r\npart")).then_close()
            }
            _ => Answer::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        }
    })
}

#[test]
fn a_purge_or_change_of_an_equivalent_url_reaches_stored_parts() {
    let spoil: [fn(&Larder); 2] = [
        |larder| drop(purge(larder, "/?utm=2", "")),
        |larder| assert_eq!(larder.client().ask("PUT /?utm=2\n\nnew").status, 204),
    ];
    for (read, spoil) in [PART, "GET /?utm=1"].iter().flat_map(|read| spoil.map(|spoil| (*read, spoil))) {
        let (_gate, origin) = origin_of_parts(usize::MAX);
        let larder = Larder::before(&origin);
        let mut first = larder.client();
        first.send(read);
        first.head();
        larder.settle();
        assert!(larder.ask(PART).is_hit(), "{read}");
        spoil(&larder);
        assert!(!larder.ask(PART).is_hit(), "{read}");
    }
}

#[test]
fn a_part_fetched_during_a_change_of_an_equivalent_is_not_stored() {
    let (gate, origin) = origin_of_parts(1);
    let larder = Larder::before(&origin);
    assert_eq!(larder.ask("GET /?utm=0\nRange: bytes=0-3").status, 206);
    let mut second = larder.client();
    second.send(PART);
    origin.wait_for(2);
    assert_eq!(larder.client().ask("PUT /?utm=2\n\nnew").status, 204);
    gate.open();
    assert_eq!(second.receive("GET").text(), "part");
    larder.settle();
    assert!(!larder.ask(PART).is_hit());
}

#[test]
fn errors_answer_their_own_url_only() {
    let origin = Origin::by(|seen| {
        let status = if seen.number == 0 { "404 Not Found" } else { "200 OK" };
        format!("{status}\nCache-Control: max-age=100\nNo-Vary-Search: params=(\"utm\")\n\n{}", seen.number)
    });
    let larder = Larder::before(&origin);
    for (path, answer) in [("/?utm=1", "0"), ("/?utm=2", "1"), ("/?utm=3", "1"), ("/?utm=1", "0")] {
        assert_eq!(get(&larder, path).text(), answer, "{path}");
    }
}

#[test]
fn why_says_what_answers() {
    let larder = Larder::before(&origin(LEFT_OUT, ""));
    get(&larder, "/?utm=1");
    let why = |path: &str| {
        let answer = larder.ask_admin(&format!("GET /why?url=http://site.test{path}"));
        serde_json::from_slice::<serde_json::Value>(&answer.body).expect("json")
    };
    let said = why("/?utm=2");
    assert_eq!(
        (&said["decision"]["outcome"], &said["decision"]["reason"]),
        (&"hit".into(), &HIT[12..].into())
    );
    assert_eq!(said["stored"]["url"], "http://site.test/?utm=1");
    assert_eq!(why("/?utm=1")["stored"].get("url"), None);
    assert_eq!(why("/?utm=1%26a")["stored"], serde_json::Value::Null);
}
