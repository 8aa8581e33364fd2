//! The client of a running larder's admin listener, and the arguments that name it.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use larder_cli::Failure;
use larder_proxy::settings::Token;
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::from_slice;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout, timeout_at};

use super::admin_tls::AdminTls;
use super::admin_token::{Secret, TOKEN, TokenDecision};
use super::words::printable;

/// The address of the admin listener by default.
pub(crate) const ADMIN: &str = "127.0.0.1:9145";
/// The prefix of an address over TLS.
const HTTPS: &str = "https://";
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest silence of a connection: the proxy may have to search a slow disk before it can answer.
const SILENCE: Duration = Duration::from_secs(120);
/// The longest silence before an answer that the proxy has in memory, and the paths of such answers.
const SHORT_SILENCE: Duration = Duration::from_secs(10);
const IN_MEMORY: [&str; 6] = ["advise", "stats", "cluster", "live", "log", "top"];
/// Stands for no time limit.
const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// The most bytes of a line, which has a URL and request fields; a proxy accepts no longer heads.
const LONGEST: usize = 4 << 20;
/// The most bytes of an answer that is not a list; real answers are shorter.
const LONGEST_ANSWER: usize = 64 << 20;
/// The most characters of an explanation that are shown.
const LONGEST_WHY: usize = 300;

/// Takes a line with its end, and returns whether to continue.
type LineSink<'l> = dyn FnMut(&[u8]) -> Result<bool, String> + 'l;

/// Takes the name and the data of a server-sent event, and returns whether to continue.
pub(crate) type EventSink<'l> = dyn FnMut(&str, &[u8]) -> Result<bool, String> + 'l;

/// Which admin listener, and the token for it.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminListener {
    /// Address of the admin listener, with https:// in front for TLS
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN, value_parser = address)]
    pub(crate) admin: String,
    /// Admin token to send [default: $LARDER_TOKEN, which other users of this machine cannot read]
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,
    /// Over TLS, trust the certificates in this file and those that they sign [default: the system's, and a local larder's own]
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
}

impl AdminListener {
    /// Returns the admin listener at `admin`.
    pub(crate) fn at(admin: &str) -> Self {
        Self { admin: admin.to_owned(), token: None, admin_ca: None }
    }

    /// Returns a client of it. Errors: the system has no resources for it, or the arguments contradict each other.
    pub(crate) fn client(&self) -> Result<AdminClient, Failure> {
        AdminClient::new(self).map_err(Failure::Failed)
    }

    /// Returns the token to send to it, if there is one. Errors: the environment's value is not a token.
    fn secret(&self) -> Result<Option<Secret>, String> {
        Secret::of(self.token.as_ref())
    }
}

/// Parses the address of an admin listener: a host and a port, or the URL that `larder serve` prints. For TLS, the
/// result keeps `https://` in front.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let (scheme, rest) = match text.strip_prefix(HTTPS) {
        Some(rest) => (HTTPS, rest),
        None => ("", text.strip_prefix("http://").unwrap_or(text)),
    };
    let address = rest.strip_suffix('/').unwrap_or(rest);
    match has_port(address) {
        true => Ok(format!("{scheme}{address}")),
        false => Err(format!("expected a host and a port, such as {ADMIN}, or http://{ADMIN}/")),
    }
}

/// Whether `address` is a host and a port.
pub(crate) fn has_port(address: &str) -> bool {
    let parts = address.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
    parts.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// The reason why a request to the admin listener failed.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The listener refused it with this status and explanation.
    Refused(StatusCode, String),
    /// There is no answer, or it cannot be parsed.
    Broken(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_, why) | Self::Broken(why) => f.write_str(why),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem {
            // The listener did not understand the user's arguments.
            Problem::Refused(StatusCode::BAD_REQUEST, why) => Self::Refused(why),
            Problem::Refused(_, why) | Problem::Broken(why) => Self::Failed(why),
        }
    }
}

/// Names and values of a query.
type Query<'q> = &'q [(&'q str, String)];

/// A client of an admin listener.
pub(crate) struct AdminClient {
    runtime: Runtime,
    /// The address as shown in errors.
    admin: String,
    /// The host and port.
    address: String,
    tls: Option<AdminTls>,
    secret: Option<Secret>,
}

impl AdminClient {
    /// Creates a client of `listener`. Errors: the system has no resources for it.
    pub(crate) fn new(listener: &AdminListener) -> Result<Self, String> {
        let admin = listener.admin.clone();
        let failed = |error: &dyn Error| format!("cannot ask {admin}: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let (tls, address) = match admin.strip_prefix(HTTPS) {
            None if listener.admin_ca.is_some() => {
                return Err(format!("--admin-ca is for TLS: write --admin {HTTPS}{admin}"));
            }
            None => (None, admin.clone()),
            Some(address) => (Some(AdminTls::new(listener.admin_ca.as_deref())?), address.to_owned()),
        };
        Ok(Self { runtime, admin, address, tls, secret: listener.secret()? })
    }

    /// Returns the answer to a GET.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Problem> {
        self.whole(Method::GET, path, query)
    }

    /// Returns the answer to a POST.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Problem> {
        self.whole(Method::POST, path, query)
    }

    /// Returns the text of the answer to a GET.
    pub(crate) fn text(&self, path: &str) -> Result<String, Problem> {
        let text = self.bytes(Method::GET, path, &[])?;
        String::from_utf8(text).map_err(|error| self.said(&format!("an unexpected answer: {error}")))
    }

    fn whole<T: DeserializeOwned>(&self, method: Method, path: &str, query: Query<'_>) -> Result<T, Problem> {
        let text = self.bytes(method, path, query)?;
        from_slice(&text).map_err(|error| self.said(&format!("an unexpected answer: {error}")))
    }

    fn bytes(&self, method: Method, path: &str, query: Query<'_>) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::new();
        self.runtime.block_on(self.pieces_of(method, path, query, &mut |piece| {
            bytes.extend_from_slice(piece);
            bytes.len() <= LONGEST_ANSWER
        }))?;
        Ok(bytes)
    }

    /// Passes the answer to `take`, in pieces, until `take` returns false.
    pub(crate) fn pieces(
        &self,
        path: &str,
        query: Query<'_>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Problem> {
        self.runtime.block_on(self.pieces_of(Method::GET, path, query, take))
    }

    async fn pieces_of(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Problem> {
        let mut response = self.ask(method, path, query).await?;
        while let Some(piece) = next(&mut response).await.map_err(|error| self.broke(&error))? {
            if !take(&piece) {
                break;
            }
        }
        Ok(())
    }

    /// Passes each line of an answer to `take`, until `take` returns false.
    pub(crate) fn lines(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        take: &mut LineSink<'_>,
    ) -> Result<(), Problem> {
        self.runtime.block_on(self.lines_of(method, path, query, take)).map(drop)
    }

    /// Passes each line of an answer to `take`, and returns whether the answer ended before `take` returned false.
    async fn lines_of(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        take: &mut LineSink<'_>,
    ) -> Result<bool, Problem> {
        let (mut line, mut outcome) = (Vec::new(), Ok(true));
        let mut split = |piece: &[u8]| {
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LONGEST {
                    outcome = Err(format!("{} sent a line of more than {LONGEST} bytes", self.admin));
                } else if line.ends_with(b"\n") {
                    outcome = take(&line);
                    line.clear();
                }
                if !matches!(outcome, Ok(true)) {
                    return false;
                }
            }
            true
        };
        self.pieces_of(method, path, query, &mut split).await?;
        outcome.map_err(Problem::Broken)
    }

    /// Passes the name and the data of each server-sent event to `take`, until `take` returns false or `limit` has
    /// passed. A sign of life has neither name nor data.
    pub(crate) fn events(
        &self,
        path: &str,
        query: Query<'_>,
        limit: Option<Duration>,
        take: &mut EventSink<'_>,
    ) -> Result<(), Problem> {
        let mut name = String::new();
        let mut event = |line: &[u8]| {
            let line = line.trim_ascii_end();
            if let Some(said) = line.strip_prefix(b"event: ") {
                name = String::from_utf8_lossy(said).into_owned();
                return Ok(true);
            }
            let name = if line.is_empty() { return Ok(true) } else { std::mem::take(&mut name) };
            take(&name, line.strip_prefix(b"data: ").unwrap_or_default())
        };
        let until = Instant::now() + limit.unwrap_or(YEAR);
        let lines = self.lines_of(Method::GET, path, query, &mut event);
        match self.runtime.block_on(async { timeout_at(until, lines).await }) {
            Ok(Ok(true)) => Err(Problem::Broken(format!("{} has ended", self.admin))),
            Ok(Err(problem)) => Err(problem),
            Ok(Ok(false)) | Err(_) => Ok(()),
        }
    }

    async fn ask(&self, method: Method, path: &str, query: Query<'_>) -> Result<Response<Incoming>, Problem> {
        let unanswered = |why| Problem::Broken(unanswered(&self.admin, why));
        let target = self.target(path, query).map_err(unanswered)?;
        let (mut sender, shown) = self.connect().await.map_err(unanswered)?;
        let request = self.request(method, target, &shown).map_err(unanswered)?;
        let silence = silence(path, query);
        let response = match timeout(silence, sender.send_request(request)).await {
            Ok(answered) => answered.map_err(|error| unanswered(cause(&error)))?,
            Err(_) => return Err(unanswered(silent(silence))),
        };
        match response.status() {
            StatusCode::OK => Ok(response),
            _ => Err(self.refused(response, &shown).await),
        }
    }

    /// Returns the target of a request.
    fn target(&self, path: &str, query: Query<'_>) -> Result<String, String> {
        let url = Url::parse_with_params(&format!("http://{}/{path}", self.address), query);
        let url = url.map_err(|error| error.to_string())?;
        Ok([url.path(), url.query().unwrap_or_default()].join("?"))
    }

    /// Connects to the listener. Also returns how the token is shown over this connection.
    async fn connect(&self) -> Result<(SendRequest<Empty<Bytes>>, TokenDecision), String> {
        let failed = |error: io::Error| explain(&error);
        let stream = timeout(PATIENCE, TcpStream::connect(&self.address)).await;
        let stream = stream.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).map_err(failed)?;
        let (here, there) = (stream.local_addr().map_err(failed)?, stream.peer_addr().map_err(failed)?);
        let shown = Secret::at(self.secret.as_ref(), here, there);
        let sender = match &self.tls {
            None => over(stream).await,
            Some(tls) => {
                let host = self.address.rsplit_once(':').map_or("", |(host, _)| host);
                let secured = timeout(PATIENCE, tls.secure(host, stream)).await;
                over(secured.unwrap_or_else(|_| Err(failed(ErrorKind::TimedOut.into())))?).await
            }
        };
        sender.map(|sender| (sender, shown)).map_err(|error| cause(&error))
    }

    fn request(
        &self,
        method: Method,
        target: String,
        shown: &TokenDecision,
    ) -> Result<Request<Empty<Bytes>>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", &self.address)
            .header("larder-admin", "1");
        if let TokenDecision::Authorization(authorization) = shown {
            request = request.header("authorization", authorization);
        }
        request.body(Empty::new()).map_err(|error| error.to_string())
    }

    /// Returns the problem that an answer other than 200 reports. For a token that is missing, it has the remedy.
    async fn refused(&self, response: Response<Incoming>, shown: &TokenDecision) -> Problem {
        let is_text = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/plain");
        if !response.headers().get(CONTENT_TYPE).is_some_and(is_text) {
            let why = format!("status {}; is this its admin listener?", response.status().as_u16());
            return Problem::Broken(unanswered(&self.admin, why));
        }
        let (status, why) = words(response).await;
        let why = match (status, shown) {
            (StatusCode::UNAUTHORIZED, TokenDecision::Withheld(reason)) => format!("{why}; {reason}"),
            (StatusCode::UNAUTHORIZED, TokenDecision::Nothing) => {
                format!("{why}; set ${TOKEN} here, or name it by --token")
            }
            _ => why,
        };
        Problem::Refused(status, format!("{} says: {why}", self.admin))
    }

    fn said(&self, why: &str) -> Problem {
        Problem::Broken(format!("{} says: {why}", self.admin))
    }

    fn broke(&self, error: &str) -> Problem {
        Problem::Broken(format!("the connection to {} broke: {error}", self.admin))
    }
}

/// Starts an HTTP connection over `stream`.
async fn over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> hyper::Result<SendRequest<Empty<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Errors of the connection are reported where its answer is awaited.
    tokio::spawn(connection);
    Ok(sender)
}

/// Returns the next piece of an answer's content; `None` at its end.
async fn next(response: &mut Response<Incoming>) -> Result<Option<Bytes>, String> {
    loop {
        let frame = timeout(SILENCE, response.body_mut().frame()).await.map_err(|_| silent(SILENCE))?;
        match frame.transpose().map_err(|error| cause(&error))?.map(hyper::body::Frame::into_data) {
            None => return Ok(None),
            Some(Ok(piece)) => return Ok(Some(piece)),
            // Trailers have no meaning here.
            Some(Err(_)) => {}
        }
    }
}

/// Returns the longest silence before the answer to a query, which may ask the proxy to wait for some seconds.
fn silence(path: &str, query: Query<'_>) -> Duration {
    if IN_MEMORY.contains(&path) {
        return SHORT_SILENCE;
    }
    let waits =
        query.iter().find(|(name, _)| *name == "timeout").and_then(|(_, seconds)| seconds.parse().ok());
    SILENCE + waits.and_then(|waits| Duration::try_from_secs_f64(waits).ok()).unwrap_or_default()
}

fn silent(silence: Duration) -> String {
    format!("silent for {} seconds", silence.as_secs())
}

/// Returns the status and the first line of a refusal.
async fn words(mut response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let text = next(&mut response).await.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text).chars().take(LONGEST_WHY).collect::<String>();
    let line = printable(text.lines().next().unwrap_or_default());
    (status, if line.is_empty() { format!("status {}", status.as_u16()) } else { line })
}

/// Returns the root cause of an error, which is the most specific.
fn cause(error: &hyper::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match cause.downcast_ref() {
        Some(error) => explain(error),
        None if error.is_parse() => "not an HTTP server".to_owned(),
        None if error.is_incomplete_message() => "it closed the connection before its answer".to_owned(),
        None => cause.to_string(),
    }
}

/// Returns the message that the admin listener at `admin` gave no answer.
fn unanswered(admin: &str, why: String) -> String {
    format!("no larder answers at {admin}: {why}")
}

/// Explains an error of a connection to an admin listener.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            "connection refused; is it running, or was it started with --admin elsewhere?".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("silent for {} seconds", PATIENCE.as_secs()),
        ErrorKind::InvalidData => "not an HTTP server".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{SHORT_SILENCE, SILENCE, address, silence};

    #[test]
    fn a_command_waits_for_an_answer_as_long_as_its_query_permits() {
        let waits =
            |seconds: &str| silence("purge", &[("wait", String::new()), ("timeout", seconds.to_owned())]);
        assert_eq!(silence("stats", &[]), SHORT_SILENCE);
        assert_eq!(silence("why", &[("url", "http://a/".to_owned())]), SILENCE);
        assert_eq!(waits("600"), SILENCE + Duration::from_secs(600));
        assert_eq!(waits("1.5"), SILENCE + Duration::from_millis(1500));
        assert_eq!(waits("x"), SILENCE);
    }

    #[test]
    fn an_admin_listener_is_named_by_address_or_by_url() {
        for text in ["127.0.0.1:9145", "http://127.0.0.1:9145", "http://127.0.0.1:9145/"] {
            assert_eq!(address(text).as_deref(), Ok("127.0.0.1:9145"), "{text}");
        }
        assert_eq!(address("http://[::1]:1/").as_deref(), Ok("[::1]:1"));
        assert_eq!(address("https://a:1/").as_deref(), Ok("https://a:1"));
        for text in ["", "localhost", ":1", "ftp://a:1", "https://:1", "a:70000", "http://a:1/stats"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
