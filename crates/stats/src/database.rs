//! Reads a database that a recorder has written, or still writes.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::connection::{Cells, Connection};
use crate::failure::{Failure, OpenError};
use crate::queries::{self, Counts, Dimension, Group, Measure};
use crate::schema;
use crate::target::Target;

/// The time limit for connecting; queries have none in practice.
const PATIENCE: Duration = Duration::from_secs(10);
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The first words of a user's statement that are allowed. A read-only transaction does not prevent all harm:
/// some statements stop a server.
const QUERIES: &[&str] = &["select", "with", "values", "show", "explain", "describe"];

/// A connection for reading. Its methods block until the database answers, and must not be called in the
/// threads of an asynchronous runtime.
pub struct Database {
    runtime: Runtime,
    connection: Connection,
}

/// The result of a query, each value in the database's text form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows; `None` stands for NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// The error of a query: the database's message, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QueryError(String);

impl From<Failure> for QueryError {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

impl Database {
    /// Connects to the database at `url` (as in [`crate::Recorder::open`]). It is neither changed nor created.
    ///
    /// # Errors
    /// Where the database does not exist, has no statistics, or has those of a later version.
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

    /// Returns the sums of all requests since `since`, in milliseconds since 1970.
    ///
    /// Where the rows of requests do not reach back so far any more, the count begins with the hour of `since`.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn totals(&mut self, since: u64) -> Result<Counts, QueryError> {
        Ok(self.groups(&[], since)?.pop().map(|group| group.counts).unwrap_or_default())
    }

    /// Returns the same sums for each value of one property: those with the most requests first, hours in order.
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

    /// Returns the same sums for each minute, in order, as far as the rows of requests reach back. Names are
    /// the starts of the minutes in milliseconds since 1970; minutes without a request are omitted.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn by_minute(&mut self, since: u64) -> Result<Vec<Group>, QueryError> {
        let rows = self.read(&queries::minutes(since))?;
        Ok(queries::groups(1, rows))
    }

    /// Returns the `limit` URLs with the most hits, misses, bytes or time spent at origins since `since`, in
    /// milliseconds since 1970, as far as the rows of requests reach back.
    ///
    /// # Errors
    /// Where the database fails.
    pub fn top(&mut self, measure: Measure, since: u64, limit: u32) -> Result<Vec<Group>, QueryError> {
        let rows = self.read(&queries::top(measure, since, limit))?;
        Ok(queries::groups(1, rows))
    }

    /// Runs one statement of the user, which cannot change data.
    ///
    /// # Errors
    /// Where it is not one statement, would change data, or the database does not accept it.
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
            // The user's statement may have ended the transaction itself.
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

/// Runs one statement. The driver accepts several statements at once where it does not prepare them, so this
/// prepares first.
async fn table(connection: &mut Connection, sql: &str) -> Result<Table, Failure> {
    let columns = connection.columns(sql).await?;
    let rows = connection.rows(sql).await?;
    Ok(Table { columns, rows })
}
