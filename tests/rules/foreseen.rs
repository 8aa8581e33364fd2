//! `larder check --test` predicts the behaviour of a config: random rules, requests and responses go through a proxy,
//! and the results become the expectations of the command. `LARDER_SEED` repeats the choices of a run.

use std::fmt::Write as _;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use larder_testkit::{Larder, Origin, Response, Seen, site};

use super::expectations::check;

/// The number of rules in a config; then that of requests for it, and of configs.
const RULES: usize = 5;
const REQUESTS: usize = 12;
const CONFIGS: usize = 10;

const OF_RESOURCE: &[&str] = &[
    "",
    "match = { path = '/a/*' }\n",
    "match = { path = '*.css' }\n",
    "match = { extension = 'css' }\n",
    "match = { not = { path = '/b/*' } }\n",
];
const OF_REQUEST: &[&str] = &[
    "match = { method = 'POST' }\n",
    "match = { query = 'a' }\n",
    "match = { query = { b = '2' } }\n",
    "match = { field = 'X-A' }\n",
    "match = { cookie = 'session' }\n",
    "match = { client = '10.0.0.0/8' }\n",
    "match = { path = '/a/*', not = { cookie = 'session' } }\n",
];
const OF_RESPONSE: &[&str] = &[
    "match = { status = 404 }\n",
    "match = { status = '5xx' }\n",
    "match = { type = 'text/*' }\n",
    "match = { min_length = 4 }\n",
    "match = { max_length = 4, not = { status = 404 } }\n",
    "match = { response_field = 'ETag' }\n",
];

/// Effects that are equal for all requests of a path.
const FOR_RESOURCES: &[&str] = &[
    "key_fields = 'X-A'",
    "key_cookies = 'session'",
    "classes = { field = 'X-Class', of = 'X-A', values = { one = '1' }, else = 'none' }",
    "rewrite = '/v1{path}'",
    "rewrite = '/v2{uri}'",
    "host = 'api.test'",
    "host = 'origin'",
];
/// Effects on the request, before there is a response.
const FOR_REQUESTS: &[&str] = &[
    "query = 'drop'",
    "query = { keep = ['a'], sort = true }",
    "query = { drop = ['@tracking'] }",
    "cors = '*'",
    "cors = { origins = ['https://app.test'], credentials = true, expose = ['X-Total'] }",
    "security_headers = true",
    "redirect = '/new{uri}'",
    "redirect = { to = 'https://{host}/x{query}', status = 301 }",
    "respond = 404",
    "respond = { status = 503, body = 'closed' }",
    "error_page = { 404 = '@404.html', 5xx = '@sorry.txt' }",
    "error_page = { 401 = '@404.html', 403 = '@sorry.txt' }",
    "allow = ['10.0.0.0/8', '127.0.0.0/8']",
    "deny = ['192.0.2.0/24']",
    "users = '@users'",
    "tokens = '@tokens'\nrealm = 'here'",
    "users = false\ntokens = false",
    "request = { set = { X-A = '1' }, remove = ['Cookie'] }",
    "request = { add = { X-A = '2' }, default = { X-B = '3' } }",
    "request = { cookies = { keep = ['a'] } }",
    "reply = { set = { X-R = '1', Vary = 'X-A' }, remove = ['ETag'] }",
    "reply = { add = { X-R = '2' }, default = { X-S = '3', Content-Type = 'a/b' } }",
    "reply = { cookies = 'drop' }",
    "client_prefetch = 'cached-only'",
    "cache = false\nstop = true",
    "stop = true",
];
/// Effects on the response.
const FOR_RESPONSES: &[&str] = &[
    "cache = false",
    "cache = true",
    "ttl = '7s'",
    "ttl_default = '5m'",
    "ttl_min = '1m'\nttl_max = '2m'",
    "stale_while_revalidate = '1m'",
    "ignore = ['no-cache', 'no-store', 'private']",
    "compress = ['gzip', 'br']",
    "compress = false",
    "response = { set = { Cache-Control = 'max-age=9' }, remove = ['ETag'] }",
    "response = { add = { X-A = '4' }, default = { Content-Type = 'text/css' } }",
    "response = { cookies = 'drop' }",
];

const ANSWERS: &[&str] = &[
    "200 OK\nCache-Control: max-age=100\nContent-Type: text/html\nETag: \"1\"",
    "200 OK\nContent-Type: image/png",
    "200 OK\nCache-Control: no-cache\nETag: \"2\"",
    "200 OK\nCache-Control: private, max-age=5",
    "200 OK\nCache-Control: max-age=100\nSet-Cookie: session=abcdef; Path=/\nVary: X-A",
    "404 Not Found\nCache-Control: max-age=3\nContent-Type: text/plain\nX-Total: 1",
    "503 Service Unavailable\nContent-Type: text/html\nRetry-After: 9",
    "301 Moved Permanently\nLocation: /elsewhere",
];
const METHODS: &[&str] = &["GET", "GET", "GET", "HEAD", "POST", "OPTIONS"];
const PATHS: &[&str] = &["/a/", "/b/", "/c/"];
const QUERIES: &[&str] = &["", "?a=1", "?b=2&a=1", "?utm_source=x&b=2"];
const FIELDS: &[&str] = &[
    "X-A: 1",
    "X-A: 7",
    "Cookie: session=x; a=1",
    "Cookie: a=1; b=2",
    "Authorization: Basic YmVhOm9wZW4gc2VzYW1l",
    "Authorization: Bearer 0123456789abcdef",
    "Authorization: Basic YmVhOng=",
    "Origin: https://app.test",
    "Origin: https://other.test",
    "Accept-Encoding: gzip",
    "Cache-Control: no-store",
    "Cache-Control: only-if-cached",
    "Sec-Purpose: prefetch",
    "Access-Control-Request-Method: PUT",
];
const CLIENTS: &[&str] = &["10.1.2.3", "192.0.2.7", "198.51.100.1"];

/// Fields about the connection and about the way in which a reply was obtained; they are not compared.
const UNTOLD: &[&str] =
    &["via", "cache-status", "date", "age", "connection", "keep-alive", "transfer-encoding"];
/// Request fields that this proxy writes for its origins.
const INTRODUCED: &[&str] = &["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "content-length"];

fn some<'a>(rng: &mut Rng, all: &[&'a str]) -> &'a str {
    all[rng.usize(..all.len())]
}

fn rule(rng: &mut Rng) -> String {
    let which = rng.u8(..3);
    let conditions = match which {
        0 => OF_RESOURCE,
        1 => OF_REQUEST,
        _ => OF_RESPONSE,
    };
    let effects: &[&[&str]] = match which {
        0 => &[FOR_RESOURCES, FOR_REQUESTS, FOR_RESPONSES],
        1 => &[FOR_REQUESTS, FOR_RESPONSES],
        _ => &[FOR_RESPONSES],
    };
    let effects = effects[rng.usize(..effects.len())];
    format!("[[site.rule]]\n{}{}\n", some(rng, conditions), some(rng, effects))
}

/// A request, and the origin's response to it.
struct Case {
    method: &'static str,
    target: String,
    fields: Vec<&'static str>,
    client: &'static str,
    answer: &'static str,
    body: &'static str,
}

impl Case {
    fn new(rng: &mut Rng, number: usize) -> Self {
        let end = if rng.bool() { ".css" } else { "" };
        let mut fields: Vec<&str> = (0..rng.usize(..4)).map(|_| some(rng, FIELDS)).collect();
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        fields.sort_unstable();
        fields.dedup_by_key(|line| name(line));
        Self {
            method: some(rng, METHODS),
            target: format!("{}n{number}{end}{}", some(rng, PATHS), some(rng, QUERIES)),
            fields,
            client: some(rng, CLIENTS),
            answer: some(rng, ANSWERS),
            body: some(rng, &["four", "longer than that"]),
        }
    }

    /// Returns the response as the origin sends it.
    fn answer(&self) -> String {
        format!("{}\nContent-Length: {}\n\n{}", self.answer, self.body.len(), self.body)
    }

    /// Returns the reply to the client, and whether the request took place within one second of the clock, so that the
    /// lifetime of the stored response has just begun.
    fn ask(&self, larder: &Larder) -> (Response, bool) {
        let Self { method, target, client, .. } = self;
        let lines: String = self.fields.iter().map(|line| format!("\n{line}")).collect();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
        let begun = now();
        let reply = larder.ask(&format!("{method} {target}\nX-Forwarded-For: {client}{lines}"));
        (reply, begun.subsec_millis() > 100 && begun.as_secs() == now().as_secs())
    }

    /// Returns the result as an expectation. `seen` is the request at the origin.
    fn expectation(
        &self,
        origin: &Origin,
        seen: Option<&Seen>,
        (reply, is_new): &(Response, bool),
    ) -> String {
        let (status, fields) = self.answer.split_once(" ").expect("a status");
        let lines = fields.lines().skip(1).map(str::to_owned);
        let answer = table(lines.chain([format!("Content-Length: {}", self.body.len())]));
        let own = self.fields.iter().map(|line| (*line).to_owned());
        let asks = seen.map_or_else(String::new, |seen| format!("{}{}", origin.url(), seen.target));
        let mut test = format!(
            "[[test]]\nrequest = '{} http://site.test{}'\nclient = '{}'\nfields = {}\n\
             origin = {{ status = {status}, fields = {answer} }}\n\
             [test.expect]\nstatus = {}\nasks = '{asks}'\n{}\n",
            self.method,
            self.target,
            self.client,
            table(own),
            reply.status,
            outcome(reply.field("cache-status").expect("a cache status"), *is_new),
        );
        let names = self.answer.lines().skip(1).chain(["X-R:", "X-S:", "Access-Control-Allow-Origin:"]);
        let _ = writeln!(test, "fields = {}", told(&reply.fields, names, UNTOLD));
        if let Some(seen) = seen {
            let names = self.fields.iter().copied().chain(["X-B:", "X-Class:"]);
            let _ = writeln!(test, "sends = {}", told(&seen.fields, names, &[UNTOLD, INTRODUCED].concat()));
        }
        test
    }
}

/// Returns the outcome in `Cache-Status` as keys of an expectation; includes the lifetime only if it has just begun.
fn outcome(line: &str, is_new: bool) -> String {
    let members: Vec<_> = line.split("; ").collect();
    let value = |name: &str| members.iter().find_map(|member| member.strip_prefix(name)?.strip_prefix('='));
    let reason = value("detail").unwrap_or("none");
    let outcome = match value("fwd") {
        None if ["by-rule", "only-https"].contains(&reason) => "answered",
        None => "refused",
        Some(_) if members.contains(&"stored") => "stored",
        Some("method" | "bypass") => "passed",
        Some(_) => "not-stored",
    };
    match (outcome, value("ttl")) {
        ("stored", Some(_)) if !is_new => "outcome = 'stored'".to_owned(),
        ("stored", Some(ttl)) => format!("outcome = 'stored'\nlifetime = '{ttl}s'"),
        _ => format!("outcome = '{outcome}'\nreason = '{reason}'"),
    }
}

/// Returns an expectation of all `lines` of a head except the `untold` fields, and of the absence of the other `names`.
fn told<'n>(lines: &[(String, String)], names: impl Iterator<Item = &'n str>, untold: &[&str]) -> String {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in lines {
        let name = name.to_ascii_lowercase();
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => _ = write!(values, ", {value}"),
            None => all.push((name, value.clone())),
        }
    }
    for name in names.filter_map(|line| line.split(':').next()).map(str::to_ascii_lowercase) {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, String::new()));
        }
    }
    all.retain(|(name, _)| !untold.contains(&name.as_str()));
    table(all.into_iter().map(|(name, value)| format!("{name}: {value}")))
}

/// Returns a table of field lines.
fn table(lines: impl Iterator<Item = String>) -> String {
    let pair = |line: String| {
        let (name, value) = line.split_once(": ").expect("a line");
        format!("{name} = {}", serde_json::to_string(value).expect("text"))
    };
    format!("{{ {} }}", lines.map(pair).collect::<Vec<_>>().join(", "))
}

#[test]
fn check_predicts_what_requests_get_under_random_rules() {
    let seed = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let (mut rng, folder) = (Rng::with_seed(seed), tempfile::tempdir().expect("a folder"));
    for (name, text) in [
        ("404.html", "<p>404"),
        ("sorry.txt", "sorry"),
        ("users", "bea:$2y$04$kTb6CD33HQu5TaNPdAbYNujtpQj1pW5VBgqhBLfyhnd.v0UWCPJza\n"),
        ("tokens", "0123456789abcdef\n"),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let place = format!("'{}/", folder.path().display());
    for _ in 0..CONFIGS {
        let rules: String = (0..RULES).map(|_| rule(&mut rng)).collect();
        let cases: Vec<_> = (0..REQUESTS).map(|number| Case::new(&mut rng, number)).collect();
        let answers: Vec<_> = cases.iter().map(Case::answer).collect();
        let origin = Origin::by(move |seen| {
            let number = seen.target.split("/n").nth(1).unwrap_or_default();
            let end = number.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(number.len());
            answers[number[..end].parse::<usize>().expect("a number")].clone()
        });
        let rules = rules.replace("'@users'", &format!("{place}users'")).replace("'@", &place);
        let rules = rules.replace(&format!("{place}tracking"), "'@tracking");
        let config = format!("trust = '127.0.0.1'\n{}", site(&[&origin], &format!("retries = 0\n{rules}")));
        let larder = Larder::start(&config);
        let mut tests = String::new();
        for case in &cases {
            let before = origin.count();
            let reply = case.ask(&larder);
            let seen = (origin.count() > before).then(|| origin.last());
            tests += &case.expectation(&origin, seen.as_ref(), &reply);
        }
        let done = check(&config, &tests);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "LARDER_SEED={seed}\n{config}\n{said}\n{tests}");
    }
}
