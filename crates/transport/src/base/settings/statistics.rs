//! The settings of the statistics database.

use std::path::PathBuf;
use std::time::Duration;

use larder_stats::{Options, Retention};
use larder_words::{named, with_defaults};

with_defaults! {
    /// The settings of the statistics database.
    #[derive(Clone, Debug)]
    pub struct Statistics {
        /// The location of the database.
        pub database: Database = Database::Off,
        /// The name of this proxy in the database: unique among the proxies that write to it, at most 64 characters.
        pub instance: String = Options::default().instance,
        /// Retention of request rows.
        pub keep: Duration = Retention::default().requests,
        /// The stored part of clients' addresses.
        pub client: ClientDetail = ClientDetail::Truncated,
        /// The stored part of query strings, in the database and in all logs.
        pub query: QueryStrings = QueryStrings::Keep,
        /// Rows per second beyond which equal requests share a row.
        pub rate: u32 = Options::default().rate,
        /// Maximum of rows that wait to be written.
        pub queue: usize = Options::default().queue,
        /// Size of a SQLite file in bytes beyond which the oldest request rows are deleted.
        pub max_size: u64 = Retention::default().bytes,
        /// Interval between snapshots of the cache's contents; `None`: no snapshots.
        pub contents: Option<Duration> = Some(Duration::from_secs(300)),
    }
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

named! {
    /// The stored part of clients' addresses.
    pub enum ClientDetail, name {
        /// The whole address.
        Whole = "whole",
        /// The network: 24 bits of an IPv4 address, 48 of an IPv6 address.
        Truncated = "truncated",
        /// No address.
        Off = "off",
    }
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
