//! `prefetch`: the cache fetches the likely next requests of clients early, without fields that identify a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use larder_testkit::{Answer, Larder, Origin, Response, Seen, eventually, site};

pub(crate) const BOTH: &str = "prefetch = ['association', 'sequence']\nprefetch_traffic = '100%'";

/// Returns a response of 4 KiB that may be stored.
pub(crate) fn page() -> String {
    format!("200 OK\nCache-Control: max-age=100\n\n{}", "x".repeat(4 << 10))
}

pub(crate) fn is_prefetch(seen: &Seen) -> bool {
    seen.field("sec-purpose") == Some("prefetch")
}

/// Returns an origin that responds with `answer`, and the list of the prefetches among its requests.
fn recording(answer: impl Fn(&Seen) -> String + Send + Sync + 'static) -> (Origin, Arc<Mutex<Vec<Seen>>>) {
    let prefetches = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&prefetches);
    let origin = Origin::by(move |seen| {
        if is_prefetch(seen) {
            kept.lock().expect("no panic").push(seen.clone());
        }
        answer(seen)
    });
    (origin, prefetches)
}

/// Waits for the first prefetch and returns it; there must be no other.
fn only(prefetches: &Mutex<Vec<Seen>>) -> Seen {
    let seen = eventually("a prefetch", || prefetches.lock().expect("no panic").first().cloned());
    assert_eq!(prefetches.lock().expect("no panic").len(), 1);
    seen
}

/// Lets one client request `paths` in order, `times` times.
pub(crate) fn walk(larder: &Larder, paths: &[&str], times: usize) {
    let mut client = larder.client();
    for path in paths.iter().cycle().take(paths.len() * times) {
        assert_eq!(client.ask(&format!("GET {path}\nCookie: id=7\nUser-Agent: walker")).status, 200);
    }
    settle(larder);
}

/// Waits until no fill is in flight and no prefetch is waiting.
pub(crate) fn settle(larder: &Larder) {
    larder.wait_for("background", 0);
    larder.settle();
}

pub(crate) fn purge_all(larder: &Larder) {
    assert_eq!(larder.ask_admin("POST /purge?all&hard\nLarder-Admin: 1").status, 200);
}

/// Returns a figure of one kind of prediction.
pub(crate) fn figure(larder: &Larder, kind: &str, name: &str) -> u64 {
    larder.stats()["prefetches"][kind][name].as_u64().expect("a number")
}

fn cookie(larder: &Larder, path: &str) -> Response {
    larder
        .ask(&format!("GET {path}\nCookie: id=7\nAccept-Language: de\nUser-Agent: walker\nAccept: text/html"))
}

#[test]
fn a_page_that_often_follows_is_prefetched_without_credentials() {
    let (origin, prefetches) = recording(|_| page());
    let larder = Larder::start(&site(&[&origin], BOTH));
    walk(&larder, &["/a", "/b"], 12);
    assert_eq!((origin.count(), figure(&larder, "association", "started")), (2, 0), "all is stored");
    purge_all(&larder);
    cookie(&larder, "/a");
    let seen = only(&prefetches);
    assert_eq!(seen.target, "/b");
    for name in ["cookie", "authorization", "accept", "range"] {
        assert_eq!(seen.field(name), None, "{name}");
    }
    assert_eq!((seen.field("user-agent"), seen.field("accept-language")), (Some("walker"), Some("de")));
    larder.settle();
    let why = larder.ask_admin("GET /why?url=http://site.test/b").json();
    assert_eq!(why["stored"]["prefetched"], true);
    assert!(cookie(&larder, "/b").is_hit());
    assert_eq!(origin.count(), 4);
    let done = &larder.stats()["prefetches"]["association"];
    assert_eq!((&done["started"], &done["used"], &done["bytes"]), (&1.into(), &1.into(), &4096.into()));
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    assert!(
        metrics.contains("larder_prefetches_measured_total{kind=\"association\",used=\"yes\"} 1"),
        "{metrics}"
    );
}

#[test]
fn prefetches_are_no_requests_of_clients() {
    let origin = Origin::by(|_| page());
    let larder = Larder::start(&site(&[&origin], BOTH));
    walk(&larder, &["/a", "/b"], 12);
    purge_all(&larder);
    larder.get("/a");
    origin.wait_for(4);
    larder.settle();
    assert_eq!((larder.stat("requests"), larder.stat("misses")), (25, 3));
}

#[test]
fn without_the_key_nothing_is_prefetched() {
    let origin = Origin::by(|_| page());
    let larder = Larder::before(&origin);
    walk(&larder, &["/a", "/b"], 12);
    purge_all(&larder);
    larder.get("/a");
    larder.settle();
    assert_eq!((origin.count(), figure(&larder, "association", "started")), (3, 0));
}

#[test]
fn the_next_segment_is_prefetched_and_its_early_404_is_not_stored() {
    let is_written = Arc::new(AtomicBool::new(false));
    let live = Arc::clone(&is_written);
    let origin = Origin::by(move |seen| match &*seen.target {
        "/live/seg-005.m4s" if !live.load(Ordering::Acquire) => {
            "404 Not Found\nCache-Control: max-age=100\n\n".to_owned()
        }
        _ => page(),
    });
    let larder = Larder::start(&site(&[&origin], BOTH));
    walk(&larder, &["/warm"], 10);
    for (number, is_early) in [(1, false), (2, false), (3, true), (4, true)] {
        let answer = cookie(&larder, &format!("/live/seg-00{number}.m4s"));
        assert_eq!((answer.status, answer.is_hit()), (200, is_early), "{number}");
        eventually("the prefetch", || (number == 1 || origin.count() > number + 1).then_some(()));
        larder.settle();
    }
    assert_eq!(origin.count_of("/live/seg-005.m4s"), 1);
    assert_eq!(origin.last().field("accept"), Some("text/html"), "a segment is like the one before");
    is_written.store(true, Ordering::Release);
    let answer = cookie(&larder, "/live/seg-005.m4s");
    assert_eq!((answer.status, answer.cache()), (200, "fwd=uri-miss; fwd-status=200; stored".to_owned()));
    assert!(cookie(&larder, "/live/seg-005.m4s").is_hit());
}

#[test]
fn the_range_behind_what_is_read_through_is_fetched() {
    let (origin, prefetches) = recording(|seen| {
        let Some((first, last)) =
            seen.field("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
        else {
            return page();
        };
        let (first, last): (usize, usize) =
            (first.parse().expect("a number"), last.parse().expect("a number"));
        let fields =
            format!("Cache-Control: max-age=100\nETag: \"1\"\nContent-Range: bytes {first}-{last}/2500");
        format!("206 Partial Content\n{fields}\n\n{}", "y".repeat(last + 1 - first))
    });
    let larder = Larder::start(&site(&[&origin], BOTH));
    walk(&larder, &["/warm"], 10);
    let part = |range: &str| larder.ask(&format!("GET /film\nRange: bytes={range}"));
    assert_eq!(part("0-999").status, 206);
    assert_eq!(origin.count_of("/film"), 1);
    part("1000-1999");
    assert_eq!(only(&prefetches).field("range"), Some("bytes=2000-2499"));
    larder.settle();
    let last = part("2000-2499");
    assert_eq!((last.is_hit(), last.body.len(), origin.count_of("/film")), (true, 500, 3));
    assert_eq!(figure(&larder, "sequence", "used"), 1);
}

#[test]
fn a_client_that_comes_meanwhile_gets_what_is_being_prefetched() {
    const HEAD: &str = "200 OK\nCache-Control: max-age=100";
    let (gate, origin) = Origin::gated(|seen, held| match is_prefetch(seen) {
        true => Answer::default()
            .then_wait(held)
            .then("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 1\r\n\r\nz"),
        false => Answer::with_body(HEAD, &[b'x'; 4 << 10]),
    });
    let larder = Larder::start(&site(&[&origin], BOTH));
    walk(&larder, &["/a", "/b"], 12);
    purge_all(&larder);
    let mut client = larder.client();
    client.ask("GET /a");
    origin.wait_for(4);
    client.send("GET /b");
    gate.open();
    let answer = client.receive("GET");
    assert_eq!((answer.text(), origin.count()), ("z", 4));
    eventually("its use", || (figure(&larder, "association", "used") == 1).then_some(()));
}
