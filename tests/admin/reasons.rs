//! The running program reports each reason of the list in the live log; a call of the rule covers a reason that no
//! request causes alone.

mod unanswered;

use std::io::Write as _;
use std::net::TcpStream;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use larder_semantics::directives::RequestDirectives;
use larder_semantics::freshness::Freshness;
use larder_semantics::key;
use larder_semantics::reuse::{Reuse, reuse};
use larder_semantics::status::Why;
use larder_semantics::storable::{Rules, Times, storable, storable_post};
use larder_testkit::nodes::{node, wait_for};
use larder_testkit::{Answer, Client, Engine, Gate, Larder, Origin, Pair, eventually, file_with, site};
use serde_json::Value;

use super::Events;
use unanswered::{
    asks_for_a_certificate, by_another_name, by_bucket, distrusted, ends_in_the_handshake, expired,
    not_for_servers, parent_refused, parent_unreachable, tunnelled, unreachable, unresolved, untrusted,
    without_tls,
};

/// The way to cause a reason.
enum Exercise {
    /// The origin answers the requests in order with the texts; the event of the last request has the reason.
    Asked(&'static [&'static str], &'static [&'static str]),
    /// A longer scenario, which returns the event in the live log.
    Staged(fn() -> Value),
    /// A call of the rule that returns the reason.
    Rule(fn() -> Result<(), Why>),
}

const FRESH: &str = "200 OK\nCache-Control: max-age=100";
const STALE: &str = "200 OK\nCache-Control: max-age=1\nAge: 10\nETag: \"1\"";
const REFRESHED: &str = "200 OK\nCache-Control: max-age=1, stale-while-revalidate=1000\nAge: 10";
const LASTING: &str = "200 OK\nCache-Control: max-age=1, stale-if-error=1000\nAge: 10";
const MODIFIED: &str = "200 OK\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT";
const VARIES: &str = "200 OK\nCache-Control: max-age=100\nVary: V";
const GROUPED: &str = "200 OK\nCache-Control: max-age=100\nETag: \"1\"\nCache-Groups: \"g\"";
const NO_CACHE: &str = "200 OK\nCache-Control: no-cache\nETag: \"1\"";
const COOKIE: &str = "200 OK\nSet-Cookie: a=b\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT";
const PART: &str =
    "206 Partial Content\nContent-Range: bytes 0-1/10\nCache-Control: max-age=100\nETag: \"1\"\n\nab";
const MISSING: &str = "404 Not Found\nCache-Control: max-age=100";
const NO_RANGE: &str = "206 Partial Content\nCache-Control: max-age=100\n\nab";
const ROUND: &str = "GET\nVia: 1.1 Larder, 1.1 Larder, 1.1 Larder, 1.1 Larder, 1.1 Larder, 1.1 Larder, 1.1 Larder, 1.1 Larder";

fn exercise(why: Why) -> Exercise {
    use Exercise::{Asked, Rule, Staged};
    match why {
        Why::Fresh => Asked(&[FRESH], &["GET", "GET"]),
        Why::EquivalentQuery => Staged(equivalent_query),
        Why::StaleWhileRevalidate => Asked(&[REFRESHED, FRESH], &["GET", "GET"]),
        Why::MaxStale => Asked(&[STALE], &["GET", "GET\nCache-Control: max-stale"]),
        Why::StaleIfError => Asked(&[LASTING, "503 Service Unavailable"], &["GET", "GET"]),
        Why::TagCurrent => Staged(|| tagged("\"1\"")),
        Why::TagUnknown => Staged(|| tagged("\"2\"")),
        Why::AlwaysValidated => Staged(always),
        Why::Absent => Asked(&[FRESH], &["GET"]),
        Why::VariantAbsent => Asked(&[VARIES, VARIES], &["GET", "GET\nV: 1"]),
        Why::RangeAbsent => Asked(&[PART, PART], &["GET\nRange: bytes=0-1", "GET\nRange: bytes=5-6"]),
        Why::Expired => Asked(&[STALE, "304 Not Modified\nETag: \"1\""], &["GET", "GET"]),
        Why::Purged => Rule(purged),
        Why::Invalidated => Staged(invalidated),
        Why::ResponseNoCache => Asked(&[NO_CACHE, "304 Not Modified\nETag: \"1\""], &["GET", "GET"]),
        Why::RequestNoCache => Asked(&[FRESH, FRESH], &["GET", "GET\nCache-Control: no-cache"]),
        Why::RequestMaxAge => Asked(&[FRESH, FRESH], &["GET", "GET\nCache-Control: max-age=0"]),
        Why::RequestIfMatch => Asked(&[FRESH, FRESH], &["GET", "GET\nIf-Match: \"other\""]),
        Why::RequestMinFresh => Asked(&[FRESH, FRESH], &["GET", "GET\nCache-Control: min-fresh=1000"]),
        Why::Method => Asked(&[FRESH], &["POST"]),
        Why::Bypass => Asked(&[FRESH], &["GET\n\ncontent"]),
        Why::MethodNotStorable => Rule(put),
        Why::StatusNotStorable => Asked(&["412 Precondition Failed"], &["GET"]),
        Why::NotUnderstood => Asked(&["299 New\nCache-Control: must-understand, max-age=100"], &["GET"]),
        Why::RequestNoStore => Asked(&[FRESH], &["GET\nCache-Control: no-store"]),
        Why::ResponseNoStore => Asked(&["200 OK\nCache-Control: no-store"], &["GET"]),
        Why::Private => Asked(&["200 OK\nCache-Control: private, max-age=100"], &["GET"]),
        Why::Authorization => Asked(&[FRESH], &["GET\nAuthorization: Basic eDp5"]),
        Why::SetCookie => Asked(&[COOKIE], &["GET"]),
        Why::CookieGuess => Asked(&[MODIFIED], &["GET\nCookie: a=b"]),
        Why::VaryAny => Asked(&["200 OK\nCache-Control: max-age=100\nVary: *"], &["GET"]),
        Why::NoFreshness => Asked(&["200 OK"], &["GET"]),
        Why::NeverFresh => Asked(&["200 OK\nCache-Control: max-age=0"], &["GET"]),
        Why::ContentLocation => Rule(posted_elsewhere),
        Why::BadContentRange => Asked(&[NO_RANGE], &["GET\nRange: bytes=0-1"]),
        Why::ErrorWhileFresh => Asked(&[FRESH, MISSING], &["GET", "GET\nCache-Control: no-cache"]),
        Why::TooLarge | Why::NotAdmitted | Why::StaleIfSlow => exercise_settings(why),
        Why::FillBudget => Staged(budget_used_up),
        Why::NotWritten => Staged(not_written),
        Why::OnlyIfCached => Asked(&[], &["GET\nCache-Control: only-if-cached"]),
        Why::OriginUnreachable | Why::OriginUnresolved => exercise_ways(why),
        Why::OriginTls | Why::OriginTlsUntrusted | Why::OriginTlsExpired => exercise_ways(why),
        Why::OriginTlsName | Why::OriginTlsCertificate | Why::OriginNotTls => exercise_ways(why),
        Why::ParentUnreachable | Why::ParentRefused | Why::NoCredentials => exercise_ways(why),
        Why::BucketRefused | Why::ReadOnly => exercise_ways(why),
        Why::OriginClosed => Staged(closed),
        Why::OriginTimeout => Staged(silent),
        Why::OriginMalformed => Staged(malformed),
        Why::OriginForbidden => Staged(forbidden),
        Why::OnlyHttps => Staged(redirected),
        Why::DigestMismatch | Why::PackageYoung => exercise_rules(why),
        Why::ByRule | Why::NotByRule | Why::RateLimited => exercise_rules(why),
        Why::AccessDenied | Why::AuthUnanswered | Why::Unauthorized => exercise_rules(why),
        Why::PrefetchNotStored => Staged(prefetch),
        Why::Loop => Asked(&[], &[ROUND]),
        Why::Refused => Asked(&[], &["GET\nContent-Length: 1\nContent-Length: 2"]),
        Why::Overloaded => Staged(overloaded),
        Why::ClientLeft => Staged(abandoned),
        Why::Undelivered => Staged(undelivered),
        Why::PositionAhead => Staged(ahead),
        Why::OwnedElsewhere => Staged(owned_elsewhere),
        Why::Intercepted | Why::TunnelDistrusted | Why::TunnelCertificate => exercise_tunnels(why),
        Why::TunnelNotTls | Why::TunnelCredentials => exercise_tunnels(why),
    }
}

fn exercise_tunnels(why: Why) -> Exercise {
    Exercise::Staged(match why {
        Why::Intercepted => || tunnelled(1, ""),
        Why::TunnelDistrusted => distrusted,
        Why::TunnelCertificate => asks_for_a_certificate,
        Why::TunnelNotTls => || {
            let origin = Origin::speaking(|peer| peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
            tunnelled(origin.address.port(), "")
        },
        _ => || {
            let (_folder, tokens) = file_with("tokens", "0123456789abcdef\n");
            let rule = format!("[[forward.rule]]\ntokens = '{}'", tokens.display());
            tunnelled(Origin::speaking(|_| ()).address.port(), &rule)
        },
    })
}

/// Exercises the reasons why origins behind TLS, parent proxies and signatures give no answer.
fn exercise_ways(why: Why) -> Exercise {
    Exercise::Staged(match why {
        Why::OriginUnreachable => unreachable,
        Why::OriginUnresolved => unresolved,
        Why::OriginTls => ends_in_the_handshake,
        Why::OriginTlsUntrusted => untrusted,
        Why::OriginTlsExpired => expired,
        Why::OriginTlsName => by_another_name,
        Why::OriginTlsCertificate => not_for_servers,
        Why::OriginNotTls => without_tls,
        Why::ParentUnreachable => parent_unreachable,
        Why::ParentRefused => parent_refused,
        Why::NoCredentials => || by_bucket("credentials=env", "GET /"),
        Why::BucketRefused => || by_bucket("credentials=none", "GET /"),
        _ => || by_bucket("credentials=none", "DELETE /"),
    })
}

fn exercise_settings(why: Why) -> Exercise {
    Exercise::Staged(match why {
        Why::TooLarge => too_large,
        Why::StaleIfSlow => slow,
        _ => not_admitted,
    })
}

fn exercise_rules(why: Why) -> Exercise {
    Exercise::Staged(match why {
        Why::ByRule => || by_rule("respond = 404"),
        Why::NotByRule => || by_rule("match = { status = 200 }\ncache = false"),
        Why::RateLimited => limited,
        Why::DigestMismatch => || of_package("packages = 'oci'", &format!("/blobs/sha256:{:064}", 1)),
        Why::PackageYoung => || of_package("packages = 'npm'\nmin_age = '7d'", "/pad/-/pad-1.0.0.tgz"),
        Why::AuthUnanswered => || by_rule("auth_request = { url = 'unix:/none' }"),
        Why::Unauthorized => || by_rule("users = '/dev/null'"),
        _ => || by_rule("deny = ['127.0.0.1']"),
    })
}

fn judged(method: &Method, status: StatusCode, lines: &[(&'static str, &'static str)]) -> Result<(), Why> {
    let fields: HeaderMap = lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value")))
        .collect();
    storable(&Rules::default(), method, &HeaderMap::new(), status, &fields, Times::default()).map(drop)
}

fn put() -> Result<(), Why> {
    judged(&Method::PUT, StatusCode::OK, &[("cache-control", "max-age=5")])
}

fn posted_elsewhere() -> Result<(), Why> {
    let (mut target, fields) = (Vec::new(), HeaderMap::new());
    key::write(&mut target, "http", b"site.test", b"/");
    storable_post(&Rules::default(), &target, &fields, StatusCode::OK, &fields, Times::default()).map(drop)
}

fn purged() -> Result<(), Why> {
    let stored = Freshness { lifetime: 60, ..Freshness::default() }.purged(0);
    match reuse(&stored, &RequestDirectives::default(), 0) {
        Reuse::Revalidate(why) => Err(why),
        _ => Ok(()),
    }
}

fn redirected() -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = Pair::self_signed(folder.path(), "site.test").table();
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let origin = Origin::always(FRESH);
    seen(&Larder::start(&format!("{listen}{tls}{}", site(&[&origin], "https = 'redirect'"))))
}

fn by_rule(rule: &str) -> Value {
    seen(&Larder::start(&site(&[&Origin::always(FRESH)], &format!("[[site.rule]]\n{rule}"))))
}

/// Returns the event of a request for a package without content and without a date.
fn of_package(rule: &str, path: &str) -> Value {
    let origin = Origin::always(FRESH);
    let larder = Larder::with_site(&[&origin], &format!("[[site.rule]]\n{rule}"));
    let mut log = Events::of(&larder, "/log");
    larder.get(path);
    log.next().expect("a request")
}

fn limited() -> Value {
    let origin = Origin::always(FRESH);
    let larder = Larder::with_site(&[&origin], "[[site.rule]]\nlimit = { requests = '1/h' }");
    larder.get("/");
    seen(&larder)
}

/// Returns the event in the live log of a GET to `larder`, with any response.
fn seen(larder: &Larder) -> Value {
    let mut log = Events::of(larder, "/log");
    larder.get("/");
    log.next().expect("a request")
}

fn prefetch() -> Value {
    let larder = Larder::with_site(&[&Origin::always(FRESH)], "client_prefetch = 'cached-only'");
    let mut log = Events::of(&larder, "/log");
    larder.ask("GET /\nSec-Purpose: prefetch");
    log.next().expect("a request")
}

fn equivalent_query() -> Value {
    let larder =
        Larder::before(&Origin::always("200 OK\nCache-Control: max-age=100\nNo-Vary-Search: params=(\"a\")"));
    larder.get("/?a=1");
    seen(&larder)
}

/// Invalidates by a change of another URL: a change of the URL itself would remove the stored response.
fn invalidated() -> Value {
    let origin = Origin::by(|seen| match seen.method.as_str() {
        "GET" => GROUPED.to_owned(),
        _ => "200 OK\nCache-Group-Invalidation: \"g\"".to_owned(),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    larder.ask("PUT /elsewhere\n\nx");
    seen(&larder)
}

/// Returns the event of a request with `tag` to a gateway that has a current tag.
fn tagged(tag: &str) -> Value {
    let origin = Origin::always("200 OK\nETag: \"1\"");
    let larder = Larder::start_settled(&site(&[&origin], "role = 'tags'"), &[("site1", &origin.url())]);
    larder.get("/");
    let mut log = Events::of(&larder, "/log");
    larder.ask(&format!("GET /\nIf-None-Match: {tag}"));
    log.next().expect("a request")
}

fn always() -> Value {
    let larder = Larder::with_site(&[&Origin::always(FRESH)], "validate = 'always'");
    larder.get("/");
    seen(&larder)
}

fn too_large() -> Value {
    let origin = Origin::answering(|_| Answer::with_body(FRESH, &[b'x'; 5_000]));
    seen(&Larder::with(&origin, "[memory]\nmax_object = '1KiB'"))
}

fn not_admitted() -> Value {
    let origin = Origin::answering(|_| Answer::with_body(FRESH, &[b'x'; 5_000]));
    seen(&Larder::with(&origin, "[memory]\npolicy = 'size:max=1KiB+lru'"))
}

/// A disk that cannot be written to is detected after some attempts.
fn not_written() -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let origin = Origin::answering(|_| Answer::with_body(FRESH, &[b'x'; 100_000]));
    let disk = format!("[memory]\nmax_object = '1KiB'\n[[disk]]\npath = '{}'", directory.path().display());
    let config = format!("{disk}\n{}", site(&[&origin], ""));
    let larder = Larder::start_behind(&["sh", "-c", "ulimit -f 16; exec \"$@\"", "sh"], &config);
    eventually("a disk that is not written to", || {
        Some(seen(&larder)).filter(|seen| seen["reason"] == "not-written")
    })
}

/// Returns the event of a request while another response, of 896 KiB without its last byte, uses all memory.
fn budget_used_up() -> Value {
    const ALL: usize = 896 << 10;
    let (gate, origin) = Origin::gated(|seen, held| match seen.target.as_str() {
        "/first" => {
            let head = format!("{FRESH}\nContent-Length: {ALL}");
            Answer::with_body(&head, &[b'x'; ALL - 1]).then_wait(held).then(*b"x")
        }
        _ => Answer::with_body(FRESH, &[b'x'; 70_000]),
    });
    let larder = Larder::with(&origin, "[memory]\nsize = '4MiB'");
    let mut log = Events::of(&larder, "/log");
    let mut first = larder.client();
    first.send("GET /first");
    first.exactly(ALL - 1);
    larder.client().ask("GET /second");
    let seen = log.next().expect("a request");
    gate.open();
    seen
}

fn closed() -> Value {
    seen(&Larder::before(&Origin::answering(|_| Answer::default().then_close())))
}

fn silent() -> Value {
    let origin = Origin::speaking(|peer| while peer.request().is_some() {});
    seen(&Larder::with(&origin, "[timeouts]\nfirst_byte = '200ms'"))
}

fn slow() -> Value {
    let gate = Gate::default();
    let origin = Origin::answering(move |seen| match seen.number {
        0 => Answer::with_body(STALE, b"old"),
        _ => Answer::default().then_wait(&gate),
    });
    let site = site(&[&origin], "stale_if_slow = '100ms'\nretries = 0");
    let larder = Larder::start(&format!("[timeouts]\nfirst_byte = '500ms'\n{site}"));
    larder.get("/");
    seen(&larder)
}

fn malformed() -> Value {
    let origin = Origin::speaking(|peer| {
        peer.request();
        peer.send(b"nonsense\r\n\r\n");
    });
    seen(&Larder::before(&origin))
}

fn forbidden() -> Value {
    let larder = Larder::start("");
    let mut log = Events::of(&larder, "/log");
    Client::to(larder.forward).ask("GET http://127.0.0.1:1/\nHost: 127.0.0.1:1");
    log.next().expect("a request")
}

fn overloaded() -> Value {
    let (gate, origin) = Origin::gated(|_, held| {
        held.pass();
        Answer::with_body(FRESH, b"late")
    });
    let larder = Larder::with(&origin, "[limits]\nin_flight = 1\nqueue = 0");
    let mut log = Events::of(&larder, "/log");
    let mut first = larder.client();
    first.send("GET /first");
    eventually("the first at the origin", || (origin.count() == 1).then_some(()));
    larder.client().ask("GET /second");
    let seen = log.next().expect("a request");
    gate.open();
    first.receive("GET");
    seen
}

/// A client that disconnects while it waits for the origin.
fn abandoned() -> Value {
    let (gate, origin) = Origin::gated(|_, held| Answer::default().then_wait(held).then_close());
    let larder = Larder::before(&origin);
    let log = Events::of(&larder, "/log");
    let mut client = larder.client();
    client.send("GET /");
    origin.wait_for(1);
    drop(client);
    let seen = log.take(1).next().expect("a request");
    gate.open();
    seen
}

/// A redirect to itself, requested by the line protocol.
fn undelivered() -> Value {
    let origin = Origin::always("302 Found\nLocation: /");
    let larder = Larder::start("[line]\nlisten = '127.0.0.1:0'\n[forward]\nallow_private = true");
    let log = Events::of(&larder, "/log");
    let mut client = TcpStream::connect(larder.door("line")).expect("a connection");
    writeln!(client, "{}", origin.url()).expect("it reads");
    log.take(1).next().expect("a request")
}

/// Returns the event of a request for one of some URLs, of which another node owns at least one.
fn owned_elsewhere() -> Value {
    let (engine, origin) = (Engine::start(), Origin::always(FRESH));
    let nodes = ["a", "b"].map(|name| node(&engine, &origin, name, ""));
    wait_for(&nodes, &["a", "b"]);
    let log = Events::of(&nodes[0], "/log");
    let paths: Vec<_> = (0..32).map(|number| format!("/{number}")).collect();
    paths.iter().for_each(|path| drop(nodes[0].get(path)));
    let mut seen = log.take(paths.len());
    seen.find(|event| event["reason"] != "absent").unwrap_or_default()
}

/// Returns the event of a request with a position that no node can reach any more.
fn ahead() -> Value {
    let (mut engine, origin) = (Engine::start(), Origin::always(FRESH));
    let node = node(&engine, &origin, "a", "");
    wait_for(std::slice::from_ref(&node), &["a"]);
    node.get("/");
    engine.kill();
    let mut log = Events::of(&node, "/log");
    node.ask("GET /\nLarder-Position: 18446744073709551615-0.0000000000000000.-");
    log.next().expect("a request")
}

#[test]
fn every_reason_is_given() {
    for why in Why::ALL {
        let reason = match exercise(*why) {
            Exercise::Rule(rule) => rule().expect_err("a reason").token().to_owned(),
            Exercise::Staged(stage) => stage()["reason"].as_str().unwrap_or_default().to_owned(),
            Exercise::Asked(answers, requests) => {
                let origin = Origin::in_order(answers);
                let larder = Larder::before(&origin);
                let log = Events::of(&larder, "/log");
                for request in requests {
                    let method = request.split('\n').next().unwrap_or_default();
                    larder.ask(&format!("{method} /{}", &request[method.len()..]));
                }
                let last = log.take(requests.len()).last().expect("a request");
                last["reason"].as_str().unwrap_or_default().to_owned()
            }
        };
        assert_eq!(reason, why.token());
    }
}
