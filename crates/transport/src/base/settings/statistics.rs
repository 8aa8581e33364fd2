//! The settings of the statistics database.

use std::path::PathBuf;
use std::time::Duration;

/// The settings of the statistics database.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The location of the database.
    pub database: Database,
    /// The name of this proxy in the database: unique among the proxies that write to it, at most 64 characters.
    pub instance: String,
    /// Retention of request rows.
    pub keep: Duration,
    /// The stored part of clients' addresses.
    pub client: ClientDetail,
    /// The stored part of query strings, in the database and in all logs.
    pub query: QueryStrings,
    /// Rows per second beyond which equal requests share a row.
    pub rate: u32,
    /// Maximum of rows that wait to be written.
    pub queue: usize,
    /// Size of a SQLite file in bytes beyond which the oldest request rows are deleted.
    pub max_size: u64,
    /// Interval between snapshots of the cache's contents; `None`: no snapshots.
    pub contents: Option<Duration>,
}

/// The location of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// No database.
    Off,
    /// The database at this URL, which `larder_stats::describe` accepts.
    At(String),
    /// This file, if it can be created.
    Default(PathBuf),
    /// The default file, if there is no directory for it.
    Homeless,
}

impl Database {
    /// Returns the URL, password included; empty if there is none.
    pub fn url(&self) -> String {
        match self {
            Self::Off | Self::Homeless => String::new(),
            Self::At(url) => url.clone(),
            Self::Default(path) => format!("sqlite:{}", path.display()),
        }
    }
}

/// The stored part of clients' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientDetail {
    /// The whole address.
    Whole,
    /// The network: 24 bits of an IPv4 address, 48 of an IPv6 address.
    Truncated,
    /// No address.
    Off,
}

/// The stored part of query strings in URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStrings {
    /// The whole query string.
    Keep,
    /// No query string: a URL ends before its `?`.
    Drop,
}

impl QueryStrings {
    /// Returns the stored part of `url`.
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
