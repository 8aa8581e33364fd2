//! What is kept of requests in a database.

use std::path::PathBuf;
use std::time::Duration;

/// What is kept of requests in a database.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Where it is.
    pub database: Database,
    /// What this proxy is called in it: different for each proxy that writes to it, at most 64 characters.
    pub instance: String,
    /// How long the rows of requests are kept.
    pub keep: Duration,
    /// What is kept of clients' addresses.
    pub client: ClientDetail,
    /// What is kept of the query strings of URLs, here and in all logs.
    pub query: QueryStrings,
    /// Rows of one second beyond which equal requests share a row.
    pub rate: u32,
    /// Rows that may wait to be written.
    pub queue: usize,
    /// Bytes of a SQLite file beyond which the oldest rows of requests go.
    pub max_size: u64,
    /// How often what is in the cache is written down; `None`: never.
    pub contents: Option<Duration>,
}

/// Where statistics are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// Nowhere.
    Off,
    /// In the database at this URL, which `larder_stats::describe` accepts.
    At(String),
    /// In this file, if that can be made.
    Default(PathBuf),
    /// In the default file, for which there is no directory.
    Homeless,
}

impl Database {
    /// Its URL, password included; empty if there is none.
    pub fn url(&self) -> String {
        match self {
            Self::Off | Self::Homeless => String::new(),
            Self::At(url) => url.clone(),
            Self::Default(path) => format!("sqlite:{}", path.display()),
        }
    }
}

/// What is kept of clients' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientDetail {
    /// All of it.
    Whole,
    /// The network: 24 bits of an IPv4 address, 48 of an IPv6 address.
    Truncated,
    /// Nothing.
    Off,
}

/// What is kept of the query strings of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStrings {
    /// All of them.
    Keep,
    /// Nothing: a URL ends before its `?`.
    Drop,
}

impl QueryStrings {
    /// As much of `url` as is kept.
    pub fn kept(self, url: &str) -> &str {
        match self {
            Self::Keep => url,
            Self::Drop => url.split('?').next().unwrap_or_default(),
        }
    }
}

impl Default for Statistics {
    fn default() -> Self {
        let larder_stats::Options { instance, queue, rate, keep, .. } = larder_stats::Options::default();
        Self {
            database: Database::Off,
            instance,
            keep: keep.requests,
            client: ClientDetail::Truncated,
            query: QueryStrings::Keep,
            rate,
            queue,
            max_size: keep.bytes,
            contents: Some(Duration::from_secs(300)),
        }
    }
}
