//! The origin simulator: pages of stated sizes, after stated delays, over HTTP/1.1.
//!
//! It runs in a thread of its own, which does nothing else, so that what it takes of the processor can be told. Delays
//! are those of the runtime's timer, which counts milliseconds: a page that takes 2 ms comes after 2 to 3.
//!
//! Not here: which page takes how long. A [`Course`](super::course::Course) says so.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rand::RngExt;
use rand_chacha::rand_core::SeedableRng;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::Halt;
use super::course::Page;
use crate::workload::Random;

/// How a page's cost is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// By waiting, as for a database: others are served meanwhile.
    Wait,
    /// By computing: one page at a time.
    Compute,
}

/// What an origin is like.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its pages, by number.
    pub pages: Vec<Page>,
    /// How their costs are spent.
    pub effort: Effort,
    /// How much farther away it is than loopback: added to each answer.
    pub distance: Duration,
    /// The share of requests, 0 to 1, that is answered 503.
    pub failures: f64,
    /// Whether answers may be stored.
    pub is_storable: bool,
    /// For the failures.
    pub seed: u64,
}

impl Model {
    /// An origin that is near, answers every request, and lets everything be stored.
    pub fn of(pages: &[Page]) -> Self {
        Self {
            pages: pages.to_vec(),
            effort: Effort::Wait,
            distance: Duration::ZERO,
            failures: 0.0,
            is_storable: true,
            seed: 0,
        }
    }
}

/// A running origin; ends with this value.
pub struct Origin {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    thread: i32,
    end: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl Origin {
    /// Serves `model` on a free port of loopback.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub fn start(model: Model) -> Result<Self, Halt> {
        let failed = |error| Halt::because("cannot start the origin", error);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let requests = Arc::new(AtomicU64::new(0));
        let served = Served::new(model, Arc::clone(&requests));
        let (end, ended) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let work = move || {
            // Whoever started this waits for it.
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, served) => {}
                    _ = ended => {}
                }
            });
        };
        let running = thread::Builder::new().name("origin".to_owned()).spawn(work).map_err(failed)?;
        let thread = told.recv().map_err(|error| Halt::because("cannot start the origin", error))?;
        Ok(Self { address, requests, thread, end: Some(end), running: Some(running) })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it has seen, as they come.
    pub fn requests(&self) -> &Arc<AtomicU64> {
        &self.requests
    }

    /// What it has taken of the processor.
    pub fn processor(&self) -> Duration {
        let path = format!("/proc/self/task/{}/schedstat", self.thread);
        fs::read_to_string(path).ok().and_then(|text| spent(&text)).unwrap_or_default()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(running) = self.running.take() {
            // A thread that panicked has said so.
            let _ = running.join();
        }
    }
}

/// What a thread has taken of the processor, by its `schedstat`: the first number, in nanoseconds.
pub(super) fn spent(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// What all connections share.
struct Served {
    model: Model,
    requests: Arc<AtomicU64>,
    /// As long as the longest page; every page is its beginning.
    content: Bytes,
}

impl Served {
    fn new(model: Model, requests: Arc<AtomicU64>) -> Arc<Self> {
        let longest = model.pages.iter().map(|page| page.size).max().unwrap_or(0);
        Arc::new(Self { model, requests, content: Bytes::from(vec![b'x'; longest as usize]) })
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if !self.model.distance.is_zero() {
            tokio::time::sleep(self.model.distance).await;
        }
        let page = request.uri().path().strip_prefix("/page/").and_then(|page| page.parse::<usize>().ok());
        let Some((number_of, page)) = page.and_then(|at| Some((at, self.model.pages.get(at)?))) else {
            return bare(StatusCode::NOT_FOUND);
        };
        if self.fails(number) {
            return bare(StatusCode::SERVICE_UNAVAILABLE);
        }
        let tag = format!("\"{number_of}\"");
        let is_known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| *known == *tag);
        let mut response = if is_known {
            bare(StatusCode::NOT_MODIFIED)
        } else {
            self.spend(Duration::from_micros(page.cost.into())).await;
            Response::new(Full::new(self.content.slice(..page.size as usize)))
        };
        let lifetime = if self.model.is_storable { "max-age=86400" } else { "no-store" };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(lifetime));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }

    /// Whether request `number` is one of those that fail; the same ones for the same seed.
    fn fails(&self, number: u64) -> bool {
        self.model.failures > 0.0
            && Random::seed_from_u64(self.model.seed ^ number).random_bool(self.model.failures.min(1.0))
    }

    async fn spend(&self, cost: Duration) {
        match self.model.effort {
            _ if cost.is_zero() => {}
            Effort::Wait => tokio::time::sleep(cost).await,
            Effort::Compute => {
                let begun = Instant::now();
                while begun.elapsed() < cost {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

fn bare(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

async fn serve(listener: std::net::TcpListener, served: Arc<Served>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    // Without one more connection the measurement fails, and says so.
    while let Ok((stream, _)) = listener.accept().await {
        let served = Arc::clone(&served);
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let answer = service_fn(|request| async { Ok::<_, Infallible>(served.answer(request).await) });
            // The proxy may leave whenever it likes.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
