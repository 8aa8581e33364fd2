//! The scenarios of every client.

use crate::programs::Stock;
use larder_testkit::{Answer, Larder, Origin};

const MIB: usize = 1 << 20;

/// An origin with pages, by path.
pub(crate) struct Site(Origin);

impl Site {
    pub(crate) fn open() -> Self {
        let head = "200 OK\nCache-Control: max-age=100";
        Self(Origin::answering(move |seen| match seen.target.as_str() {
            "/small" => Answer::with_body(head, b"small one"),
            "/binary" => Answer::with_body(head, &binary()),
            "/huge" => Answer::with_body(head, &huge()),
            _ => Answer::with_body("404 Not Found", b"nothing"),
        }))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Returns the number of requests for `path`.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.0.count_of(path)
    }
}

/// Returns bytes of all values, NUL first.
pub(crate) fn binary() -> Vec<u8> {
    (0..3_000_u32).map(|at| (at % 256) as u8).collect()
}

/// Returns 25 MiB.
pub(crate) fn huge() -> Vec<u8> {
    (0..25 * MIB as u32).map(|at| (at % 251) as u8).collect()
}

/// Starts a proxy with every door, whose clients may reach this machine.
pub(crate) fn open() -> Larder {
    Larder::start(
        "[thrift]\nlisten = '127.0.0.1:0'\n[line]\nlisten = '127.0.0.1:0'\n\
         [onc]\nlisten = '127.0.0.1:0'\nrpcbind = 'off'\n[forward]\nallow_private = true",
    )
}

/// Tests the common guarantees of all protocols: `unreachable` and `missing` are the client's messages for a host that
/// does not respond and for a page that does not exist.
pub(crate) fn all(stock: &Stock, door: &str, unreachable: &str, missing: &str) {
    let (site, larder) = (Site::open(), open());
    let port = larder.door(door).port().to_string();
    let get = |path: &str| stock.says(&[&port, "get", &format!("{}{path}", site.url()), "page"]);
    for _ in 0..2 {
        assert_eq!((get("/small"), stock.saved()), ("page of 9".to_owned(), b"small one".to_vec()));
        larder.settle();
    }
    assert_eq!((site.count("/small"), larder.stat("hits")), (1, 1));
    assert_eq!((get("/binary"), stock.saved()), ("page of 3000".to_owned(), binary()));
    let said = get("/nothing");
    assert!(said.starts_with(missing), "{said}");
    let said = stock.says(&[&port, "get", "http://127.0.0.1:65535/", "page"]);
    assert!(said.starts_with(unreachable), "{said}");
    let said = stock.says(&[&port, "many", &format!("{}/small", site.url()), "200"]);
    assert_eq!((said.as_str(), site.count("/small")), ("200 pages of 9", 1));
}

pub(crate) fn a_page_of_25_mib_arrives(stock: &Stock, door: &str) {
    let (site, larder) = (Site::open(), open());
    let port = larder.door(door).port().to_string();
    for _ in 0..2 {
        let said = stock.says(&[&port, "get", &format!("{}/huge", site.url()), "page"]);
        assert_eq!(said, "page of 26214400");
        assert!(stock.saved() == huge());
        larder.settle();
    }
    assert_eq!(site.count("/huge"), 1);
}

pub(crate) fn a_page_of_25_mib_is_refused(stock: &Stock, door: &str) {
    let (site, larder) = (Site::open(), open());
    let port = larder.door(door).port().to_string();
    let said = stock.says(&[&port, "get", &format!("{}/huge", site.url()), "page"]);
    assert_eq!(said, "failed: RPC: Remote system error");
    larder.wait_for_log("/huge");
}

pub(crate) fn a_string_is_whole_or_fails(stock: &Stock) {
    let (site, larder) = (Site::open(), open());
    let port = larder.door("onc").port();
    for place in [port.to_string(), format!("udp{port}")] {
        let text = |path: &str| stock.says(&[&place, "text", &format!("{}{path}", site.url()), "-"]);
        for _ in 0..2 {
            assert_eq!(text("/small"), "small one");
            assert_eq!(text("/binary"), "failed: RPC: Remote system error");
            larder.settle();
        }
    }
    larder.wait_for_log("the page has a NUL byte at byte 0");
}

pub(crate) fn statistics_are_counted_and_reset(stock: &Stock) {
    let (site, larder) = (Site::open(), open());
    let port = larder.door("thrift").port().to_string();
    for _ in 0..3 {
        stock.says(&[&port, "get", &format!("{}/small", site.url()), "page"]);
        larder.settle();
    }
    assert_eq!(stock.says(&[&port, "statistics"]), "3 2 1 adaptive\nthen 0");
}

pub(crate) fn a_datagram_carries_a_small_page(stock: &Stock) {
    let (site, larder) = (Site::open(), open());
    let port = format!("udp{}", larder.door("onc").port());
    let get = |path: &str| stock.says(&[&port, "get", &format!("{}{path}", site.url()), "page"]);
    assert_eq!((get("/binary"), stock.saved()), ("page of 3000".to_owned(), binary()));
    assert_eq!(get("/huge"), "failed: RPC: Remote system error");
}
