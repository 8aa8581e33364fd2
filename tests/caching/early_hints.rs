//! `early_hints`: a 103 with the links of the stored response, while the request to the origin is in flight.

use larder_testkit::{Answer, Client, Gate, Larder, Origin, Response, site};

const ALWAYS: &str = "early_hints = 'always'";
const LINK: &str = "</a.css>; rel=preload; as=style";
const PURGES: &str = "Larder-Admin: 1";

/// Returns a page with a link that is hinted and further fields, which is validated at each use.
fn page(more: &str) -> String {
    format!("200 OK\nCache-Control: no-cache\nETag: \"1\"\nLink: {LINK}, </next>; rel=next{more}\n\npage")
}

/// Returns the heads of all responses to a short request; the last head is final.
fn heads(larder: &Larder, request: &str) -> Vec<Response> {
    let (mut client, mut heads) = (larder.client(), Vec::new());
    client.send(request);
    loop {
        let head = client.head();
        let is_final = head.status >= 200;
        heads.push(head);
        if is_final {
            return heads;
        }
    }
}

/// Returns the links in the 103 responses that a client gets.
fn hints(larder: &Larder, request: &str) -> Vec<String> {
    let heads = heads(larder, request);
    let early = heads.iter().filter(|head| head.status == 103).flat_map(|head| &head.fields);
    let links = early.map(|(name, value)| {
        assert!(name.eq_ignore_ascii_case("link"), "{name}");
        value.clone()
    });
    let links = links.collect();
    larder.settle();
    links
}

#[test]
fn links_come_before_the_origin_answers() {
    let gate = Gate::default();
    let (held, text) = (gate.clone(), page(""));
    let origin = Origin::answering(move |seen| match seen.number {
        0 => Answer::raw(raw(&text)),
        _ => Answer::default().then_wait(&held).then(raw("304 Not Modified\nETag: \"1\"")),
    });
    let larder = Larder::start(&site(&[&origin], ALWAYS));
    assert!(hints(&larder, "GET /").is_empty(), "nothing is known yet");
    let mut client = Client::to(larder.address());
    client.send("GET /");
    let early = client.head();
    assert_eq!((early.status, early.field("link")), (103, Some(LINK)));
    gate.open();
    let answer = client.receive("GET");
    assert_eq!((answer.status, answer.text()), (200, "page"));
    assert_eq!(larder.stats()["early_hints"]["sent"], 1);
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    assert!(metrics.contains("larder_early_hints_total 1\n"), "{metrics}");
}

/// Formats a response as it is sent over the wire.
fn raw(text: &str) -> String {
    let (head, content) = text.split_once("\n\n").unwrap_or((text, ""));
    let length =
        if head.starts_with("304") { String::new() } else { format!("\nContent-Length: {}", content.len()) };
    format!("HTTP/1.1 {}\r\n\r\n{content}", format!("{head}{length}").replace('\n', "\r\n"))
}

#[test]
fn early_hints_outlive_the_eviction_of_their_response() {
    let origin = Origin::by(|seen| {
        let link = if seen.target == "/" { format!("\nLink: {LINK}") } else { String::new() };
        format!("200 OK\nCache-Control: max-age=100{link}\n\npage")
    });
    let mut larder = Larder::start(&format!("[memory]\nentries = 1\n{}", site(&[&origin], ALWAYS)));
    larder.get("/");
    assert!(larder.get("/").is_hit());
    for upgraded in [false, true] {
        (0..20).for_each(|number| _ = larder.get(&format!("/{upgraded}/{number}")));
        if upgraded {
            larder.upgrade(&[]).expect("it serves");
        }
        let asked = origin.count();
        assert_eq!(hints(&larder, "GET /"), [LINK], "{upgraded}");
        assert_eq!(origin.count(), asked + 1, "it was evicted");
        assert_eq!(larder.stats()["early_hints"]["kept"], 1, "{upgraded}");
    }
}

#[test]
fn a_purge_or_a_change_ends_them() {
    let origin = Origin::by(|seen| match seen.method.as_str() {
        "GET" => page("\nCache-Tag: news\nCache-Groups: \"g\""),
        _ => "204 No Content".to_owned(),
    });
    for evicted in [false, true] {
        let memory = if evicted { "[memory]\nentries = 1\n" } else { "" };
        let larder = Larder::start(&format!("{memory}{}", site(&[&origin], ALWAYS)));
        let purges =
            ["url=http://site.test/", "tag=news", "prefix=http://site.test/", "host=site.test", "all"];
        for query in purges.iter().flat_map(|query| [(*query).to_owned(), format!("{query}&hard")]) {
            hints(&larder, "GET /");
            if evicted {
                (0..20).for_each(|number| _ = hints(&larder, &format!("GET /other/{number}")));
            }
            assert_eq!(hints(&larder, "GET /"), [LINK], "{query} {evicted}");
            let purged = larder.ask_admin(&format!("POST /purge?{query}\n{PURGES}"));
            assert_eq!(purged.status, 200, "{query}: {}", purged.text());
            assert!(hints(&larder, "GET /").is_empty(), "{query} {evicted}");
            assert_eq!(hints(&larder, "GET /"), [LINK], "the response since then has links, too");
        }
        assert_eq!(larder.ask("POST /\n\nnew").status, 204);
        assert!(hints(&larder, "GET /").is_empty(), "after a POST, {evicted}");
    }
}

#[test]
fn links_of_a_private_or_selected_response_hint_no_other_client() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/turns-private" if seen.number > 0 => page("").replace("no-cache", "private"),
        "/varies" => page("\nVary: Cookie"),
        "/coded" => page("\nVary: Accept-Encoding"),
        "/error" => page("").replace("200 OK", "404 Not Found"),
        _ => page(""),
    });
    let larder = Larder::start(&site(&[&origin], ALWAYS));
    let twice = |path: &str, fields: &str| {
        hints(&larder, &format!("GET {path}"));
        hints(&larder, &format!("GET {path}{fields}"))
    };
    assert_eq!(twice("/turns-private", ""), [LINK], "it was for all so far");
    assert!(hints(&larder, "GET /turns-private").is_empty());
    assert!(twice("/varies", "").is_empty());
    assert_eq!(twice("/coded", "\nAccept-Encoding: br"), [LINK]);
    assert!(twice("/error", "").is_empty());
    assert_eq!(twice("/a", "\nCookie: a=b"), [LINK], "as the stored response would be");
    for fields in
        ["Authorization: Basic YTpi", "Range: bytes=0-1", "Sec-Fetch-Mode: no-cors", "Sec-Purpose: prefetch"]
    {
        assert!(twice("/a", &format!("\n{fields}")).is_empty(), "{fields}");
    }
    assert_eq!(twice("/a", "\nSec-Fetch-Mode: navigate"), [LINK]);
    assert_eq!(heads(&larder, "GET /a HTTP/1.0").len(), 1, "HTTP/1.0 has no interim responses");
}

#[test]
fn a_rule_or_the_version_of_the_client_decides() {
    let origin = Origin::by(|_| page(""));
    let rules = "[[site.rule]]\nmatch = { path = '/all' }\nearly_hints = 'always'\n\
                 [[site.rule]]\nmatch = { path = '/none' }\nearly_hints = 'always'\nreply = { remove = ['Link'] }\n\
                 [[site.rule]]\nmatch = { path = '/added' }\nearly_hints = 'always'\n\
                 response = { set = { Link = '</b>; rel=preconnect' } }\n";
    let larder = Larder::start(&site(&[&origin], rules));
    for (path, expected) in
        [("/", None), ("/all", Some(LINK)), ("/none", None), ("/added", Some("</b>; rel=preconnect"))]
    {
        larder.get(path);
        assert_eq!(hints(&larder, &format!("GET {path}")), Vec::from_iter(expected), "{path}");
    }
}
