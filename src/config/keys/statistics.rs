//! The keys of `[stats]`.

use larder_proxy::settings::{ClientDetail, QueryStrings};

use super::key::{Key, MANY, key};
use crate::config::bounds::DISK;
use crate::config::draft::Draft;
use crate::config::draft::statistics::DatabasePlace;
use crate::config::kinds::{AtLeast, Choice, Count, Kind, Or, Size, Text, Words};
use crate::config::names::{self, CLIENT_DETAILS};

/// The keys of `[stats]`.
pub(super) const KEYS: &[Key<Draft>] = &[
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

const DATABASE: Text<DatabasePlace> =
    Text { words: "\"auto\" or \"none\" or a URL", parse: names::database, show: names::show_database };
const CLIENT_DETAIL: Choice<ClientDetail> = Choice(CLIENT_DETAILS);

const QUERY: Choice<QueryStrings> = Choice(&[("keep", QueryStrings::Keep), ("drop", QueryStrings::Drop)]);
