//! Upgrades under load: every request is answered, every answer is right, nothing is fetched again, and the hit ratio stays.
//! With a disk, TLS, HTTP/2, and another node of the cluster; and with requests that are in progress at each upgrade.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder_testkit::nodes::{node, wait_for};
use larder_testkit::{
    Answer, Authority, Client, Engine, Gate, Larder, Origin, Response, Seen, eventually, locked, site,
};

/// The number of upgrades, unless `LARDER_UPGRADES` says another.
const UPGRADES: usize = 5;
/// The number of different pages.
const PAGES: usize = 40;
/// The bytes of a download that takes as long as an upgrade: more than the kernel buffers.
const LONG: usize = 24 << 20;

/// Returns the content of a page, which differs from that of others.
fn page(target: &str) -> Vec<u8> {
    match target {
        // Unoptimised, an iterator over all bytes takes seconds.
        "/long" => (0..LONG / 4096).map(|block| [block as u8; 4096]).collect::<Vec<_>>().concat(),
        _ => format!("the page at {target}; ").repeat(80).into_bytes(),
    }
}

/// The time after an upgrade in which hits are counted.
const SECOND: Duration = Duration::from_secs(1);

/// The handshake of a tunnel (RFC 6455 section 1.3).
const ASKED: &[u8] =
    b"GET /tunnel HTTP/1.1\r\nHost: site.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const AGREED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Answers requests in the tunnel, too, and ends fills when `gate` is open.
fn answer(seen: &Seen, gate: &Gate) -> Answer {
    let stored = "200 OK\nCache-Control: max-age=3600";
    match (&*seen.method, &*seen.target) {
        ("POST", _) => Answer::with_body("200 OK", &seen.body),
        (_, "/tunnel") => Answer::raw(AGREED),
        (_, fill) if fill.starts_with("/fill/") => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 8\r\n\r\nhalf";
            Answer::raw(head).then_wait(gate).then("rest")
        }
        (_, target) => Answer::with_body(stored, &page(target)),
    }
}

/// Requests that begin before an upgrade and end after it.
struct InProgress {
    download: Client,
    upload: Client,
    tunnel: Client,
    fill: Client,
    /// The path of the fill.
    path: String,
}

impl InProgress {
    fn begin(address: SocketAddr, number: usize) -> Self {
        let mut all = [(); 4].map(|()| Client::to(address));
        let [download, upload, tunnel, fill] = &mut all;
        download.send("GET /long");
        upload.raw(b"POST /upload HTTP/1.1\r\nHost: site.test\r\nContent-Length: 8\r\n\r\nhalf");
        tunnel.raw(ASKED);
        assert_eq!(tunnel.head().status, 101);
        let path = format!("/fill/{number}");
        fill.send(&format!("GET {path}"));
        assert_eq!((fill.head().status, fill.exactly(4)), (200, b"half".to_vec()));
        let [download, upload, tunnel, fill] = all;
        Self { download, upload, tunnel, fill, path }
    }

    fn end(mut self) {
        let head = self.download.head();
        assert!(self.download.content(&head).0 == page("/long"), "a download over an upgrade");
        self.upload.raw(b"rest");
        assert_eq!(self.upload.receive("POST").text(), "halfrest");
        self.tunnel.raw(b"GET /page/1 HTTP/1.1\r\nHost: site.test\r\n\r\n");
        assert!(self.tunnel.receive("GET").body == page("/page/1"), "in the tunnel");
        assert_eq!(self.fill.exactly(4), b"rest");
    }
}

/// The requests of clients, for as long as there are upgrades.
#[derive(Default)]
struct Load {
    ends: AtomicBool,
    /// The answers, and those among them that the node that was asked had itself.
    answers: Mutex<[usize; 2]>,
    /// The URLs of the latter.
    at_hand: Mutex<HashSet<String>>,
}

/// The time in which there are upgrades. Its end is that of the load, also when the test fails.
struct Upgrades<'l>(&'l Load);

impl Drop for Upgrades<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Calls `ask` with one page after the other.
    fn go_on(&self, mut ask: impl FnMut(&str)) {
        for number in (0..PAGES).cycle() {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            ask(&format!("/page/{number}"));
        }
    }

    /// Counts an answer with these fields.
    fn count<'f>(&self, url: String, fields: impl Iterator<Item = (&'f str, &'f str)>) {
        let statuses = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
        let hits: Vec<_> = statuses.map(|(_, value)| value.contains("; hit")).collect();
        let is_hit = !hits.is_empty() && !hits.contains(&false);
        let mut answers = locked(&self.answers);
        *answers = [answers[0] + 1, answers[1] + usize::from(is_hit)];
        if is_hit {
            locked(&self.at_hand).insert(url);
        }
    }

    /// Returns the share of hits among the answers while `run` runs, and until there are enough of them and a second is over.
    fn hit_ratio(&self, run: impl FnOnce()) -> f64 {
        let figures = || *locked(&self.answers);
        let before = figures();
        run();
        let (ran, begun) = (figures(), Instant::now());
        let is_over = || begun.elapsed() >= SECOND && figures()[0] > ran[0] + 2 * PAGES;
        eventually("requests", || is_over().then_some(()));
        let [answered, hits] = figures();
        (hits - before[1]) as f64 / (answered - before[0]) as f64
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
            self.count_plain(target, &response);
        });
    }

    fn count_plain(&self, target: &str, response: &Response) {
        let fields = response.fields.iter();
        self.count(format!("http:{target}"), fields.map(|(name, value)| (&**name, &**value)));
    }

    /// Asks on a new connection each time, for the pages in `folder`.
    fn once_each(&self, address: SocketAddr, folder: &str) {
        self.go_on(|target| {
            let target = target.replace("page", folder);
            let response = Client::to(address).ask(&format!("GET {target}\nConnection: close"));
            assert!(response.status == 200 && response.body == page(&target), "{response:?}");
            self.count_plain(&target, &response);
        });
    }

    /// Asks over TLS, with many requests at a time over HTTP/2; or over HTTP/1.1 on new connections, which resume sessions.
    fn over_tls(&self, address: SocketAddr, is_http2: bool) {
        let client = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).no_proxy();
        let client = match is_http2 {
            true => client.http2_prior_knowledge(),
            false => client.http1_only().pool_max_idle_per_host(0),
        };
        let client = client.resolve("site.test", address).build().unwrap();
        let get = async |number: usize| {
            let target = format!("/page/{}", number % PAGES);
            let response = client.get(format!("https://site.test:{}{target}", address.port())).send().await?;
            assert_eq!(response.status(), 200);
            let fields = response.headers().iter();
            let fields = fields.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
            self.count(format!("https:{target}"), fields);
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
            }
        });
    }
}

#[test]
fn no_request_fails_during_many_upgrades_under_load() {
    let upgrades = std::env::var("LARDER_UPGRADES").map_or(UPGRADES, |number| number.parse().unwrap());
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (gate, origin) = Origin::gated(answer);
    let (authority, folder, engine) = (Authority::new(), tempfile::tempdir().unwrap(), Engine::start());
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n", folder.path().display());
    let cluster = format!(
        "[cluster]\nengine = '{}'\nnode = 'a'\nlisten = '127.0.0.1:0'\nheartbeat = '50ms'\n",
        engine.url()
    );
    // On a busy machine, the last requests may take longer than the 30 seconds of a drain by default.
    let drain = "[timeouts]\ndrain = '5m'\n";
    let pair = authority.pair("site", &["site.test"]).table();
    let mut larder = Larder::start(&format!("{listen}{disk}{cluster}{drain}{pair}{}", site(&[&origin], "")));
    let other = [node(&engine, &origin, "b", "")];
    wait_for(&other, &["a", "b"]);
    let (plain, secure) = (larder.address(), larder.door("reverse, TLS"));
    let load = Load::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| load.keep_alive(plain));
        }
        scope.spawn(|| load.once_each(plain, "page"));
        scope.spawn(|| load.once_each(other[0].address(), "of-other"));
        scope.spawn(|| load.over_tls(secure, true));
        scope.spawn(|| load.over_tls(secure, false));
        let _upgrades = Upgrades(&load);
        // Each page with `http` and with `https`, and those of the other node. A node asks the other one for a page that it has
        // not itself; and the origin, if that one is slow on a busy machine.
        eventually("all pages", || (locked(&load.at_hand).len() == 3 * PAGES).then_some(()));
        let stored = fetches(&origin);
        let begun = Instant::now();
        for number in 0..upgrades {
            let before = load.hit_ratio(|| ());
            gate.close();
            let requests = InProgress::begin(plain, number);
            let path = requests.path.clone();
            let after = load.hit_ratio(|| _ = larder.upgrade(&[]).unwrap());
            assert!(
                before > 0.99 && after >= 0.99 * before,
                "{after} of hits during an upgrade, {before} before"
            );
            gate.open();
            requests.end();
            larder.wait_for_predecessor();
            assert_eq!(larder.get_only(&path).text(), "halfrest");
            assert_eq!(origin.count_of(&path), 1, "a fill over an upgrade is stored");
            eventually("a session of the process before", || (resumed(&larder) > 0).then_some(()));
        }
        let [answered, hits] = *locked(&load.answers);
        println!("{upgrades} upgrades in {:?}: {answered} answers, all right; {hits} hits", begun.elapsed());
        assert_eq!(fetches(&origin), stored, "pages that were fetched again");
    });
}

/// Returns the numbers of requests for pages that have reached the origin: of both nodes' clients, outside of tunnels.
fn fetches(origin: &Origin) -> [usize; 2] {
    let of = |folder: &str, but: Option<usize>| {
        let pages = (0..PAGES).filter(|number| Some(*number) != but);
        pages.map(|number| origin.count_of(&format!("/{folder}/{number}"))).sum()
    };
    [of("page", Some(1)), of("of-other", None)]
}

fn resumed(larder: &Larder) -> u64 {
    larder.stats()["tls"]["handshakes"]["resumed"].as_u64().unwrap()
}
