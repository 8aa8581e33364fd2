//! One origin of a site.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use larder_words::named;

use super::{PathPrefix, S3Bucket};

/// One origin of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether over TLS.
    pub https: bool,
    /// Whether in HTTP/2, or else in HTTP/1.1.
    pub http2: bool,
    /// Host name or address, with its port if it was configured; or the name of a [service](is_service); or `unix:` and the
    /// absolute path of a socket.
    pub authority: String,
    /// The path that replaces the site's path in requests to the origin; `None`: paths stay unchanged.
    pub path: Option<PathPrefix>,
    /// The weight in the balance: requests to this origin for each request to an origin of weight 1. 0: it gets no
    /// clients that have not been with it before.
    pub weight: u16,
    /// Whether it gets requests only while no other origin of its site answers.
    pub is_backup: bool,
    /// The bucket that it is, if it is one.
    pub bucket: Option<Box<S3Bucket>>,
}

named! {
    /// The method that chooses one of a site's origins.
    #[derive(Default)]
    pub enum Balance, name {
        /// Origins in turn, by their weights.
        #[default]
        RoundRobin = "round-robin",
        /// Two origins drawn at random, and of these the one with fewer requests in progress.
        TwoChoices = "two-choices",
        /// The same, but of these the one whose answer is likely to be there first.
        LeastTime = "least-time",
        /// The same origin for the same URL, as long as it answers.
        Hash = "hash",
        /// The same origin for the same client: an IPv4 address or an IPv6 /64.
        Client = "client",
    }
}

/// When the names of a site's origins are resolved again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveInterval {
    /// Never: open connections stay in use.
    Off,
    /// When the lifetime of the records that were found is over.
    Auto,
    /// At this interval.
    Every(Duration),
}

/// The socket of no origin.
const NONE: &str = "unix:/dev/null";

impl Origin {
    /// The prefix of a socket's path.
    pub const SOCKET: &'static str = "unix:";
    /// The suffix of the scheme of a service.
    pub const SERVICE: &'static str = "+srv";

    /// Creates an origin of HTTP/1.1 at `authority`, without a path and with weight 1.
    pub fn new(https: bool, authority: impl Into<String>) -> Self {
        let authority = authority.into();
        Self { https, http2: false, authority, path: None, weight: 1, is_backup: false, bucket: None }
    }

    /// Returns the origin of a site whose rules answer everything: nothing listens there.
    pub fn none() -> Self {
        Self::new(false, NONE)
    }

    /// Returns the scheme of the origin in the config.
    pub fn scheme(&self) -> &'static str {
        match (self.http2, self.https) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "h2c",
            (true, true) => "h2",
        }
    }

    /// Returns the host of the origin; `localhost` for a socket.
    pub fn host(&self) -> &str {
        if socket_of(&self.authority).is_some() { "localhost" } else { &self.authority }
    }
}

/// Whether `host` is the name of a service, such as `_http._tcp.example`, whose SRV records name its servers (RFC 2782).
/// Names of hosts do not begin with two such labels.
pub fn is_service(host: &str) -> bool {
    let service = host.strip_prefix('_').and_then(|name| name.split_once("._"));
    service.is_some_and(|(label, _)| !label.contains('.'))
}

/// Returns the path of the socket in an authority. Authorities of requests contain no slash, so they cannot name a
/// socket.
pub fn socket_of(authority: &str) -> Option<&Path> {
    authority.strip_prefix(Origin::SOCKET).filter(|path| path.starts_with('/')).map(Path::new)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bucket) = &self.bucket {
            return f.write_str(&bucket.url);
        }
        match socket_of(&self.authority) {
            Some(_) if self.authority == NONE => f.write_str("no origin")?,
            Some(_) => write!(f, "{}{}", self.authority, if self.path.is_some() { ":" } else { "" })?,
            None => {
                let suffix = if is_service(&self.authority) { Self::SERVICE } else { "" };
                write!(f, "{}{suffix}://{}", self.scheme(), self.authority)?;
            }
        }
        match &self.path {
            Some(path) if path.is_root() => write!(f, "/"),
            Some(path) => write!(f, "{path}/"),
            None => Ok(()),
        }
    }
}
