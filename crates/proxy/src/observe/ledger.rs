//! Writes requests to the statistics database: each counted request is recorded once.
//!
//! This module decides the values of a row; `larder-stats` writes it. Requests do not wait for the database.

use std::fs::File;
use std::hash::RandomState;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use larder_stats::{
    Content, Event, Figures, OpenCheck, OpenError, Options, Prediction, Recorder, Retention, Tally, Text,
    Transaction,
};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::memo::{RequestRecord, RequestResult};
use crate::base::clock;
use crate::base::error::{Error, cause};
use crate::base::explanation::LoggedRequest;
use crate::base::settings::{ClientDetail, Database, Door, Statistics};
use crate::counts::versions;
use larder_store::private;

/// Maximum time that the end of the process waits for the remaining rows.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum of rows that are searched for those of a URL.
const LOOKED_AT: u32 = 20_000;

/// The statistics database of this process.
pub struct Ledger {
    pub(super) recorder: Recorder,
    url: String,
    /// The URL without its password.
    place: String,
    pub(super) client: ClientDetail,
    /// The hasher of values that have no numbers.
    pub(super) hasher: RandomState,
    /// The lock of the default database.
    lock: Option<Arc<Lock>>,
}

/// The lock of the default database. Another process may hold it.
struct Lock {
    path: PathBuf,
    held: Mutex<Option<File>>,
}

/// The statistics database in `/stats`: requests by the result of their rows, and the state of the database.
#[derive(Debug, Serialize)]
pub struct StatisticsReport {
    pub(crate) recorded: u64,
    /// Rows written.
    pub written: u64,
    /// Rows that wait.
    pub queued: u64,
    /// Rows that found no place in the queue.
    pub dropped: u64,
    pub(crate) rows: u64,
    /// Attempts to write that failed.
    pub failed_writes: u64,
    /// Whether the database is connected.
    pub connected: bool,
}

impl From<Figures> for StatisticsReport {
    fn from(figures: Figures) -> Self {
        let Figures { recorded, written, queued, dropped, rows, failed, is_connected, .. } = figures;
        Self { recorded, written, queued, dropped, rows, failed_writes: failed, connected: is_connected }
    }
}

impl Ledger {
    /// Opens the database, if one is configured. Returns `None` if the default database is unavailable. `lock` is the
    /// lock of the default database, if the process before this one has handed it over. Fails when a database at a
    /// configured URL is unusable and a retry would not help.
    pub(crate) fn open(settings: &Statistics, lock: Option<File>) -> Result<Option<Self>, Error> {
        match &settings.database {
            Database::Off => Ok(None),
            Database::Homeless => {
                tracing::warn!(
                    "no statistics: there is no directory for the database; set STATE_DIRECTORY, XDG_STATE_HOME or HOME, \
                     or write url = \"sqlite:PATH\" or \"none\" in [stats]"
                );
                Ok(None)
            }
            Database::At(url) => {
                let ledger = Self::open_at(url, settings, None);
                ledger.map(Some).map_err(|error| Error::new("cannot start", error))
            }
            Database::Default(path) => {
                let open = |lock| {
                    let ledger = Self::open_at(&settings.database.url(), settings, Some(lock));
                    ledger.map_err(|error| error.to_string())
                };
                match Lock::make(path, lock).and_then(open) {
                    Ok(ledger) => Ok(Some(ledger)),
                    Err(why) => {
                        tracing::warn!("{why}; serving without statistics");
                        Ok(None)
                    }
                }
            }
        }
    }

    /// Opens the database at `url`. One with a `lock` is used only once that is held.
    fn open_at(url: &str, settings: &Statistics, lock: Option<Arc<Lock>>) -> Result<Self, OpenError> {
        let Statistics { instance, rate, queue, keep, client, max_size, .. } = settings;
        let options = Options {
            instance: instance.clone(),
            queue: *queue,
            rate: *rate,
            keep: Retention { requests: *keep, bytes: *max_size, ..Retention::default() },
            may_open: lock.clone().map(|lock| -> OpenCheck { Arc::new(move || lock.take()) }),
            report: Arc::new(log),
            ..Options::default()
        };
        let recorder = Recorder::open(url, options)?;
        let (place, hasher) = (larder_stats::describe(url)?, RandomState::new());
        Ok(Self { recorder, url: url.to_owned(), place, client: *client, hasher, lock })
    }

    /// Returns the sums of a worker.
    pub(crate) fn tally(&self) -> Tally {
        self.recorder.tally()
    }

    pub(super) fn row(&self, memo: RequestRecord, ended: &RequestResult, took: Duration) -> Transaction {
        let RequestResult { status, outcome, age, bytes, .. } = *ended;
        let took = took.as_micros() as u64;
        Transaction {
            time: clock::unix_millis().saturating_sub(took / 1_000),
            door: memo.door.map_or("http", Door::name).into(),
            route: memo.route().to_owned().into(),
            site: memo.site.unwrap_or_else(|| Arc::from("")),
            method: method(memo.method),
            status,
            outcome: outcome.kind.word().into(),
            reason: outcome.why.token().into(),
            bytes,
            service_us: took,
            origin_us: outcome.origin_time.map(|time| time.as_micros() as u64),
            age: age.map(u64::from),
            tier: if outcome.is_hit() { outcome.tier.name() } else { "" }.into(),
            client: client(memo.client.ip(), self.client).into(),
            http_version: memo.version.map_or("", versions::name).into(),
            url: memo.target,
        }
    }

    /// Returns the number of recorded requests.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorder.figures().recorded
    }

    /// Replaces the snapshot of the cache's contents.
    pub(crate) fn record_contents(&self, contents: Vec<Content>) {
        self.recorder.record_contents(contents);
    }

    /// Adds predictions to those of the same hour.
    pub(crate) fn record_predictions(&self, predictions: Vec<Prediction>) {
        self.recorder.record_predictions(predictions);
    }

    /// Returns the URL for opening the database again.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the latest `most` requests for one of `urls`, the latest first. Searches only the last rows. Empty if
    /// the database cannot be read. Blocks on the database.
    pub(crate) fn latest(&self, urls: [&str; 2], most: usize) -> Vec<LoggedRequest> {
        if !self.recorder.figures().is_connected {
            return Vec::new();
        }
        let sql = format!(
            "SELECT url, time, method, status, outcome, reason FROM transactions \
             ORDER BY time DESC, id DESC LIMIT {LOOKED_AT}"
        );
        let rows = larder_stats::Database::open_read(&self.url)
            .ok()
            .and_then(|mut database| database.query(&sql).ok());
        let rows = rows.map(|table| table.rows).unwrap_or_default().into_iter();
        let of_urls = rows.filter_map(|row| {
            let [Some(url), Some(time), Some(method), Some(status), Some(outcome), Some(reason)] =
                <[_; 6]>::try_from(row).ok()?
            else {
                return None;
            };
            let (time, status) = (time.parse().ok()?, status.parse().ok()?);
            urls.contains(&url.as_str()).then_some(LoggedRequest { time, method, status, outcome, reason })
        });
        of_urls.take(most).collect()
    }

    /// Returns the location of the database, without a password; `None` while another process uses it.
    pub fn place(&self) -> Option<&str> {
        self.lock.as_ref().is_none_or(|lock| lock.is_held()).then_some(&*self.place)
    }

    /// Returns the lock of the database for a successor of this process; `None` if there is none, or another process has
    /// it. Both processes write until this one ends, each with connections of its own. Errors: there are too many open
    /// files.
    pub fn lock(&self) -> io::Result<Option<File>> {
        self.lock.as_ref().and_then(|lock| lock.held.lock().as_ref().map(File::try_clone)).transpose()
    }

    /// Returns the counts.
    pub fn report(&self) -> StatisticsReport {
        self.recorder.figures().into()
    }

    /// Makes a [`Ledger::close`] on another thread return at once.
    pub fn hurry(&self) {
        self.recorder.close(Duration::ZERO);
    }

    /// Writes the waiting rows and closes the database. Waits for a limited time.
    pub fn close(&self) {
        let before = self.recorder.figures().dropped;
        let lost = self.recorder.close(PATIENCE).dropped - before;
        if lost > 0 {
            let requests = if lost == 1 { "request was" } else { "requests were" };
            tracing::warn!("statistics database: {lost} {requests} not written before the end");
        }
    }
}

impl Lock {
    /// Creates the lock of the database at `path` without taking it, and its directory for this user alone.
    fn make(path: &Path, held: Option<File>) -> Result<Arc<Self>, String> {
        let folder = path.parent().unwrap_or(path);
        private::make_directory(folder).map_err(|error| {
            format!("statistics database: cannot make {}: {}", folder.display(), cause(&error))
        })?;
        let lock = Self { path: path.to_owned(), held: Mutex::new(held) };
        lock.file()?;
        Ok(Arc::new(lock))
    }

    fn file(&self) -> Result<File, String> {
        let lock = self.path.with_extension("lock");
        let file = private::open(private::options().write(true).create(true).truncate(false), &lock);
        file.map_err(|error| {
            format!("statistics database: cannot write {}: {}", lock.display(), cause(&error))
        })
    }

    /// Takes the lock until this value is dropped; an error if another process holds it.
    fn take(&self) -> Result<(), String> {
        let mut held = self.held.lock();
        if held.is_none() {
            let file = self.file()?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| self.in_use())?;
            *held = Some(file);
        }
        Ok(())
    }

    fn in_use(&self) -> String {
        format!(
            "{} is in use by another larder (for a separate one, start this one with --stats sqlite:PATH, or url = \"sqlite:PATH\" in [stats])",
            self.path.display()
        )
    }

    fn is_held(&self) -> bool {
        self.held.lock().is_some()
    }
}

fn log(event: Event) {
    match event {
        Event::Back => tracing::info!("{event}"),
        _ => tracing::warn!("{event}"),
    }
}

/// Common methods, whose names need no allocation.
pub(super) const COMMON: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "QUERY"];

fn method(method: Method) -> Text {
    let known = COMMON.into_iter().find(|known| *known == method.as_str());
    known.map_or_else(|| method.as_str().to_owned().into(), Into::into)
}

/// Returns the stored part of a client's address: the whole, the network, or an empty string.
fn client(address: IpAddr, detail: ClientDetail) -> String {
    match (detail, address.to_canonical()) {
        (ClientDetail::Off, _) => String::new(),
        (ClientDetail::Whole, address) => address.to_string(),
        (ClientDetail::Truncated, IpAddr::V4(address)) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        (ClientDetail::Truncated, IpAddr::V6(address)) => {
            let [a, b, c, ..] = address.segments();
            format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_kept_as_far_as_they_may_be() {
        for (address, whole, truncated) in [
            ("192.0.2.77", "192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.77", "192.0.2.77", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            ("::1", "::1", "::/48"),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(client(address, ClientDetail::Whole), whole);
            assert_eq!(client(address, ClientDetail::Truncated), truncated);
            assert_eq!(client(address, ClientDetail::Off), "");
        }
    }

    #[test]
    fn methods_keep_their_names() {
        for name in ["GET", "PURGE", "-"] {
            assert_eq!(method(Method::from_bytes(name.as_bytes()).unwrap()), name);
        }
    }
}
