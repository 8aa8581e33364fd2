//! Reads a database that a recorder wrote, or still writes.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::connection::{Cells, Connection};
use crate::failure::{Failure, OpenError};
use crate::queries::{self, Counts, Dimension, Group, Measure};
use crate::schema;
use crate::target::Target;

/// How long a connection may take; queries may take as long as they like.
const PATIENCE: Duration = Duration::from_secs(10);
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a user's own statement may begin with. What a database does not do within a transaction that only reads
/// is not the only thing that could be regretted: there are statements that end servers.
const QUERIES: &[&str] = &["select", "with", "values", "show", "explain", "describe"];

/// A connection to read through. Its methods wait for the database and must not be called from within an
/// asynchronous runtime's own threads.
pub struct Database {
    runtime: Runtime,
    connection: Connection,
}

/// What a query found, each value as the database writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows; nothing stands for NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Why a query has no answer: the database's words, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

impl From<Failure> for QueryError {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

impl Database {
    /// Connects to the database at `url` (as in [`crate::Recorder::open`]). It is not changed, nor made.
    ///
    /// # Errors
    /// Where there is none, it has no statistics, or those of a later version.
    pub fn open_read(url: &str) -> Result<Self, OpenError> {
        let target = Target::parse(url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OpenError::System)?;
        let connection = runtime.block_on(async {
            let mut connection = target.connect_to_read(PATIENCE).await?;
            schema::check(&mut connection).await?;
            connection.set_patience(NO_LIMIT);
            Ok(connection)
        });
        let connection = connection.map_err(|failure: Failure| failure.opening(&target.url))?;
        Ok(Self { runtime, connection })
    }

    /// All requests since `since`, in milliseconds since 1970.
    ///
    /// Where the rows of requests no longer reach back so far, the count begins with the hour of `since`.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn totals(&mut self, since: u64) -> Result<Counts, QueryError> {
        Ok(self.groups(&[], since)?.pop().map(|group| group.counts).unwrap_or_default())
    }

    /// The same by one property: those with the most requests first, hours in their order.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn by(&mut self, dimension: Dimension, since: u64) -> Result<Vec<Group>, QueryError> {
        let mut groups = self.groups(dimension.columns(), since)?;
        if dimension == Dimension::Hour {
            groups.sort_by_key(|group| group.name.parse::<u64>().unwrap_or_default());
        }
        Ok(groups)
    }

    /// The same by the minute, in their order, as far as the rows of requests reach back. Names are the milliseconds
    /// since 1970 of their beginnings; minutes without a request are left out.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn by_minute(&mut self, since: u64) -> Result<Vec<Group>, QueryError> {
        let rows = self.read(&queries::minutes(since))?;
        Ok(queries::groups(1, rows))
    }

    /// The `limit` URLs with the most hits, misses, bytes or time spent at origins since `since`, in milliseconds
    /// since 1970, as far as the rows of requests reach back.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn top(&mut self, measure: Measure, since: u64, limit: u32) -> Result<Vec<Group>, QueryError> {
        let rows = self.read(&queries::top(measure, since, limit))?;
        Ok(queries::groups(1, rows))
    }

    /// Runs one statement of the user's own, which cannot change anything.
    ///
    /// # Errors
    /// Where it is not one statement, would change something, or the database does not understand it.
    pub fn query(&mut self, sql: &str) -> Result<Table, QueryError> {
        let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        if !QUERIES.iter().any(|query| query.eq_ignore_ascii_case(word)) {
            let known = QUERIES.join(" ");
            return Err(QueryError(format!("not a query: '{word}'; known: {known}")));
        }
        let connection = &mut self.connection;
        self.runtime.block_on(async {
            connection.begin_to_read().await?;
            let table = table(connection, sql).await;
            // It may be what the user's statement did itself.
            let _ = connection.run("ROLLBACK").await;
            Ok(table?)
        })
    }

    fn groups(&mut self, columns: &[&str], since: u64) -> Result<Vec<Group>, QueryError> {
        let oldest = self.read("SELECT MIN(time) FROM transactions")?;
        let oldest = oldest.first().and_then(|row| queries::number(row, 0));
        let span = queries::Span::new(since, oldest);
        let rows = self.read(&queries::by(columns, span))?;
        Ok(queries::groups(columns.len(), rows))
    }

    fn read(&mut self, sql: &str) -> Result<Vec<Cells>, QueryError> {
        Ok(self.runtime.block_on(self.connection.rows(sql))?)
    }
}

/// The driver takes several statements at once where it does not prepare them; so it prepares them first.
async fn table(connection: &mut Connection, sql: &str) -> Result<Table, Failure> {
    let columns = connection.columns(sql).await?;
    let rows = connection.rows(sql).await?;
    Ok(Table { columns, rows })
}
