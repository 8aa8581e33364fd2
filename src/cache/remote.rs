//! A running larder's admin listener, asked for what is on its disks.

use std::error::Error;
use std::time::Duration;

use larder_proxy::inventory::{Object, Progress};
use larder_store::disks::Name;
use reqwest::{Client, Response, StatusCode, Url};
use rustls::{ClientConfig, RootCertStore};
use serde_json::from_slice;
use tokio::runtime::{Builder, Runtime};

use crate::stats::{explain, unanswered};

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may be silent: it may have to look through a slow disk before it finds something to say.
const SILENCE: Duration = Duration::from_secs(120);
/// Bytes of a line, which has a URL and request fields in it; a proxy takes no longer heads.
const LONGEST: usize = 4 << 20;
/// How the listener begins when there is no such object.
const ABSENT: &str = "nothing is stored";
/// Characters of an explanation that are shown.
const LONGEST_WHY: usize = 300;

/// An admin listener.
pub(super) struct Remote {
    runtime: Runtime,
    client: Client,
    admin: String,
}

impl Remote {
    /// The listener at `admin`, a host and a port.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(super) fn new(admin: &str) -> Result<Self, String> {
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
        Ok(Self { runtime, client, admin: admin.to_owned() })
    }

    /// As [`Place::list`](super::place::Place::list).
    pub(super) fn list(&self, url: Option<&str>, see: &mut dyn FnMut(Object) -> bool) -> Result<(), String> {
        let query: Vec<_> = url.map(|url| ("url", url.to_owned())).into_iter().collect();
        self.lines("cache", &query, &mut |line| {
            from_slice(line).map(&mut *see).map_err(|error| format!("{} sent no object: {error}", self.admin))
        })
    }

    /// As [`Place::get`](super::place::Place::get).
    pub(super) fn get(&self, name: Name, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool, String> {
        self.runtime.block_on(async {
            let response = self.ask(&format!("cache/{name}"), &[]).await?;
            let is_absent = response.status() == StatusCode::NOT_FOUND;
            let mut response = match expect(response).await {
                Err(why) if is_absent && why.starts_with(ABSENT) => return Ok(false),
                other => other.map_err(|why| self.said(&why))?,
            };
            while let Some(piece) = response.chunk().await.map_err(|error| self.broke(&error))? {
                if !take(&piece) {
                    break;
                }
            }
            Ok(true)
        })
    }

    /// As [`Place::verify`](super::place::Place::verify).
    pub(super) fn verify(&self, rate: u64, tell: &mut dyn FnMut(&Progress)) -> Result<Progress, String> {
        let mut last = Progress::default();
        self.lines("cache/verify", &[("rate", rate.to_string())], &mut |line| {
            last = from_slice(line).map_err(|error| format!("{} sent no progress: {error}", self.admin))?;
            tell(&last);
            Ok(true)
        })?;
        last.done.then_some(last).ok_or_else(|| format!("{} ended before it was done", self.admin))
    }

    /// Hands each line of an answer to `take`, until it says false.
    fn lines(
        &self,
        path: &str,
        query: &[(&str, String)],
        take: &mut dyn FnMut(&[u8]) -> Result<bool, String>,
    ) -> Result<(), String> {
        self.runtime.block_on(async {
            let response = self.ask(path, query).await?;
            let mut response = expect(response).await.map_err(|why| self.said(&why))?;
            let mut line = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(|error| self.broke(&error))? {
                for part in piece.split_inclusive(|byte| *byte == b'\n') {
                    line.extend_from_slice(part);
                    if line.len() > LONGEST {
                        return Err(format!("{} sent a line of more than {LONGEST} bytes", self.admin));
                    }
                    if line.ends_with(b"\n") {
                        if !take(&line)? {
                            return Ok(());
                        }
                        line.clear();
                    }
                }
            }
            Ok(())
        })
    }

    async fn ask(&self, path: &str, query: &[(&str, String)]) -> Result<Response, String> {
        let url = Url::parse_with_params(&format!("http://{}/{path}", self.admin), query)
            .map_err(|error| unanswered(&self.admin, error.to_string()))?;
        let sent = self.client.get(url).send().await;
        sent.map_err(|error| unanswered(&self.admin, cause(&error)))
    }

    fn said(&self, why: &str) -> String {
        format!("{} says: {why}", self.admin)
    }

    fn broke(&self, error: &reqwest::Error) -> String {
        format!("{} broke off: {}", self.admin, cause(error))
    }
}

/// The response, if it is what was asked for; else what it says instead.
async fn expect(mut response: Response) -> Result<Response, String> {
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response);
    }
    let text = response.chunk().await.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text).chars().take(LONGEST_WHY).collect::<String>();
    let line = text.lines().next().unwrap_or_default().escape_debug().to_string();
    Err(if line.is_empty() { format!("status {}", status.as_u16()) } else { line })
}

/// The cause that has no cause of its own, which says most.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.downcast_ref().map_or_else(|| cause.to_string(), explain)
}
