//! The keys of `[stats]`.

use larder_proxy::settings::{ClientDetail, QueryStrings};

use super::key::{Key, MANY, keys};
use crate::config::bounds::DISK;
use crate::config::draft::{DatabasePlace, Draft};
use crate::config::kinds::{AtLeast, Choice, Count, Kind, OrWord, Secret, Size, Text, Words};
use crate::config::names;

/// The keys of `[stats]`.
pub(super) const KEYS: &[Key<Draft>] = keys! {
    "url" in database: DATABASE,
        "sqlite:PATH, mysql://.., mariadb://.. or postgres://..; auto: statistics.db in $STATE_DIRECTORY, \
         $XDG_STATE_HOME/larder or ~/.local/state/larder (root: /var/lib/larder)";
    "keep" in values.statistics.keep: AtLeast(1_000),
        "retention of the rows of requests; sums by the hour stay for 400 days";
    "client" in values.statistics.client: CLIENT_DETAIL,
        "recorded part of clients' addresses; truncated: 24 bits of IPv4, 48 of IPv6";
    "query" in values.statistics.query: QUERY, "whether the database and all logs contain query strings";
    "rate" in values.statistics.rate: Count(1..=MANY),
        "number of rows in a second beyond which equal requests share a row";
    "queue" in values.statistics.queue: Count(1..=MANY), "rows that may wait while the database is slow or down";
    "max_size" in values.statistics.max_size: Size(DISK),
        "size of a SQLite file beyond which the oldest rows of requests are deleted";
    "contents" in values.statistics.contents: OrWord("off", AtLeast(1_000)),
        "interval between snapshots of the cache's content";
};

const DATABASE: Secret<Text<DatabasePlace>> =
    Secret(Text("\"auto\" or \"none\" or a URL", names::database, names::show_database));
pub(super) const CLIENT_DETAIL: Choice<ClientDetail> = Choice(ClientDetail::NAMES);

const QUERY: Choice<QueryStrings> = Choice(&[("keep", QueryStrings::Keep), ("drop", QueryStrings::Drop)]);
