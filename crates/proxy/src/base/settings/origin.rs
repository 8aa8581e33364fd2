//! One origin of a site.

use std::fmt;
use std::path::Path;

use super::PathPrefix;

/// One origin of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Spoken over TLS.
    pub https: bool,
    /// Spoken in HTTP/2, else in HTTP/1.1.
    pub http2: bool,
    /// Host name or address, with its port if one was written; or `unix:` and the absolute path of a socket.
    pub authority: String,
    /// What stands in place of the site's path there; `None`: paths stay as they are.
    pub path: Option<PathPrefix>,
    /// How many requests it gets for one of an origin of weight 1. At least 1.
    pub weight: u16,
}

/// Which of a site's origins a request goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// They take turns.
    #[default]
    RoundRobin,
    /// Of two that are drawn, the one with fewer requests in progress.
    TwoChoices,
}

impl Origin {
    /// What stands before the path of a socket.
    pub const SOCKET: &'static str = "unix:";

    /// The server at `authority`, without a path.
    pub fn new(https: bool, authority: impl Into<String>) -> Self {
        Self { https, http2: false, authority: authority.into(), path: None, weight: 1 }
    }

    /// The scheme with which it is written.
    pub fn scheme(&self) -> &'static str {
        match (self.http2, self.https) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "h2c",
            (true, true) => "h2",
        }
    }

    /// What it is called as a host.
    pub fn host(&self) -> &str {
        if socket_of(&self.authority).is_some() { "localhost" } else { &self.authority }
    }
}

/// The socket that an authority stands for. Those of requests stand for none, since they have no slash.
pub(crate) fn socket_of(authority: &str) -> Option<&Path> {
    authority.strip_prefix(Origin::SOCKET).filter(|path| path.starts_with('/')).map(Path::new)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match socket_of(&self.authority) {
            Some(_) => write!(f, "{}{}", self.authority, if self.path.is_some() { ":" } else { "" })?,
            None => write!(f, "{}://{}", self.scheme(), self.authority)?,
        }
        match &self.path {
            Some(path) if path.is_root() => write!(f, "/"),
            Some(path) => write!(f, "{path}/"),
            None => Ok(()),
        }
    }
}
