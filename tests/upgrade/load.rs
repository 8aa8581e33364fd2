//! Upgrades under load: every request is answered, and every answer is right.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use larder_testkit::{Answer, Authority, Client, Larder, Origin, site};

/// The number of upgrades, unless `LARDER_UPGRADES` says another.
const UPGRADES: usize = 20;
/// The number of different pages.
const PAGES: usize = 40;
/// The bytes of a download that takes as long as an upgrade: more than the kernel buffers.
const LONG: usize = 24 << 20;

/// Returns the content of a page, which differs from that of others.
fn page(target: &str) -> Vec<u8> {
    match target {
        "/long" => (0..LONG).map(|at| (at / 4096) as u8).collect(),
        _ => format!("the page at {target}; ").repeat(80).into_bytes(),
    }
}

/// The requests of clients, for as long as there are upgrades.
struct Load<'l> {
    ends: &'l AtomicBool,
    answered: &'l AtomicUsize,
}

/// The time in which there are upgrades. Its end is that of the load, also when the test fails.
struct Upgrades<'l>(&'l AtomicBool);

impl Drop for Upgrades<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load<'_> {
    /// Calls `ask` with one page after the other.
    fn go_on(&self, mut ask: impl FnMut(&str)) {
        for number in (0..PAGES).cycle() {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            ask(&format!("/page/{number}"));
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks on connections that are kept until the proxy ends them.
    fn keep_alive(&self, address: SocketAddr) {
        let mut client = Client::to(address);
        self.go_on(|target| {
            let response = client.ask(&format!("GET {target}"));
            assert!(response.status == 200 && response.body == page(target), "{response:?}");
            if response.field("connection").is_some_and(|value| value.contains("close")) {
                client = Client::to(address);
            }
        });
    }

    /// Asks on a new connection each time.
    fn once_each(&self, address: SocketAddr) {
        self.go_on(|target| {
            let response = Client::to(address).ask(&format!("GET {target}\nConnection: close"));
            assert!(response.status == 200 && response.body == page(target), "{response:?}");
        });
    }

    /// Asks over TLS, with many requests at a time over HTTP/2, or one after the other over HTTP/1.1.
    fn over_tls(&self, address: SocketAddr, is_http2: bool) {
        let client = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).no_proxy();
        let client = if is_http2 { client.http2_prior_knowledge() } else { client.http1_only() };
        let client = client.resolve("site.test", address).build().unwrap();
        let get = async |number: usize| {
            let target = format!("/page/{}", number % PAGES);
            let response = client.get(format!("https://site.test:{}{target}", address.port())).send().await?;
            assert_eq!(response.status(), 200);
            assert!(response.bytes().await? == page(&target), "{target}");
            Ok::<_, reqwest::Error>(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for number in 0.. {
                if self.ends.load(Ordering::Relaxed) {
                    return;
                }
                let four = tokio::try_join!(get(number), get(number + 1), get(number + 2), get(number + 3));
                four.unwrap_or_else(|error| panic!("{error:?}"));
                self.answered.fetch_add(4, Ordering::Relaxed);
            }
        });
    }
}

#[test]
fn no_request_fails_during_many_upgrades_under_load() {
    let upgrades = std::env::var("LARDER_UPGRADES").map_or(UPGRADES, |number| number.parse().unwrap());
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let origin = Origin::answering(|seen| {
        Answer::with_body("200 OK\nCache-Control: max-age=3600", &page(&seen.target))
    });
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n", folder.path().display());
    let pair = authority.pair("site", &["site.test"]).table();
    let mut larder = Larder::start(&format!("{listen}{disk}{pair}{}", site(&[&origin], "")));
    let (plain, secure) = (larder.address(), larder.door("reverse, TLS"));
    let (ends, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = Load { ends: &ends, answered: &answered };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| load.keep_alive(plain));
        }
        scope.spawn(|| load.once_each(plain));
        scope.spawn(|| load.over_tls(secure, true));
        scope.spawn(|| load.over_tls(secure, false));
        let _upgrades = Upgrades(&ends);
        for _ in 0..upgrades {
            let mut slow = Client::to(plain);
            slow.send("GET /long");
            let head = slow.head();
            larder.upgrade(&[]).unwrap();
            let before = answered.load(Ordering::Relaxed);
            assert!(slow.content(&head).0 == page("/long"), "a download over an upgrade");
            drop(slow);
            larder.wait_for_predecessor();
            larder_testkit::eventually("requests after an upgrade", || {
                (answered.load(Ordering::Relaxed) > before + 20).then_some(())
            });
        }
    });
}
