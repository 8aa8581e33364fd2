//! The database that a URL names, and the connection to it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::connection::{Connection, Link, within};
use crate::failure::{Failure, OpenError};

/// The time that another process may hold SQLite's lock before that counts as a failure.
const BUSY: Duration = Duration::from_secs(5);

const SCHEMES: &[&str] = &["sqlite", "mysql", "mariadb", "postgres", "postgresql"];

/// A database: its location, and its URL without the password.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    place: Backend,
    pub(crate) url: String,
}

#[derive(Clone, Debug)]
enum Backend {
    Sqlite(PathBuf),
    Mysql(Box<MySqlConnectOptions>),
    Postgres(Box<PgConnectOptions>),
}

impl Target {
    /// Parses `sqlite:PATH`, `mysql://..`, `mariadb://..`, `postgres://..` and `postgresql://..`.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let shown = without_password(url);
        let wrong = |why: String| OpenError::Url { url: shown.clone(), why };
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let place = match scheme {
            "sqlite" => Backend::Sqlite(path(rest).map_err(wrong)?),
            "mysql" | "mariadb" => {
                let options = MySqlConnectOptions::from_str(url).map_err(|e| wrong(e.to_string()))?;
                if options.get_database().is_none_or(str::is_empty) {
                    return Err(wrong("names no database".to_owned()));
                }
                Backend::Mysql(Box::new(options.disable_statement_logging()))
            }
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(url).map_err(|e| wrong(e.to_string()))?;
                let options = options.application_name("larder").disable_statement_logging();
                Backend::Postgres(Box::new(options))
            }
            other => return Err(wrong(unknown(other))),
        };
        Ok(Self { place, url: shown })
    }

    /// Connects for writing. A missing SQLite file is created, for this user alone.
    pub(crate) async fn connect(&self, patience: Duration) -> Result<Connection, Failure> {
        if let Backend::Sqlite(path) = &self.place {
            create(path).map_err(Failure::File)?;
        }
        self.link(patience, false).await
    }

    /// Connects for reading.
    pub(crate) async fn connect_to_read(&self, patience: Duration) -> Result<Connection, Failure> {
        self.link(patience, true).await
    }

    async fn link(&self, patience: Duration, only_reads: bool) -> Result<Connection, Failure> {
        let connecting = async {
            Ok::<_, sqlx::Error>(match &self.place {
                Backend::Sqlite(path) => Link::Sqlite(sqlite(path, only_reads).connect().await?),
                Backend::Mysql(options) => Link::Mysql(options.connect().await?),
                Backend::Postgres(options) => Link::Postgres(options.connect().await?),
            })
        };
        Ok(Connection::new(within(patience, connecting).await?, patience))
    }
}

/// Returns a database's URL without its password.
///
/// # Errors
/// Where it is not the URL of a database that [`crate::Recorder::open`] supports.
pub fn describe(url: &str) -> Result<String, OpenError> {
    Target::parse(url).map(|target| target.url)
}

fn sqlite(path: &Path, only_reads: bool) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY).disable_statement_logging();
    if only_reads {
        return options.read_only(true).pragma("query_only", "1");
    }
    // The write-ahead log lets other connections read meanwhile. A crash of the machine may cost the last
    // seconds, but never the file.
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal);
    options.auto_vacuum(SqliteAutoVacuum::Incremental)
}

/// Creates the file if it does not exist. SQLite gives the files beside it the same permissions.
fn create(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Returns the file that `sqlite:PATH` or `sqlite://PATH` names.
fn path(rest: &str) -> Result<PathBuf, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path == ":memory:" {
        return Err("names no file; write sqlite:PATH".to_owned());
    }
    if path.contains('?') {
        return Err("has parameters, which are not for files; write sqlite:PATH".to_owned());
    }
    Ok(PathBuf::from(path))
}

fn unknown(scheme: &str) -> String {
    let hint = larder_words::hint(scheme, SCHEMES.iter().copied());
    format!("unknown kind of database '{scheme}'{hint}; known: {}", SCHEMES.join(" "))
}

/// Returns the URL without its password, and without parameters, which may contain one.
fn without_password(url: &str) -> String {
    let before = |text: &str, ends: &[char]| text.split(ends).next().unwrap_or_default().to_owned();
    let Some((scheme, rest)) = url.split_once("://") else { return before(url, &['?']) };
    match rest.rsplit_once('@') {
        Some((user, place)) => {
            format!("{scheme}://{}@{}", before(user, &[':', '?']), before(place, &['?']))
        }
        None => before(url, &['?']),
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, without_password};

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("postgres://u:secret@h:5/d", "postgres://u@h:5/d"),
            ("postgres://u:se@cret@h/d?password=x", "postgres://u@h/d"),
            ("postgres://u:se?cret@h/d", "postgres://u@h/d"),
            ("postgres://h/d?password=x@y", "postgres://h/d@y"),
            ("mysql://u@h/d", "mysql://u@h/d"),
            ("mysql://h/d", "mysql://h/d"),
            ("sqlite:a@b:c.db", "sqlite:a@b:c.db"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn a_wrong_url_is_reported_in_one_line() {
        for (url, why) in [
            ("", "unknown kind of database ''"),
            ("stats.db", "unknown kind of database 'stats.db'"),
            ("sqllite:a.db", "unknown kind of database 'sqllite'; did you mean 'sqlite'?"),
            ("postgress://h/d", "did you mean 'postgres'?"),
            ("sqlite:", "names no file"),
            ("sqlite::memory:", "names no file"),
            ("sqlite:a.db?mode=ro", "has parameters"),
            ("mysql://u@h", "names no database"),
            ("mysql://u:secret@h:x/d", "invalid port number"),
            ("postgres://u:secret@h:99999/d", "invalid port number"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains('\n') && !error.contains("secret"), "{error}");
        }
    }
}
