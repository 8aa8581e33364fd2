//! The history of Chrome, Firefox and related browsers: an SQLite database.
//!
//! A running browser locks the database and keeps its newest visits in a separate file (`-wal`), so both are copied and
//! the copy is read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::Fault;
use crate::trace::sink::{Facts, Sink};
use crate::trace::summary::Exclusion;

const MAGIC: &[u8] = b"SQLite format 3\0";

/// The time from 1601, the epoch of Chrome, to 1970, in microseconds.
const CHROME_EPOCH: i64 = 11_644_473_600_000_000;

/// A table that identifies the browser, the query for URLs and times in microseconds, and the time to subtract.
const BROWSERS: [(&str, &str, i64); 2] = [
    (
        "moz_historyvisits",
        "SELECT p.url, v.visit_date FROM moz_historyvisits v JOIN moz_places p ON p.id = v.place_id \
         ORDER BY v.visit_date, v.id",
        0,
    ),
    (
        "visits",
        "SELECT u.url, v.visit_time FROM visits v JOIN urls u ON u.id = v.url ORDER BY v.visit_time, v.id",
        CHROME_EPOCH,
    ),
];

/// Whether a file that begins with `head` is an SQLite database.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(super) fn read(path: &Path, mut input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("history");
    io::copy(&mut input, &mut File::create(&copy)?)?;
    let log = beside(path);
    if log.exists() {
        fs::copy(log, beside(&copy))?;
    }
    visits(&copy, sink)
}

fn visits(copy: &Path, sink: &mut Sink) -> Result<(), Fault> {
    let database = Connection::open(copy)?;
    let exists = |table: &str| {
        let query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        database.query_row(query, [table], |row| row.get::<_, i64>(0))
    };
    let mut browser = None;
    for (table, query, epoch) in BROWSERS {
        if browser.is_none() && exists(table)? > 0 {
            browser = Some((query, epoch));
        }
    }
    let (query, epoch) = browser.ok_or_else(|| {
        Fault::Bad("a database without the tables of Chrome's or Firefox's history".to_owned())
    })?;
    let mut statement = database.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match visit(row, epoch)? {
            Some((url, _)) if !is_web(url) => sink.leave_out(Exclusion::Scheme),
            Some((url, time)) => sink.name(url, Facts { time, ..Facts::NONE })?,
            // A sound database, so that the visit does not make the format doubtful.
            None => sink.leave_out(Exclusion::Incomplete),
        }
    }
    Ok(())
}

/// Whether a proxy could serve `url`: browsers also record internal pages, extensions and files.
fn is_web(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)))
}

/// Returns a visit's URL and its time in microseconds since 1970.
fn visit<'r>(row: &'r Row<'_>, epoch: i64) -> rusqlite::Result<Option<(&'r str, u64)>> {
    let (ValueRef::Text(url), ValueRef::Integer(time)) = (row.get_ref(0)?, row.get_ref(1)?) else {
        return Ok(None);
    };
    let time = u64::try_from(time.saturating_sub(epoch)).unwrap_or(0);
    Ok(str::from_utf8(url).ok().map(|url| (url, time)))
}

fn beside(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Bad(format!("as a database: {error}"))
    }
}
