//! A backend of three services, as in the microservice report: users, learning paths and skills, each with its own SQLite
//! database. Paths and skills show their user, so a write to users changes their answers.
//!
//! They are for experiments and tests: answers contain their [versions](super::Versions), and take a configured time.
//! They use HTTP/1.1 with persistent connections and a thread for each, so that a handler may wait.

mod database;
mod rehearsal;
mod routes;

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use larder_lab::workload::Method;
use tempfile::TempDir;

pub(crate) use self::rehearsal::{AnswerTraits, Rehearsal};
use self::routes::{Reply, Services};

/// The maximum content of a request, in bytes.
const LARGEST: usize = 64 << 10;

/// The configuration of the services.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of users, of paths and of skills at the start.
    pub entities: u32,
    /// The minimum cost of an answer.
    pub cost: Cost,
    /// Whether answers have an `ETag`, and `If-None-Match` is evaluated. This saves no work, as in most frameworks.
    pub etags: bool,
    /// The `Cache-Control: max-age` of every 200, in seconds; `None` omits the field.
    pub lifetime: Option<u32>,
    /// Additional bytes in every 200 to a GET.
    pub filler: u32,
}

/// The minimum cost of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// The time, which is the same for users, paths and skills.
    pub time: Duration,
    /// Whether that time is spent computing, not waiting.
    pub is_busy: bool,
}

/// A listening backend.
pub struct Backend {
    listener: TcpListener,
    shared: Arc<ServiceState>,
}

struct ServiceState {
    services: Services,
    options: Options,
    _folder: TempDir,
}

impl Backend {
    /// Creates the databases and listens.
    ///
    /// # Errors
    /// If a database cannot be created, or the address is not available.
    pub fn bind(address: SocketAddr, options: Options) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let services = Services::create(folder.path(), options.entities).map_err(io::Error::other)?;
        let shared = Arc::new(ServiceState { services, options, _folder: folder });
        Ok(Self { listener: TcpListener::bind(address)?, shared })
    }

    /// Returns its address.
    ///
    /// # Errors
    /// If the kernel does not return it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until accepting a connection fails.
    ///
    /// # Errors
    /// The error of accepting.
    pub fn run(self) -> io::Result<()> {
        loop {
            let (stream, _) = self.listener.accept()?;
            let shared = Arc::clone(&self.shared);
            // A broken connection ends only its own thread.
            thread::Builder::new().name("service".to_owned()).spawn(move || drop(shared.serve(stream)))?;
        }
    }
}

impl ServiceState {
    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream)?);
            let answer = service_fn(|request| async { Ok::<_, Infallible>(self.answer(request).await) });
            http1::Builder::new().serve_connection(stream, answer).await.map_err(io::Error::other)
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let begun = Instant::now();
        let (head, content) = request.into_parts();
        let Some(method) = Method::of_name(head.method.as_str()) else {
            return response(StatusCode::NOT_IMPLEMENTED, Bytes::new());
        };
        let Ok(content) = Limited::new(content, LARGEST).collect().await else {
            return response(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
        };
        let content = content.to_bytes();
        // A read waits after it has read, and a write waits before it writes, so that they overlap as long as possible.
        let cost = self.options.cost;
        if method != Method::Get {
            cost.pay(begun);
        }
        let mut reply = self.services.answer(method, head.uri.path(), &content);
        if method == Method::Get {
            if self.options.filler > 0 && reply.status == 200 {
                reply.body["filler"] = "x".repeat(self.options.filler as usize).into();
            }
            cost.pay(begun);
        }
        self.respond(&reply, method, head.headers.get(IF_NONE_MATCH))
    }

    fn respond(&self, reply: &Reply, method: Method, known: Option<&HeaderValue>) -> Response<Full<Bytes>> {
        let body = Bytes::from(reply.body.to_string());
        let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let tag =
            (self.options.etags && method == Method::Get && status == StatusCode::OK).then(|| tag(&body));
        let is_known = tag.is_some() && known == tag.as_ref();
        let mut response =
            if is_known { response(StatusCode::NOT_MODIFIED, Bytes::new()) } else { response(status, body) };
        if let Some(tag) = tag {
            response.headers_mut().insert(ETAG, tag);
        }
        if let Some(seconds) = self.options.lifetime.filter(|_| status == StatusCode::OK) {
            let value = HeaderValue::from_str(&format!("max-age={seconds}")).expect("letters and digits");
            response.headers_mut().insert(CACHE_CONTROL, value);
        }
        response
    }
}

impl Cost {
    /// Spends the part of the time that has not passed since `begun`.
    fn pay(self, begun: Instant) {
        if self.is_busy {
            while begun.elapsed() < self.time {
                std::hint::spin_loop();
            }
        } else {
            thread::sleep(self.time.saturating_sub(begun.elapsed()));
        }
    }
}

fn response(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let is_empty = body.is_empty();
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    if !is_empty {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

/// Returns a strong entity tag of these bytes.
fn tag(body: &[u8]) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).expect("digits between quotes")
}
