//! Pages through a forward proxy: `http` in the absolute form, `https` through a tunnel.
//!
//! Each connection has its own client and runtime, which runs in the calling thread: no work moves between threads while a
//! page is timed.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use larder_rpc::{Answer, Call, Failure, Limits};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, StatusCode};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};

use super::door::{Door, Problem, said};
use crate::cli::units::show_duration;

/// How many redirects in a row are followed.
const REDIRECTS: usize = 10;
/// Bytes of an explanation that are shown.
const LONGEST_WHY: usize = 200;

/// A forward proxy.
pub(super) struct Http {
    runtime: Runtime,
    client: Client,
    server: String,
    patience: Duration,
}

impl Http {
    /// To the proxy at `server`, a host and a port, where no page may take longer than `patience`.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(super) fn new(server: &str, tls: ClientConfig, patience: Duration) -> io::Result<Self> {
        let client = Client::builder()
            .proxy(Proxy::all(format!("http://{server}")).map_err(io::Error::other)?)
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("larder/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::limited(REDIRECTS))
            .timeout(patience);
        Ok(Self {
            runtime: Builder::new_current_thread().enable_all().build()?,
            client: client.build().map_err(io::Error::other)?,
            server: server.to_owned(),
            patience,
        })
    }

    fn explain(&self, error: &reqwest::Error) -> Problem {
        let cause = deepest(error);
        if error.is_timeout() {
            Problem::Failed(format!("no answer in {}", show_duration(self.patience)))
        } else if error.is_connect() {
            Problem::Failed(format!("cannot connect through {}: {cause}", self.server))
        } else if error.is_redirect() || error.is_builder() {
            Problem::Failed(cause)
        } else {
            Problem::Broken(format!("the connection broke: {cause}"))
        }
    }
}

impl Door for Http {
    fn ask(&mut self, call: &Call) -> Result<Answer, Problem> {
        let Call::Fetch { url } = call else {
            return Err(Problem::Failed("a proxy has pages and nothing else".to_owned()));
        };
        self.runtime.block_on(async {
            let response = self.client.get(url).send().await.map_err(|error| self.explain(&error))?;
            let (status, is_text) = (response.status(), is_text(&response));
            let content = content(response).await.map_err(|error| self.explain(&error))?;
            let Some(content) = content else {
                return Err(Problem::Failed(format!("a page of more than {} bytes", Limits::default().page)));
            };
            if status.is_success() {
                return Ok(Answer::Page(content));
            }
            let why = if is_text { first_line(&content) } else { String::new() };
            let why = reason(status, &why);
            Ok(Answer::Failure(Failure { what: url.clone(), why, status: status.as_u16() }))
        })
    }
}

/// What `status` means, and what the answer's text says of it. The proxy's own texts begin with the status and
/// say all there is.
fn reason(status: StatusCode, text: &str) -> String {
    let meaning = status.canonical_reason().unwrap_or_default();
    match (text.strip_prefix(&format!("{}: ", status.as_str())), text) {
        (Some(ours), _) => ours.to_owned(),
        (None, "") => meaning.to_owned(),
        (None, text) => format!("{meaning}: {text}"),
    }
}

/// The content of `response`, unless it is longer than a page may be.
async fn content(mut response: Response) -> reqwest::Result<Option<Bytes>> {
    let mut content = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > Limits::default().page - content.len() {
            return Ok(None);
        }
        content.extend_from_slice(&chunk);
    }
    Ok(Some(content.freeze()))
}

fn is_text(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

fn first_line(content: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&content[..content.len().min(LONGEST_WHY)]);
    shown.lines().next().unwrap_or_default().trim().to_owned()
}

/// The cause that has no cause of its own, which says most.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.downcast_ref().map_or_else(|| cause.to_string(), said)
}

/// Trusts the system's certificates.
///
/// # Errors
/// When there is no version of TLS to speak, in one line.
pub(super) fn tls() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = larder_proxy::net::tls::provider();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("cannot speak tls: {error}"))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_it_means_once() {
        let table = [
            ("", "Bad Gateway"),
            ("502: no connection to the origin", "no connection to the origin"),
            ("try again", "Bad Gateway: try again"),
        ];
        for (text, expected) in table {
            assert_eq!(reason(StatusCode::BAD_GATEWAY, text), expected);
        }
    }
}
