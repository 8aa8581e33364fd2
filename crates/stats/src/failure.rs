//! Errors of databases: their text, and whether a retry can help.

use std::fmt;
use std::io;
use std::time::Duration;

use larder_words::cause;

/// The reason why a database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL does not name a database.
    #[error("statistics database '{url}': {why}")]
    Url {
        /// The URL, without its password.
        url: String,
        /// The reason.
        why: String,
    },
    /// A later version of this program has changed the schema.
    #[error(
        "statistics database '{url}': its schema has version {found}, of a later larder; this one knows up to {known}"
    )]
    Later {
        /// The URL, without its password.
        url: String,
        /// The version of its schema.
        found: i64,
        /// The latest version that this program supports.
        known: i64,
    },
    /// There is no such database, it has no statistics to read, or it may not be used.
    #[error("statistics database '{url}': {why}")]
    Refused {
        /// The URL, without its password.
        url: String,
        /// The message of the database or the system.
        why: String,
    },
    /// A thread or its runtime could not be started.
    #[error("statistics database: cannot start a thread: {}", cause(.0))]
    System(io::Error),
}

/// The reason why an operation on a database failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The schema has a later version than the latest supported one.
    Later { found: i64, known: i64 },
    /// The schema is of an earlier version.
    Earlier(i64),
    /// There is no schema.
    Empty,
    /// The row of this writer was deleted.
    Forgotten,
    /// The operation exceeded its time limit.
    Slow(Duration),
    /// The operation fails permanently, but no caller waits for its result.
    Refused(String),
    /// The database may not be opened yet.
    InUse(String),
    /// The error of the driver.
    Database(sqlx::Error),
    /// The file cannot be created.
    File(io::Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// Returns the error code of the database: a number for SQLite, five letters and digits for the others.
    fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error.code(),
            _ => None,
        }
    }

    /// Whether the table may be missing.
    pub(crate) fn is_missing_table(&self) -> bool {
        self.is_of(&[1], &["42P01", "42S02"])
    }

    /// Whether the column to be added exists already.
    pub(crate) fn is_about_a_known_column(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) if error.code().is_some_and(|code| code == "1") => {
                error.message().contains("duplicate column name")
            }
            _ => self.is_of(&[], &["42S21"]),
        }
    }

    /// Whether the rows caused the failure: written again, they would be refused again.
    pub(crate) fn is_about_rows(&self) -> bool {
        // SQLite: TOOBIG, CONSTRAINT, MISMATCH. SQLSTATE: data exceptions, constraints.
        self.is_of(&[18, 19, 20], &["22", "23"])
    }

    /// Whether waiting cannot help: the user's configuration has to change, or permissions have.
    pub(crate) fn is_final(&self) -> bool {
        // SQLite: PERM, READONLY, CANTOPEN, AUTH, NOTADB. SQLSTATE: rights, no such database, wrong names.
        matches!(self, Self::Later { .. } | Self::Earlier(_) | Self::Empty | Self::File(_))
            || self.is_of(&[3, 8, 14, 23, 26], &["28", "3D", "42"])
    }

    fn is_of(&self, sqlite: &[u32], classes: &[&str]) -> bool {
        let Some(code) = self.code() else { return false };
        match code.len() {
            5 => classes.iter().any(|class| code.starts_with(class)),
            _ => code.parse::<u32>().is_ok_and(|code| sqlite.contains(&(code & 0xff))),
        }
    }

    /// Converts it to the error of opening `url`.
    pub(crate) fn opening(self, url: &str) -> OpenError {
        let url = url.to_owned();
        match self {
            Self::Later { found, known } => OpenError::Later { url, found, known },
            other => OpenError::Refused { url, why: other.to_string() },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Later { found, .. } => format!("its schema has version {found}, of a later larder"),
            Self::Forgotten => "the row of this run is gone from 'writers'".to_owned(),
            Self::Refused(why) | Self::InUse(why) => why.clone(),
            Self::Earlier(found) => {
                format!(
                    "its schema has version {found}, of an earlier larder; larder serve brings it up to date"
                )
            }
            Self::Empty => "holds no statistics yet".to_owned(),
            Self::Slow(patience) => format!("no answer within {} s", patience.as_secs_f64()),
            Self::Database(sqlx::Error::Database(error)) => error.message().to_owned(),
            Self::Database(sqlx::Error::Io(error)) => cause(error),
            Self::File(error) if error.kind() == io::ErrorKind::NotFound => {
                "there is no such directory".to_owned()
            }
            Self::File(error) => cause(error),
            Self::Database(error) => error.to_string(),
        };
        f.write_str(&words.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_parts_of_sentences() {
        let refused = sqlx::Error::Io(io::Error::from_raw_os_error(111));
        let table = [
            (Failure::Database(refused), "connection refused"),
            (Failure::File(io::Error::from_raw_os_error(2)), "there is no such directory"),
            (Failure::File(io::Error::from_raw_os_error(13)), "permission denied"),
            (Failure::File(io::Error::other("it is a symbolic link")), "it is a symbolic link"),
        ];
        for (failure, words) in table {
            assert_eq!(failure.to_string(), words);
        }
    }
}
