//! `why` names the outcome and the reason of the next request, for random rules, stored responses and requests: before
//! a site, as a gateway and as a forward proxy, from memory and from a disk, over HTTP/1.1, HTTP/2 and RPC. `LARDER_SEED`
//! repeats the choices of a run.

use std::fmt::Write as _;
use std::thread;

use fastrand::Rng;
use larder_semantics::status::Why;
use larder_testkit::{Client, Larder, Origin, Seen, eventually, http2, site};
use serde_json::Value;

use super::Events;
use super::caller::{Caller, DOORS, get};

/// The number of configs; then the most rules in a config, the paths that are requested of it, and the requests.
const CONFIGS: u64 = 12;
const RULES: usize = 2;
const CHOSEN: usize = 3;
const REQUESTS: usize = 60;

/// The role of the proxy under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Site,
    Gateway,
    Forward,
}

impl Role {
    const ALL: [Self; 3] = [Self::Site, Self::Gateway, Self::Forward];

    /// Returns the name of the role of its listener.
    fn listener(self) -> &'static str {
        if self == Self::Forward { "forward" } else { "reverse" }
    }

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Site => KEYS,
            Self::Gateway => KEYS_OF_GATEWAYS,
            Self::Forward => KEYS_OF_FORWARD,
        }
    }

    /// Whether a rule of it can have this effect, and the client sees the decision on its request alone.
    fn has(self, effect: &str) -> bool {
        match self {
            Self::Site => true,
            Self::Gateway => !effect.starts_with("cache"),
            // RPC listeners follow redirects.
            Self::Forward => !effect.starts_with("redirect"),
        }
    }
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Http1,
    Http2,
    Call(&'static str),
}

const KEYS: &[&str] = &[
    "",
    "purge_from = ['127.0.0.1']",
    "validate = 'always'",
    "client_prefetch = 'cached-only'",
    "stale_while_revalidate = '1h'",
    "cache = false",
];
const KEYS_OF_GATEWAYS: &[&str] = &["", "push = true", "client_prefetch = 'cached-only'"];
const KEYS_OF_FORWARD: &[&str] =
    &["", "client_prefetch = 'cached-only'", "stale_while_revalidate = '1h'", "store_post = true"];
/// The capacity of memory in front of a disk: most stored responses are on the disk alone.
const MEMORY: &str = "[memory]\nentries = 1\npolicy = 'lru'\n";
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
    "/fresh", "/stale", "/soon", "/strict", "/secret", "/varies", "/guessed", "/similar", "/part", "/gone",
    "/moved",
];
const QUERIES: &[&str] = &["", "", "", "", "?a=1", "?a=2", "?b=1"];
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
    wire: Wire,
    method: &'static str,
    /// The URL without scheme and authority.
    target: String,
    fields: Vec<(&'static str, &'static str)>,
}

impl Request {
    fn new(rng: &mut Rng, role: Role, paths: &[&str]) -> Self {
        let fields = (0..rng.usize(..3)).map(|_| some(rng, FIELDS));
        let mut fields: Vec<_> = fields.filter_map(|line| line.split_once(": ")).collect();
        fields.sort_unstable();
        fields.dedup_by_key(|(name, _)| *name);
        let target = format!("{}{}", some(rng, paths), some(rng, QUERIES));
        let request = Self { wire: Wire::Http1, method: some(rng, METHODS), target, fields };
        match (role, rng.usize(..3)) {
            (Role::Forward, 0) => request.by_call(DOORS[rng.usize(..DOORS.len())]),
            (Role::Site | Role::Gateway, 0) => Self { wire: Wire::Http2, ..request },
            _ => request,
        }
    }

    /// Returns the request that an RPC listener makes of a call.
    fn by_call(self, door: &'static str) -> Self {
        let fields = vec![("Accept", "*/*"), ("Accept-Encoding", "identity")];
        Self { wire: Wire::Call(door), method: "GET", fields, ..self }
    }
}

/// The proxy under test, and its clients.
struct Scene {
    role: Role,
    origin: Origin,
    larder: Larder,
    log: Events,
    has_disk: bool,
    /// The client of a site or a gateway in HTTP/2, and its next stream.
    http2: Option<(http2::Client, u32)>,
}

impl Scene {
    fn start(role: Role, config: &str, origin: Origin, has_disk: bool) -> Self {
        // A gateway that knows nothing of its last process makes no tags at first.
        let larder = Larder::start_settled(config, &[("site1", &origin.url())]);
        let log = Events::of(&larder, "/log");
        let mut http2 = (role != Role::Forward).then(|| (http2::Client::new(&larder), 1));
        http2.iter_mut().for_each(|(client, _)| "site.test".clone_into(&mut client.authority));
        Self { role, origin, larder, log, has_disk, http2 }
    }

    fn url(&self, request: &Request) -> String {
        match self.role {
            Role::Forward => format!("{}{}", self.origin.url(), request.target),
            _ => format!("http://site.test{}", request.target),
        }
    }

    /// Returns the decision that `why` names.
    fn why(&self, request: &Request) -> Value {
        let (role, url) = (self.role.listener(), encoded(&self.url(request)));
        let mut query = format!("role={role}&method={}&url={url}", request.method);
        for (name, value) in &request.fields {
            let _ = write!(query, "&header={}", encoded(&format!("{name}: {value}")));
        }
        self.larder.ask_admin(&format!("GET /why?{query}")).json()["decision"].take()
    }

    /// Sends a request, and returns its line of the log, when all that it stored is stored.
    fn send(&mut self, request: &Request) -> Value {
        let Request { wire, method, fields, .. } = request;
        match (wire, &mut self.http2) {
            (Wire::Call(door), _) => {
                let url = self.url(request);
                Caller::to(&self.larder, door).call(&get(&url));
            }
            (Wire::Http2, Some((client, stream))) => {
                let lower: Vec<_> =
                    fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
                let fields: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                client.ask(*stream, method, &request.target, &fields);
                client.response(*stream);
                *stream += 2;
            }
            _ => {
                let lines: String = fields.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
                let (address, target) = match self.role {
                    Role::Forward => (self.larder.forward, self.url(request)),
                    _ => (self.larder.address(), request.target.clone()),
                };
                Client::to(address).ask(&format!("{method} {target}{lines}"));
            }
        }
        self.settle();
        self.log.next().expect("a request")
    }

    fn settle(&self) {
        self.larder.settle();
        if self.has_disk {
            let is_written = || (self.larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(());
            eventually("the disk to write", is_written);
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

/// Returns a random config of a proxy of this role.
fn config(rng: &mut Rng, role: Role, origin: &Origin) -> String {
    let key = some(rng, role.keys());
    let table = if role == Role::Forward { "forward" } else { "site" };
    let effects: Vec<_> = EFFECTS.iter().copied().filter(|effect| role.has(effect)).collect();
    let rules: String = (0..rng.usize(..=RULES))
        .map(|_| format!("[[{table}.rule]]\n{}\n{}\n", some(rng, CONDITIONS), some(rng, &effects)))
        .collect();
    match role {
        Role::Site => site(&[origin], &format!("{key}\n{rules}")),
        Role::Gateway => site(&[origin], &format!("role = 'tags'\n{key}\n{rules}")),
        Role::Forward => {
            let doors = "[thrift]\nlisten = '127.0.0.1:0'\n[onc]\nlisten = '127.0.0.1:0'\nrpcbind = 'off'\n[line]\nlisten = '127.0.0.1:0'\n";
            format!("{doors}[forward]\nallow_private = true\n{key}\n{rules}")
        }
    }
}

fn check(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let role = Role::ALL[(seed % 3) as usize];
    let origin = Origin::by(answer);
    let directory = tempfile::tempdir().expect("a directory");
    let has_disk = role != Role::Gateway && rng.bool();
    let tables = match has_disk {
        true => format!("{MEMORY}[[disk]]\npath = '{}'\nsize = '64MiB'\n", directory.path().display()),
        false => String::new(),
    };
    let config = tables + &config(&mut rng, role, &origin);
    // Few paths, so that stored responses are requested again. RPC listeners follow redirects.
    let all: Vec<_> =
        PATHS.iter().copied().filter(|path| role != Role::Forward || *path != "/moved").collect();
    let paths: Vec<_> = (0..CHOSEN).map(|_| some(&mut rng, &all)).collect();
    let mut scene = Scene::start(role, &config, origin, has_disk);
    for _ in 0..REQUESTS {
        let request = Request::new(&mut rng, role, &paths);
        let (decision, before) = (scene.why(&request), scene.origin.count());
        let event = scene.send(&request);
        let shown = format!("LARDER_SEED={seed}\n{config}\n{request:?}\n{decision:#}\n{event:#}");
        assert!(agrees(&decision, &event), "{shown}");
        if decision["refreshes"] == false {
            assert_eq!(decision["asks_origin"] == true, scene.origin.count() > before, "{shown}");
        }
    }
}

#[test]
fn why_names_the_outcome_of_the_next_request_in_every_role() {
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
