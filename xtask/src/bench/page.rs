//! `cargo x bench h2 --page`: the time in which a browser loads a page of 300 cached images, over HTTP/2 and over
//! HTTP/1.1, from this proxy and from nginx, with and without network delay.

use super::goal::Goal;
use super::measure::median;
use super::options::{Options, prepare};
use super::origin::{IMAGES, Origin};
use super::peers::{self, Peer, Programs, Which};
use super::server::Running;
use super::table::{self, Cell, Row};
use super::tls;
use crate::packages::Package;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The option that selects this bench.
pub(super) const WORD: &str = "--page";

const CHROMIUM: Package = Package { name: "chromium", program: "chromium", purpose: "the browser" };

/// The round-trip times to the server, in milliseconds.
const ROUND_TRIPS: [u64; 2] = [0, 20];

/// The browser's names for the HTTP versions, and the arguments that make it use each.
const VERSIONS: [(&str, &[&str]); 2] = [("h2", &[]), ("http/1.1", &["--disable-http2"])];

/// A server with one version of HTTP, and its load times of the page, one for each round, in milliseconds.
struct Way {
    server: &'static str,
    round_trip: u64,
    version: &'static str,
    words: &'static [&'static str],
    port: u16,
    samples: Vec<f64>,
}

/// Reads the words after `bench h2`.
///
/// # Errors
/// The same as for [`Options::parse`].
pub(super) fn parse(words: &[String]) -> Result<Options> {
    let words: Vec<_> = words.iter().filter(|word| *word != WORD).cloned().collect();
    Options::parse(&words, [0, 5])
}

/// Runs the bench and prints its table. It has no goals.
///
/// # Errors
/// If the browser is missing, a build fails, or a page is not loaded completely from the cache.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = options.missing(&[&CHROMIUM, &tls::OPENSSL], &[&peers::NGINX])?;
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    prepare()?;
    let origin = Origin::start();
    let entrants = [
        Peer::apart("larder", Which::Larder, None, |setup| {
            tls::larder(setup, &["--listen", "127.0.0.1:0", "--listen-tls"])
        }),
        Peer::apart("nginx", Which::Installed, Some(peers::NGINX), |setup| tls::nginx(setup, " ssl http2")),
    ];
    let here = |peer: &&Peer| peer.package.as_ref().is_none_or(|package| !missing.contains(&package));
    let begin = |peer| Running::start(peer, &programs, &origin);
    let servers = entrants.iter().filter(here).map(begin).collect::<Result<Vec<_>>>()?;
    let mut ways = Vec::new();
    for round_trip in ROUND_TRIPS {
        for server in &servers {
            let port = delayed(server.port, Duration::from_millis(round_trip) / 2)?;
            let way = |(version, words)| Way {
                server: server.name,
                round_trip,
                version,
                words,
                port,
                samples: Vec::new(),
            };
            ways.extend(VERSIONS.map(way));
        }
    }
    // The first loads store the page in the servers, and the browser's files in the kernel's page cache.
    ways.iter().try_for_each(|way| way.load().map(drop))?;
    let asked = origin.requests();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for way in &mut ways {
            let took = way.load()?;
            way.samples.push(took);
        }
    }
    ensure!(origin.requests() == asked, "the origin was asked for what is stored");
    let rows: Vec<_> = ways.iter().map(|way| row(way, &ways)).collect();
    table::print(&rows);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(Vec::new())
}

impl Way {
    /// Loads the page in a new browser. Returns the milliseconds from the request to the last image.
    fn load(&self) -> Result<f64> {
        let profile = tempfile::tempdir().context("cannot make a temporary folder")?;
        let mut browser = Command::new("timeout");
        browser.args(["60", CHROMIUM.program, "--headless=new", "--no-sandbox", "--disable-gpu"]);
        browser.args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"]);
        browser.arg(format!("--user-data-dir={}", profile.path().display()));
        browser.arg("--ignore-certificate-errors").args(self.words);
        browser.args(["--dump-dom", &format!("https://127.0.0.1:{}/page", self.port)]);
        let output = browser.output().context("cannot start timeout, of Debian's package coreutils")?;
        time(&String::from_utf8_lossy(&output.stdout), self.version)
            .with_context(|| format!("{} by {}", self.server, self.version))
    }
}

/// Returns the load time that the page has written into its body, after checking the number of images and their
/// protocol.
fn time(text: &str, version: &str) -> Result<f64> {
    let body = text.rsplit_once("<body>").and_then(|(_, body)| body.split_once("</body>"));
    let (body, _) = body.context("the browser printed no page")?;
    match body.split(' ').collect::<Vec<_>>()[..] {
        [time, count, used] if count == IMAGES.to_string() && used == version => Ok(time.parse()?),
        _ => bail!("the page says `{body}`, not {IMAGES} images by {version}"),
    }
}

/// Returns a port that forwards to `port`, with a delay in each direction.
fn delayed(port: u16, delay: Duration) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    let own = listener.local_addr()?.port();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // It is no error if either side closes its connection.
            drop(connect(near, port, delay));
        }
    });
    Ok(own)
}

fn connect(near: TcpStream, port: u16, delay: Duration) -> Result<()> {
    let far = TcpStream::connect(("127.0.0.1", port))?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    pass_on(near.try_clone()?, far.try_clone()?, delay);
    pass_on(far, near, delay);
    Ok(())
}

/// Forwards bytes, each after the delay. The delay does not limit the throughput.
fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, on_their_way) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in on_their_way {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The connection may be closed already.
        let _ = to.shutdown(Shutdown::Write);
    });
}

/// Returns a row with medians; the ratio is to HTTP/1.1 from the same server in the same round.
fn row(way: &Way, ways: &[Way]) -> Row {
    let is_plain = |other: &&Way| {
        (other.server, other.round_trip) == (way.server, way.round_trip) && other.version != "h2"
    };
    let ratios = ways.iter().find(is_plain).map(|plain| way.samples.iter().zip(&plain.samples));
    let ratios = ratios.into_iter().flatten().map(|(own, plain)| own / plain).collect();
    vec![
        ("round trip ms", Cell::number(way.round_trip as f64, 0)),
        ("server", Cell::word(way.server)),
        ("by", Cell::word(way.version)),
        ("load ms", Cell::number(median(way.samples.clone()), 0)),
        ("least ms", Cell::number(way.samples.iter().copied().fold(f64::INFINITY, f64::min), 0)),
        ("x HTTP/1.1", Cell::number(median(ratios), 2)),
    ]
}

#[cfg(test)]
mod tests {
    use super::{delayed, time};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn a_page_counts_if_it_is_whole_and_came_by_the_right_version() {
        let page = |body: &str| format!("<html><head></head><body>{body}</body></html>");
        assert_eq!(time(&page("12.5 300 h2"), "h2").unwrap(), 12.5);
        for body in ["12.5 299 h2", "12.5 300 http/1.1", "12.5 300 h2 http/1.1", ""] {
            assert!(time(&page(body), "h2").is_err(), "{body}");
        }
        assert!(time("", "h2").is_err());
    }

    #[test]
    fn bytes_come_after_the_delay_and_then_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let delay = Duration::from_millis(30);
        let began = Instant::now();
        let mut near =
            TcpStream::connect(("127.0.0.1", delayed(listener.local_addr().unwrap().port(), delay).unwrap()))
                .unwrap();
        near.write_all(b"hello").unwrap();
        drop(near);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert!(text == "hello" && began.elapsed() >= delay);
    }
}
