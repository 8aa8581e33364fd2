//! The origin simulator: pages of given sizes, after given delays, over HTTP/1.1.
//!
//! It runs in a dedicated thread, so that its CPU time can be measured.
//!
//! Outside this module: the size and delay of each page. A [`Course`](super::course::Course) has them.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use larder_lab::workload::Random;
use larder_load::timer::Timer;
use rand::RngExt;
use rand_chacha::rand_core::SeedableRng;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Halt;
use super::course::Page;
use super::http::{OriginRequest, asked, more};
use super::server_thread::ServerThread;

/// The way in which an origin spends a page's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// By waiting, as for a database: other requests are served meanwhile.
    Wait,
    /// By computing: one page at a time.
    Compute,
}

/// The properties of an origin.
#[derive(Clone, Debug)]
pub struct Model {
    /// The pages, by number.
    pub pages: Vec<Page>,
    /// The way in which their costs are spent.
    pub effort: Effort,
    /// The additional distance beyond loopback: added to each answer.
    pub distance: Duration,
    /// The share of requests, 0 to 1, that are answered with 503.
    pub failures: f64,
    /// Whether answers may be stored.
    pub is_storable: bool,
    /// The freshness lifetime of answers, in seconds.
    pub lifetime: u32,
    /// The number of answers that are produced concurrently, including 304s, which cost the same; `None` for no limit.
    pub at_once: Option<usize>,
    /// The seed of the failures.
    pub seed: u64,
}

impl Model {
    /// Returns an origin that is near, answers every request, and allows storing of all answers.
    pub fn of(pages: &[Page]) -> Self {
        Self {
            pages: pages.to_vec(),
            effort: Effort::Wait,
            distance: Duration::ZERO,
            failures: 0.0,
            is_storable: true,
            lifetime: 86_400,
            at_once: None,
            seed: 0,
        }
    }
}

/// A running origin. It ends when this value is dropped.
pub struct Origin {
    requests: Arc<AtomicU64>,
    thread: ServerThread,
    /// The number of the thread.
    number: i32,
}

impl Origin {
    /// Serves `model` on a free port of loopback.
    ///
    /// # Errors
    /// If the system lacks resources.
    pub fn start(model: Model) -> Result<Self, Halt> {
        let requests = Arc::new(AtomicU64::new(0));
        let served = OriginState::new(model, Arc::clone(&requests));
        let (tell, told) = std::sync::mpsc::channel();
        let thread = ServerThread::start("origin", move |listener| {
            // The parent waits for this message.
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            serve(listener, served)
        });
        let thread = thread.map_err(|error| Halt::because("cannot start the origin", error))?;
        let number = told.recv().map_err(|error| Halt::because("cannot start the origin", error))?;
        Ok(Self { requests, thread, number })
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// Returns the counter of requests that it has received.
    pub fn requests(&self) -> &Arc<AtomicU64> {
        &self.requests
    }

    /// Returns its processor time.
    pub fn processor(&self) -> Duration {
        let path = format!("/proc/self/task/{}/schedstat", self.number);
        fs::read_to_string(path).ok().and_then(|text| spent(&text)).unwrap_or_default()
    }
}

/// Returns the processor time of a thread from its `schedstat`: the first number, in nanoseconds.
pub(super) fn spent(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The state that all connections share.
struct OriginState {
    model: Model,
    requests: Arc<AtomicU64>,
    /// The content of the longest page; every page is a prefix of it.
    content: Bytes,
    /// Permits for answers in progress.
    places: Arc<Semaphore>,
}

impl OriginState {
    fn new(model: Model, requests: Arc<AtomicU64>) -> Arc<Self> {
        let longest = model.pages.iter().map(|page| page.size).max().unwrap_or(0);
        let places = Arc::new(Semaphore::new(model.at_once.unwrap_or(Semaphore::MAX_PERMITS)));
        Arc::new(Self { model, requests, content: Bytes::from(vec![b'x'; longest as usize]), places })
    }

    /// Waits as the model defines. Returns the head and the content.
    async fn answer(&self, asked: &OriginRequest, timer: &Timer) -> io::Result<(String, Bytes)> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let page = asked.path.strip_prefix("/page/").and_then(|page| page.parse::<usize>().ok());
        let found = page.and_then(|number| Some((number, self.model.pages.get(number)?)));
        let bare = |status: &str| (format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"), Bytes::new());
        let Some((page, Page { size, cost })) = found.filter(|_| !self.fails(number)) else {
            self.spend(0, timer).await?;
            return Ok(bare(if found.is_some() { "503 Service Unavailable" } else { "404 Not Found" }));
        };
        let tag = format!("\"{page}\"");
        let lifetime = match self.model.is_storable {
            true => format!("max-age={}", self.model.lifetime),
            false => "no-store".to_owned(),
        };
        let validity = format!("Cache-Control: {lifetime}\r\nETag: {tag}\r\n\r\n");
        if asked.known.as_ref() == Some(&tag) {
            self.spend(if self.model.at_once.is_some() { *cost } else { 0 }, timer).await?;
            return Ok((format!("HTTP/1.1 304 Not Modified\r\n{validity}"), Bytes::new()));
        }
        self.spend(*cost, timer).await?;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{validity}");
        Ok((head, self.content.slice(..*size as usize)))
    }

    /// Whether request `number` fails; the result is the same for the same seed.
    fn fails(&self, number: u64) -> bool {
        self.model.failures > 0.0
            && Random::seed_from_u64(self.model.seed ^ number).random_bool(self.model.failures.min(1.0))
    }

    /// Spends the distance both ways, and `cost` microseconds.
    async fn spend(&self, cost: u32, timer: &Timer) -> io::Result<()> {
        let cost = Duration::from_micros(cost.into());
        let (waiting, computing) = match self.model.effort {
            Effort::Wait if self.model.at_once.is_none() => (self.model.distance + cost, Duration::ZERO),
            Effort::Wait => {
                let _place = self.places.acquire().await.map_err(io::Error::other)?;
                timer.wait(cost).await?;
                (self.model.distance, Duration::ZERO)
            }
            Effort::Compute => (self.model.distance, cost),
        };
        timer.wait(waiting).await?;
        let begun = Instant::now();
        while begun.elapsed() < computing {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

async fn serve(listener: std::net::TcpListener, served: Arc<OriginState>) {
    let (Ok(listener), Ok(timer)) = (TcpListener::from_std(listener), Timer::new()) else { return };
    let timer = Arc::new(timer);
    let accept = async {
        // If a connection cannot be accepted, the measurement fails with an error.
        while let Ok((stream, _)) = listener.accept().await {
            let (served, timer) = (Arc::clone(&served), Arc::clone(&timer));
            let _ = stream.set_nodelay(true);
            // The proxy may close a connection at any time.
            tokio::spawn(async move { converse(stream, &served, &timer).await });
        }
    };
    tokio::select! {
        () = accept => {}
        _ = timer.run() => {}
    }
}

/// Answers consecutive requests.
async fn converse(mut stream: TcpStream, served: &OriginState, timer: &Timer) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    let mut buffer = BytesMut::new();
    loop {
        match asked(&buffer)? {
            None => more(&mut stream, &mut buffer).await?,
            Some((length, asked)) => {
                buffer.advance(length);
                let (head, content) = served.answer(&asked, timer).await.map_err(said)?;
                let mut answer = Bytes::from(head).chain(content);
                stream.write_all_buf(&mut answer).await.map_err(said)?;
            }
        }
    }
}
