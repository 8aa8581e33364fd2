//! A running larder's admin listener: where it is, what it wants to be shown, and how commands ask it.

use std::env;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use clap::Args;
use larder_proxy::settings::Token;
use reqwest::{Client, Method, Response, StatusCode, Url};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::from_slice;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout_at};

use crate::Failure;
use crate::args::ADMIN;
use crate::config::TOKEN;
use crate::stats::{explain, unanswered};
use crate::words::printable;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may be silent: it may have to look through a slow disk before it finds something to say.
const SILENCE: Duration = Duration::from_secs(120);
/// As good as for ever.
const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Bytes of a line, which has a URL and request fields in it; a proxy takes no longer heads.
const LONGEST: usize = 4 << 20;
/// Characters of an explanation that are shown.
const LONGEST_WHY: usize = 300;

/// Takes the name and the data of a server-sent event, and says whether it wants more.
pub(crate) type EventSink<'l> = dyn FnMut(&str, &[u8]) -> Result<bool, String> + 'l;

/// Whom to ask.
#[derive(Clone, Debug, Args)]
pub(crate) struct Listener {
    /// Ask the larder with this admin listener
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN)]
    pub(crate) admin: String,
    /// Show this admin token [default: $LARDER_TOKEN, which others on this machine cannot read]
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,
}

impl Listener {
    /// The one at `admin`.
    pub(crate) fn at(admin: &str) -> Self {
        Self { admin: admin.to_owned(), token: None }
    }

    /// What has to be shown there, as a value of `Authorization`; `None`: nothing is known of it.
    ///
    /// # Errors
    /// That the environment's is no token.
    pub(crate) fn authorization(&self) -> Result<Option<String>, String> {
        let token = match (&self.token, env::var(TOKEN)) {
            (Some(token), _) => Some(token.clone()),
            (None, Ok(text)) if !text.is_empty() => {
                Some(text.parse().map_err(|why| format!("${TOKEN}: {why}"))?)
            }
            (None, _) => None,
        };
        Ok(token.map(|token| format!("Bearer {}", token.secret())))
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Problem {
    /// It says so, with this status.
    Refused(StatusCode, String),
    /// There is none, or none that is understood.
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
            // It did not understand what the user wrote.
            Problem::Refused(StatusCode::BAD_REQUEST, why) => Self::Refused(why),
            Problem::Refused(_, why) | Problem::Broken(why) => Self::Failed(why),
        }
    }
}

/// Names and values of a query.
type Query<'q> = &'q [(&'q str, String)];

/// An admin listener.
pub(crate) struct Remote {
    runtime: Runtime,
    client: Client,
    admin: String,
    authorization: Option<String>,
}

impl Remote {
    /// The one that `listener` is.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(crate) fn new(listener: &Listener) -> Result<Self, String> {
        let admin = listener.admin.clone();
        let failed = |error: &dyn Error| format!("cannot ask {admin}: {error}");
        let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .connect_timeout(PATIENCE)
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| failed(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let authorization = listener.authorization()?;
        Ok(Self { runtime, client, admin, authorization })
    }

    /// What it answers to a GET.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Problem> {
        self.whole(Method::GET, path, query)
    }

    /// What it answers to a POST.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Problem> {
        self.whole(Method::POST, path, query)
    }

    fn whole<T: DeserializeOwned>(&self, method: Method, path: &str, query: Query<'_>) -> Result<T, Problem> {
        let mut text = Vec::new();
        self.runtime.block_on(self.pieces_of(method, path, query, &mut |piece| {
            text.extend_from_slice(piece);
            text.len() <= LONGEST
        }))?;
        from_slice(&text).map_err(|error| self.said(&format!("what is not understood: {error}")))
    }

    /// Hands what it answers to `take`, in pieces, until that says false.
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
        while let Some(piece) = response.chunk().await.map_err(|error| self.broke(&error))? {
            if !take(&piece) {
                break;
            }
        }
        Ok(())
    }

    /// Hands each line of an answer to `take`, until that says false.
    pub(crate) fn lines(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, String>,
    ) -> Result<(), Problem> {
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
        self.runtime.block_on(self.pieces_of(method, path, query, &mut split))?;
        outcome.map(drop).map_err(Problem::Broken)
    }

    /// Hands the name and the data of each server-sent event to `take`, until that says false or `limit` has
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
        let (mut line, mut outcome) = (Vec::new(), Ok(true));
        let mut take = |piece: &[u8]| {
            for byte in piece {
                line.push(*byte);
                if *byte == b'\n' {
                    outcome = event(&line);
                    line.clear();
                }
                if !matches!(outcome, Ok(true)) || line.len() > LONGEST {
                    return false;
                }
            }
            true
        };
        let pieces = self.pieces_of(Method::GET, path, query, &mut take);
        match self.runtime.block_on(async { timeout_at(until, pieces).await }) {
            Ok(ended) => ended?,
            Err(_) => return Ok(()),
        }
        match outcome {
            Ok(true) => Err(Problem::Broken(format!("{} has ended", self.admin))),
            Ok(false) => Ok(()),
            Err(why) => Err(Problem::Broken(why)),
        }
    }

    async fn ask(&self, method: Method, path: &str, query: Query<'_>) -> Result<Response, Problem> {
        let unanswered = |why| Problem::Broken(unanswered(&self.admin, why));
        let url = Url::parse_with_params(&format!("http://{}/{path}", self.admin), query)
            .map_err(|error| unanswered(error.to_string()))?;
        let mut request = self.client.request(method, url).header("larder-admin", "1");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let response = request.send().await.map_err(|error| unanswered(cause(&error)))?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let (status, why) = words(response).await;
        Err(Problem::Refused(status, format!("{} says: {why}", self.admin)))
    }

    fn said(&self, why: &str) -> Problem {
        Problem::Broken(format!("{} says: {why}", self.admin))
    }

    fn broke(&self, error: &reqwest::Error) -> Problem {
        Problem::Broken(format!("{} broke off: {}", self.admin, cause(error)))
    }
}

/// What it says instead of what was asked for.
async fn words(mut response: Response) -> (StatusCode, String) {
    let status = response.status();
    let text = response.chunk().await.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text).chars().take(LONGEST_WHY).collect::<String>();
    let line = printable(text.lines().next().unwrap_or_default());
    (status, if line.is_empty() { format!("status {}", status.as_u16()) } else { line })
}

/// The cause that has no cause of its own, which says most.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.downcast_ref().map_or_else(|| cause.to_string(), explain)
}
