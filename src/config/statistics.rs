//! The keys of the statistics database, and the file that is used by default.

use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use larder_proxy::settings::{ClientDetail, Database, QueryStrings, Statistics};

use super::DISK;
use super::draft::Draft as Whole;
use super::keys::{Key, MANY, key};
use super::kinds::{AtLeast, Choice, Count, Kind, Or, Size, Text, Words};
use crate::units::{show_duration, show_size};
use crate::words::hint;

/// Where statistics are kept, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the state directory.
    Default,
    /// Nowhere.
    Off,
    /// In the database at this URL.
    At(String),
}

/// The statistics as they were written.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) place: Place,
    pub(super) keep: Duration,
    pub(super) client: ClientDetail,
    pub(super) query: QueryStrings,
    pub(super) rate: u32,
    pub(super) queue: usize,
    pub(super) max_size: u64,
    pub(super) contents: Option<Duration>,
}

impl Default for Draft {
    fn default() -> Self {
        let Statistics { keep, client, query, rate, queue, max_size, contents, .. } = Statistics::default();
        Self { place: Place::Default, keep, client, query, rate, queue, max_size, contents }
    }
}

/// The keys of `[stats]`.
pub(super) const KEYS: &[Key<Whole>] = &[
    key!(
        "url",
        DATABASE,
        statistics.place,
        "sqlite:PATH, mysql://.., mariadb://.. or postgres://..; auto: statistics.db in $STATE_DIRECTORY, \
         $XDG_STATE_HOME/larder or ~/.local/state/larder (root: /var/lib/larder)"
    ),
    key!(
        "keep",
        AtLeast(1_000),
        statistics.keep,
        "retention of the rows of requests; sums by the hour stay for 400 days"
    ),
    key!(
        "client",
        CLIENT_DETAIL,
        statistics.client,
        "recorded part of clients' addresses; truncated: 24 bits of IPv4, 48 of IPv6"
    ),
    key!("query", QUERY, statistics.query, "whether the database and all logs contain query strings"),
    key!(
        "rate",
        Count(1..=MANY),
        statistics.rate,
        "number of rows in a second beyond which equal requests share a row"
    ),
    key!("queue", Count(1..=MANY), statistics.queue, "rows that may wait while the database is slow or down"),
    key!(
        "max_size",
        Size(DISK),
        statistics.max_size,
        "size of a SQLite file beyond which the oldest rows of requests are deleted"
    ),
    key!(
        "contents",
        Or("off", AtLeast(1_000)),
        statistics.contents,
        "interval between snapshots of the cache's content"
    ),
];

const DATABASE: Text<Place> = Text { words: "\"auto\" or \"none\" or a URL", parse, show };
const CLIENT_DETAIL: Choice<ClientDetail> = Choice(CLIENTS);

const QUERY: Choice<QueryStrings> = Choice(&[("keep", QueryStrings::Keep), ("drop", QueryStrings::Drop)]);

const DEFAULT: &str = "auto";
const OFF: &str = "none";

/// The URL of a database, or a word.
pub(crate) fn parse(text: &str) -> Result<Place, String> {
    match text {
        DEFAULT => Ok(Place::Default),
        OFF => Ok(Place::Off),
        url => match larder_stats::describe(url) {
            Ok(_) => Ok(Place::At(url.to_owned())),
            Err(error) => Err(format!("{error}{}", hint(url, [DEFAULT, OFF]))),
        },
    }
}

/// How [`parse`] reads it.
pub(super) fn show(place: &Place) -> String {
    match place {
        Place::Default => DEFAULT.to_owned(),
        Place::Off => OFF.to_owned(),
        Place::At(url) => url.clone(),
    }
}

/// What `draft` stands for, in a proxy that first listens at `address`.
pub(super) fn settle(draft: Draft, address: Option<SocketAddr>) -> Statistics {
    let Draft { place, keep, client, query, rate, queue, max_size, contents } = draft;
    let database = match place {
        Place::Default => state_directory()
            .map_or(Database::Off, |directory| Database::Default(directory.join("statistics.db"))),
        Place::Off => Database::Off,
        Place::At(url) => Database::At(url),
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let instance = address.map_or_else(|| host.to_string(), |address| format!("{host}:{}", address.port()));
    let instance = instance.chars().take(64).collect();
    Statistics { database, instance, keep, client, query, rate, queue, max_size, contents }
}

/// The state directory: that of the service, or else of the user. Root looks where services have theirs.
pub(super) fn state_directory() -> Option<PathBuf> {
    directory(|name| env::var_os(name), rustix::process::geteuid().is_root())
}

fn directory(environment: impl Fn(&str) -> Option<OsString>, is_root: bool) -> Option<PathBuf> {
    let directory = |name: &str, below: &str| {
        let value = environment(name)?;
        // A service may have several; the first is the one for this.
        let first = env::split_paths(&value).next()?;
        first.is_absolute().then(|| first.join(below))
    };
    directory("STATE_DIRECTORY", "")
        .or_else(|| directory("XDG_STATE_HOME", "larder"))
        .or_else(|| is_root.then(|| PathBuf::from("/var/lib/larder")))
        .or_else(|| directory("HOME", ".local/state/larder"))
}

/// Where statistics are kept and how, for people.
pub(super) fn summary(statistics: &Statistics) -> String {
    let Statistics { database, keep, client, rate, queue, max_size, contents, .. } = statistics;
    let client = CLIENTS.iter().find(|(_, detail)| detail == client).map_or("", |(name, _)| name);
    match larder_stats::describe(&database.url()) {
        Ok(url) => {
            let (keep, size) = (show_duration(*keep), show_size(*max_size));
            let contents = contents.map_or_else(|| "off".to_owned(), show_duration);
            format!(
                "{url}, keep {keep}, max_size {size}, client {client}, rate {rate}, queue {queue}, contents {contents}"
            )
        }
        Err(_) => OFF.to_owned(),
    }
}

/// The words for what is kept of clients' addresses.
pub(super) const CLIENTS: &[(&str, ClientDetail)] =
    &[("whole", ClientDetail::Whole), ("truncated", ClientDetail::Truncated), ("off", ClientDetail::Off)];

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables, whether the user is root, and the directory.
    type Case = (&'static [(&'static str, &'static str)], bool, Option<&'static str>);

    #[test]
    fn the_nearest_state_directory_is_used() {
        let table: &[Case] = &[
            (
                &[("STATE_DIRECTORY", "/var/lib/a:/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")],
                true,
                Some("/var/lib/a"),
            ),
            (&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")], true, Some("/x/larder")),
            (
                &[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")],
                false,
                Some("/h/.local/state/larder"),
            ),
            (&[("HOME", "/root")], true, Some("/var/lib/larder")),
            (&[("HOME", "")], false, None),
            (&[], false, None),
        ];
        for (environment, is_root, expected) in table {
            let value = |name: &str| {
                environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(directory(value, *is_root), expected.map(PathBuf::from), "{environment:?}");
        }
    }

    #[test]
    fn a_place_is_a_word_or_a_url() {
        for text in ["auto", "none", "sqlite:a.db", "mysql://u:p@h/d", "postgres://h/d"] {
            assert_eq!(parse(text).map(|place| show(&place)), Ok(text.to_owned()));
        }
        for (text, problem) in [
            ("non", "did you mean 'none'?"),
            ("sqllite:a.db", "did you mean 'sqlite'?"),
            ("mysql://u:secret@h", "names no database"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
