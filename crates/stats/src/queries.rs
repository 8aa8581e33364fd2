//! The predefined queries, in SQL that all three databases accept.

use larder_words::named;
use serde::Serialize;

use crate::connection::Cells;
use crate::rollup::HOUR;

named! {
    /// The properties that group requests, over all the time that roll-ups are kept.
    pub enum Dimension, name {
        /// The site.
        Site = "site",
        /// The site and its route, with `/` between.
        Route = "route",
        /// The status.
        Status = "status",
        /// The listener.
        Door = "door",
        /// The outcome.
        Outcome = "outcome",
        /// The hour of arrival, as its start in milliseconds since 1970.
        Hour = "hour",
    }
}

impl Dimension {
    pub(crate) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Site => &["site"],
            Self::Route => &["site", "route"],
            Self::Status => &["status"],
            Self::Door => &["door"],
            Self::Outcome => &["outcome"],
            Self::Hour => &["hour"],
        }
    }
}

named! {
    /// The measures that rank URLs.
    pub enum Measure, name {
        /// Requests answered without asking an origin.
        Hits = "hits",
        /// Requests answered from the cache after an origin was asked to revalidate the stored response.
        Validated = "validated",
        /// Requests fetched from an origin, though the cache might have answered.
        Misses = "misses",
        /// Bytes sent.
        Bytes = "bytes",
        /// Time that origins needed.
        OriginTime = "time",
    }
}

/// Requests with a common property.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The common property: a URL, or a value of a [`Dimension`].
    pub name: String,
    /// Their sums.
    pub counts: Counts,
}

/// Sums over requests, which count by [`crate::outcome::classify`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Requests answered without asking an origin.
    pub hits: u64,
    /// Requests answered from the cache after an origin was asked to revalidate the stored response.
    pub validated: u64,
    /// Requests fetched from an origin, though the cache might have answered.
    pub misses: u64,
    /// Bytes sent, heads included.
    pub bytes: u64,
    /// Bytes sent for hits, validated and misses.
    pub bytes_cacheable: u64,
    /// Bytes among these that came from the cache.
    pub bytes_from_cache: u64,
    /// Microseconds of all responses together.
    pub service_us: u64,
    /// Requests that asked an origin.
    pub origin_requests: u64,
    /// Microseconds of origins together.
    pub origin_us: u64,
}

impl Counts {
    /// Returns the requests that the cache might have answered.
    pub fn cacheable(&self) -> u64 {
        self.hits + self.validated + self.misses
    }

    /// Returns hits / (hits + validated + misses); 0 before the first request.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.cacheable())
    }

    /// Returns (hits + validated) / (hits + validated + misses); 0 before the first request.
    pub fn validated_hit_ratio(&self) -> f64 {
        ratio(self.hits + self.validated, self.cacheable())
    }

    /// Returns bytes from the cache / bytes served, over the same requests; 0 before the first request.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.bytes_from_cache, self.bytes_cacheable)
    }

    /// Returns the mean microseconds of a response; 0 before the first request.
    pub fn mean_service_us(&self) -> f64 {
        ratio(self.service_us, self.requests)
    }

    /// Returns the mean microseconds of an origin, over the requests that asked one; 0 before the first request.
    pub fn mean_origin_us(&self) -> f64 {
        ratio(self.origin_us, self.origin_requests)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The columns of [`Counts`], in its order; each is a sum over the rows of [`ROWS`] and [`HOURS`].
const SUMS: &[(&str, &str)] = &[
    ("requests", "requests"),
    ("hits", "requests * COALESCE(hit, 0)"),
    ("validated", "requests * COALESCE(validated, 0)"),
    ("misses", "requests * COALESCE(miss, 0)"),
    ("bytes", "bytes"),
    ("bytes_cacheable", "bytes * COALESCE(hit + validated + miss, 0)"),
    ("bytes_from_cache", "bytes * COALESCE(from_cache, 0)"),
    ("service_us", "service_us"),
    ("origin_requests", "origin_requests"),
    ("origin_us", "origin_us"),
];

/// Rows of requests with the columns of roll-ups, their URLs and the minutes of arrival.
const ROWS: &str = "SELECT time - time % 3600000 AS hour, site, route, door, outcome, status, url, requests, \
     bytes, service_us, CASE WHEN origin_us IS NULL THEN 0 ELSE requests END AS origin_requests, \
     COALESCE(origin_us, 0) AS origin_us, time - time % 60000 AS moment FROM transactions";

const HOURS: &str = "SELECT hour, site, route, door, outcome, status, '' AS url, requests, bytes, service_us, \
     origin_requests, origin_us, hour AS moment FROM hours";

/// The time span of a query: from `since` on by the rows of requests, from `full` on by roll-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    since: u64,
    full: u64,
}

impl Span {
    /// Creates a span. Rows cover the part of an hour at its start, if they reach back so far.
    pub(crate) fn new(since: u64, oldest_row: Option<u64>) -> Self {
        let since = since.min(i64::MAX as u64 - HOUR);
        match oldest_row {
            Some(oldest) if oldest <= since => Self { since, full: since.next_multiple_of(HOUR) },
            _ => Self { since: since - since % HOUR, full: since - since % HOUR },
        }
    }
}

/// Returns the query for requests in a span by `columns`; those with the most first.
pub(crate) fn by(columns: &[&str], span: Span) -> String {
    let Span { since, full } = span;
    let source =
        format!("{ROWS} WHERE time >= {since} AND time < {full} UNION ALL {HOURS} WHERE hour >= {full}");
    let all = columns.join(", ");
    let group = if columns.is_empty() { String::new() } else { format!(" GROUP BY {all}") };
    format!("{}{group} ORDER BY requests DESC", select(columns, &source))
}

/// Returns the query for requests since `since` by the minute.
pub(crate) fn minutes(since: u64) -> String {
    let since = since.min(i64::MAX as u64);
    let source = format!("{ROWS} WHERE time >= {since}");
    format!("{} GROUP BY moment ORDER BY moment", select(&["moment"], &source))
}

/// Returns the query for the `limit` URLs with most of `measure`.
pub(crate) fn top(measure: Measure, since: u64, limit: u32) -> String {
    let since = since.min(i64::MAX as u64);
    let source = format!("{ROWS} WHERE time >= {since}");
    let order = match measure {
        Measure::OriginTime => "origin_us",
        measure => measure.name(),
    };
    let select = select(&["url"], &source);
    // URLs for which the measure is zero are excluded.
    let sum = SUMS.iter().find(|(name, _)| *name == order).map_or("", |(_, sum)| *sum);
    format!("{select} GROUP BY url HAVING SUM({sum}) > 0 ORDER BY {order} DESC, url LIMIT {limit}")
}

fn select(columns: &[&str], source: &str) -> String {
    let names = columns.iter().map(|name| (*name).to_owned());
    let sums = SUMS.iter().map(|(name, sum)| format!("SUM({sum}) AS {name}"));
    let all = names.chain(sums).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT {all} FROM (SELECT o.hit, o.validated, o.miss, o.from_cache, r.* FROM ({source}) r \
         LEFT JOIN outcomes o ON o.outcome = r.outcome) g"
    )
}

/// Converts the rows of [`by`] and [`top`]; the first `names` columns are names.
pub(crate) fn groups(names: usize, rows: Vec<Cells>) -> Vec<Group> {
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let group = |row: Cells| Group {
        name: row.iter().take(names).map(text).collect::<Vec<_>>().join("/"),
        counts: counts(row.get(names..).unwrap_or_default()),
    };
    rows.into_iter().map(group).collect()
}

fn counts(cells: &[Option<String>]) -> Counts {
    let sum = |at| number(cells, at).unwrap_or_default();
    Counts {
        requests: sum(0),
        hits: sum(1),
        validated: sum(2),
        misses: sum(3),
        bytes: sum(4),
        bytes_cacheable: sum(5),
        bytes_from_cache: sum(6),
        service_us: sum(7),
        origin_requests: sum(8),
        origin_us: sum(9),
    }
}

/// Returns the figure in a cell.
pub(crate) fn number(cells: &[Option<String>], at: usize) -> Option<u64> {
    cells.get(at)?.as_deref()?.parse().ok()
}
