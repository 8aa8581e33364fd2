//! `why` names the outcome and the reason of the next request, for random rules, stored responses and requests, over
//! both versions of HTTP. `LARDER_SEED` repeats the choices of a run.

use std::fmt::Write as _;
use std::thread;

use fastrand::Rng;
use larder_semantics::status::Why;
use larder_testkit::http2::Client;
use larder_testkit::{Larder, Origin, Seen, site};
use serde_json::Value;

use super::Events;

/// The number of configs; then that of rules in a config, and of requests for it.
const CONFIGS: u64 = 6;
const RULES: usize = 3;
const REQUESTS: usize = 40;

const KEYS: &[&str] = &[
    "",
    "purge_from = ['127.0.0.1']",
    "validate = 'always'",
    "client_prefetch = 'cached-only'",
    "stale_while_revalidate = '1h'",
    "cache = false",
];
const CONDITIONS: &[&str] = &[
    "",
    "match = { path = '/fresh' }",
    "match = { path = '/s*' }",
    "match = { method = 'POST' }",
    "match = { query = 'a' }",
    "match = { field = 'X-A' }",
    "match = { cookie = 'session' }",
    "match = { client = '10.0.0.0/8' }",
];
const EFFECTS: &[&str] = &[
    "cache = false",
    "deny = ['127.0.0.1']",
    "allow = ['10.0.0.0/8']",
    "users = '/dev/null'",
    "respond = 404",
    "redirect = '/new{uri}'",
    "query = 'drop'",
    "ttl = '1h'",
    "ignore = ['no-cache', 'no-store', 'private']",
    "stale_while_revalidate = '1h'",
    "client_prefetch = 'cached-only'",
    "compress = ['gzip']",
    "request = { remove = ['Cookie', 'Range'] }",
    "request = { set = { Cache-Control = 'no-cache' } }",
    "reply = { set = { X-R = '1' } }",
    "stop = true",
];
const PATHS: &[&str] = &[
    "/fresh", "/fresh", "/stale", "/stale", "/soon", "/strict", "/secret", "/varies", "/guessed", "/similar",
    "/part", "/gone", "/moved",
];
const QUERIES: &[&str] = &["", "", "?a=1", "?a=2", "?b=1"];
const METHODS: &[&str] = &["GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "PURGE"];
const FIELDS: &[&str] = &[
    "X-A: 1",
    "X-A: 2",
    "Cookie: session=1",
    "Cookie: a=1",
    "Authorization: Basic eDp5",
    "Cache-Control: no-cache",
    "Cache-Control: no-store",
    "Cache-Control: max-age=0",
    "Cache-Control: max-stale",
    "Cache-Control: min-fresh=9000",
    "Cache-Control: only-if-cached",
    "Pragma: no-cache",
    "Range: bytes=0-3",
    "Range: bytes=4-7",
    "If-None-Match: \"1\"",
    "Accept-Encoding: gzip",
    "Max-Forwards: 0",
    "Sec-Purpose: prefetch",
];
const CONTENT: &str = "contents";

/// Returns the origin's response. Its lifetimes end long before a test begins, or long after it ends.
fn answer(seen: &Seen) -> String {
    let head = match seen.target.split('?').next().unwrap_or_default() {
        "/stale" => "200 OK\nCache-Control: max-age=100\nAge: 150\nETag: \"1\"",
        "/soon" => "200 OK\nCache-Control: max-age=1, stale-while-revalidate=1000\nAge: 10",
        "/strict" => "200 OK\nCache-Control: no-cache\nETag: \"1\"",
        "/secret" => "200 OK\nCache-Control: private, max-age=1000",
        "/varies" => "200 OK\nCache-Control: max-age=1000\nVary: X-A",
        "/guessed" => "200 OK\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT",
        "/similar" => "200 OK\nCache-Control: max-age=1000\nNo-Vary-Search: params=(\"a\")",
        "/gone" => "404 Not Found\nCache-Control: max-age=1000",
        "/moved" => "301 Moved Permanently\nCache-Control: max-age=1000\nLocation: /fresh",
        _ => "200 OK\nCache-Control: max-age=1000\nETag: \"1\"",
    };
    let has_tag =
        head.contains("ETag") && seen.field("if-none-match").is_some_and(|tag| tag.contains("\"1\""));
    let range = seen.field("range").filter(|_| seen.target.starts_with("/part"));
    let lines = head.split_once('\n').map_or("", |(_, lines)| lines);
    match range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
        _ if has_tag && seen.method == "GET" => format!("304 Not Modified\n{lines}"),
        Some((from, to)) if seen.method == "GET" => {
            let (from, to) = (from.parse().unwrap_or(0), to.parse().unwrap_or(CONTENT.len() - 1));
            let part = &CONTENT[from..=to];
            format!(
                "206 Partial Content\n{lines}\nContent-Range: bytes {from}-{to}/{}\n\n{part}",
                CONTENT.len()
            )
        }
        _ if seen.method == "HEAD" => format!("{head}\nContent-Length: {}", CONTENT.len()),
        _ => format!("{head}\n\n{CONTENT}"),
    }
}

fn some<'a>(rng: &mut Rng, all: &[&'a str]) -> &'a str {
    all[rng.usize(..all.len())]
}

/// A random request.
#[derive(Debug)]
struct Request {
    method: &'static str,
    target: String,
    fields: Vec<(&'static str, &'static str)>,
}

impl Request {
    fn new(rng: &mut Rng) -> Self {
        let fields = (0..rng.usize(..3)).map(|_| some(rng, FIELDS));
        let mut fields: Vec<_> = fields.filter_map(|line| line.split_once(": ")).collect();
        fields.sort_unstable();
        fields.dedup_by_key(|(name, _)| *name);
        let target = format!("{}{}", some(rng, PATHS), some(rng, QUERIES));
        Self { method: some(rng, METHODS), target, fields }
    }

    /// Returns the decision that `why` names.
    fn why(&self, larder: &Larder) -> Value {
        let mut query = format!("role=reverse&method={}&url={}", self.method, encoded("http://site.test"));
        query += &encoded(&self.target);
        for (name, value) in &self.fields {
            let _ = write!(query, "&header={}", encoded(&format!("{name}: {value}")));
        }
        let said = larder.ask_admin(&format!("GET /why?{query}"));
        serde_json::from_slice::<Value>(&said.body).expect("json")["decision"].take()
    }

    fn send(&self, larder: &Larder, http2: Option<(&mut Client, u32)>) {
        match http2 {
            Some((client, stream)) => {
                let lower: Vec<_> =
                    self.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
                let fields: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                client.ask(stream, self.method, &self.target, &fields);
                client.response(stream);
                larder.settle();
            }
            None => {
                let lines: String =
                    self.fields.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
                larder.ask(&format!("{} {}{lines}", self.method, self.target));
            }
        }
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Whether a request had the outcome that `decision` names. The reason of a miss may be the reason why its answer was not
/// stored, which depends on the answer.
fn agrees(decision: &Value, event: &Value) -> bool {
    let [said, is] = [decision, event].map(|value| (value["outcome"].as_str(), value["reason"].as_str()));
    let not_stored = Why::GROUPS.iter().filter(|(group, _)| *group == "Not stored");
    let mut not_stored = not_stored.flat_map(|(_, reasons)| reasons.iter());
    match (said.0, is.0) {
        (Some("miss"), Some("miss")) => said.1 == is.1 || not_stored.any(|why| Some(why.token()) == is.1),
        (Some("miss"), Some("revalidated")) => said.1 == is.1 && decision["validates"] == true,
        _ => said == is,
    }
}

fn check(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let rule = |rng: &mut Rng| format!("[[site.rule]]\n{}\n{}\n", some(rng, CONDITIONS), some(rng, EFFECTS));
    let key = some(&mut rng, KEYS);
    let rules: String = (0..RULES).map(|_| rule(&mut rng)).collect();
    let origin = Origin::by(answer);
    let config = site(&[&origin], &format!("{key}\n{rules}"));
    let larder = Larder::start(&config);
    let (mut log, mut client) = (Events::of(&larder, "/log"), Client::new(&larder));
    client.authority = "site.test".to_owned();
    for number in 0..REQUESTS as u32 {
        let request = Request::new(&mut rng);
        let is_http2 = rng.bool();
        let (decision, before) = (request.why(&larder), origin.count());
        request.send(&larder, is_http2.then_some((&mut client, 2 * number + 1)));
        let event = log.next().expect("a request");
        let shown = format!("LARDER_SEED={seed}\n{config}\n{request:?}\n{decision:#}\n{event:#}");
        assert!(agrees(&decision, &event), "{shown}");
        if decision["refreshes"] == false {
            assert_eq!(decision["asks_origin"] == true, origin.count() > before, "{shown}");
        }
    }
}

#[test]
fn why_names_the_outcome_of_the_next_request_over_both_versions() {
    let seed = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = match seed {
        Some(seed) => vec![seed],
        None => {
            let first = fastrand::u64(..u64::MAX - CONFIGS);
            (first..first + CONFIGS).collect()
        }
    };
    thread::scope(|scope| seeds.into_iter().for_each(|seed| _ = scope.spawn(move || check(seed))));
}
