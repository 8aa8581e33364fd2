//! A connection to one of the three kinds of databases, and the differences between them.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Column as _, Connection as _, Executor as _, Row as _};

use crate::failure::Failure;

/// The driver's connection.
pub(crate) enum Link {
    Sqlite(SqliteConnection),
    Mysql(MySqlConnection),
    Postgres(PgConnection),
}

/// A connection on which each statement has a time limit.
pub(crate) struct Connection {
    link: Link,
    patience: Duration,
}

/// A value for a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'v> {
    Figure(Option<i64>),
    Text(&'v str),
}

/// A row, each value as text.
pub(crate) type Cells = Vec<Option<String>>;

/// The text in place of a value that is not text.
const BINARY: &str = "(binary)";

/// Runs the same expression on the different connection types of the drivers.
macro_rules! on_each {
    ($link:expr, $connection:ident => $body:expr) => {
        match $link {
            Link::Sqlite($connection) => $body,
            Link::Mysql($connection) => $body,
            Link::Postgres($connection) => $body,
        }
    };
}

impl Connection {
    pub(crate) fn new(link: Link, patience: Duration) -> Self {
        Self { link, patience }
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Runs one statement with values for its parameters; returns the number of rows that it wrote or changed.
    pub(crate) async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        let running = async {
            on_each!(&mut self.link, connection => {
                let mut query = sqlx::query(sql);
                for value in values {
                    query = match *value {
                        Value::Figure(figure) => query.bind(figure),
                        Value::Text(text) => query.bind(text),
                    };
                }
                query.execute(connection).await.map(|done| done.rows_affected())
            })
        };
        within(self.patience, running).await
    }

    /// Runs statements that have no values and no rows.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        let running = async {
            on_each!(&mut self.link, connection => connection.execute(sqlx::raw_sql(sql)).await.map(drop))
        };
        within(self.patience, running).await
    }

    /// Returns the rows of a query.
    pub(crate) async fn rows(&mut self, sql: &str) -> Result<Vec<Cells>, Failure> {
        let running = async {
            on_each!(&mut self.link, connection => {
                let rows = sqlx::raw_sql(sql).fetch_all(connection).await?;
                // For a query in the text protocol, the servers return every type as text.
                let cell = |row: &_, at| cell(sqlx::Row::try_get_unchecked(row, at));
                Ok(rows.iter().map(|row| (0..row.len()).map(|at| cell(row, at)).collect()).collect())
            })
        };
        within(self.patience, running).await
    }

    /// Returns the first number of the first row of a query; `None` where there is no row, or NULL.
    pub(crate) async fn number(&mut self, sql: &str) -> Result<Option<i64>, Failure> {
        let rows = self.rows(sql).await?;
        let cell = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        Ok(cell.and_then(|cell| cell.parse().ok()))
    }

    /// Returns the names of a query's columns. Fails if it is more than one statement.
    pub(crate) async fn columns(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        let running = async {
            on_each!(&mut self.link, connection => {
                let statement = connection.prepare(sql).await?;
                let columns = sqlx::Statement::columns(&statement);
                Ok(columns.iter().map(|column| column.name().to_owned()).collect())
            })
        };
        within(self.patience, running).await
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        let words = match self.link {
            // Otherwise the first write would fail if another connection wrote at that time.
            Link::Sqlite(_) => "BEGIN IMMEDIATE",
            Link::Mysql(_) | Link::Postgres(_) => "START TRANSACTION",
        };
        self.run(words).await
    }

    /// Begins a transaction that cannot write.
    pub(crate) async fn begin_to_read(&mut self) -> Result<(), Failure> {
        match self.link {
            // The file is open for reading only.
            Link::Sqlite(_) => self.run("BEGIN").await,
            Link::Mysql(_) => {
                // A change of the schema ends the transaction; then the mode of the session applies.
                self.run("SET SESSION TRANSACTION READ ONLY").await?;
                self.run("START TRANSACTION READ ONLY").await
            }
            Link::Postgres(_) => self.run("START TRANSACTION READ ONLY").await,
        }
    }

    /// Locks the schema, which only one connection changes at a time.
    pub(crate) async fn lock_schema(&mut self) -> Result<(), Failure> {
        match self.link {
            Link::Sqlite(_) => self.begin().await,
            Link::Mysql(_) => self.rows("SELECT GET_LOCK('larder_schema', 30)").await.map(drop),
            Link::Postgres(_) => {
                self.begin().await?;
                self.rows("SELECT pg_advisory_xact_lock(7811018)").await.map(drop)
            }
        }
    }

    pub(crate) async fn unlock_schema(&mut self) -> Result<(), Failure> {
        match self.link {
            Link::Sqlite(_) | Link::Postgres(_) => self.run("COMMIT").await,
            Link::Mysql(_) => self.rows("SELECT RELEASE_LOCK('larder_schema')").await.map(drop),
        }
    }

    /// Returns the bytes of a file that are in use; `None` for a server.
    pub(crate) async fn bytes(&mut self) -> Result<Option<i64>, Failure> {
        const SQL: &str = "SELECT (page_count - freelist_count) * page_size \
                           FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
        match self.link {
            Link::Sqlite(_) => self.number(SQL).await,
            Link::Mysql(_) | Link::Postgres(_) => Ok(None),
        }
    }

    /// Returns some unused pages of the file to the file system.
    pub(crate) async fn shrink(&mut self) -> Result<(), Failure> {
        match self.link {
            Link::Sqlite(_) => self.run("PRAGMA incremental_vacuum(1000)").await,
            Link::Mysql(_) | Link::Postgres(_) => Ok(()),
        }
    }

    /// Returns a statement of the schema in this database's dialect.
    pub(crate) fn translate(&self, statement: &str) -> String {
        let (serial, storage) = match self.link {
            Link::Sqlite(_) => ("INTEGER PRIMARY KEY", ""),
            Link::Mysql(_) => (
                "BIGINT AUTO_INCREMENT PRIMARY KEY",
                " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            ),
            // PostgreSQL allocates a thousand numbers at a time; numbers that a connection does not use are skipped.
            Link::Postgres(_) => ("BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1000) PRIMARY KEY", ""),
        };
        // In PostgreSQL, an error would end the transaction; MySQL and SQLite do not have this clause.
        let add_column = match self.link {
            Link::Postgres(_) => "ADD COLUMN IF NOT EXISTS",
            Link::Sqlite(_) | Link::Mysql(_) => "ADD COLUMN",
        };
        statement
            .replace("{serial}", serial)
            .replace("{storage}", storage)
            .replace("{add_column}", add_column)
    }

    /// Whether a server executes the statements, and not this process.
    pub(crate) fn is_apart(&self) -> bool {
        !matches!(self.link, Link::Sqlite(_))
    }

    /// Whether [`append`](Self::append) uses `COPY` instead of a statement with parameters.
    pub(crate) fn copies(&self) -> bool {
        matches!(self.link, Link::Postgres(_))
    }

    /// Adds rows to a table, as many as `values` contains for these columns.
    pub(crate) async fn append(
        &mut self,
        table: &str,
        columns: &[&str],
        values: &[Value<'_>],
    ) -> Result<(), Failure> {
        if let Link::Postgres(connection) = &mut self.link {
            let copying = async {
                let into = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
                let mut copy = connection.copy_in_raw(&into).await?;
                copy.send(copied(columns.len(), values).into_bytes()).await?;
                copy.finish().await.map(drop)
            };
            return within(self.patience, copying).await;
        }
        let sql = self.insert(table, columns, values.len() / columns.len());
        self.execute(&sql, values).await.map(drop)
    }

    fn insert(&self, table: &str, columns: &[&str], rows: usize) -> String {
        let mut sql = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
        for place in 0..rows * columns.len() {
            let before = match place % columns.len() {
                0 if place == 0 => "(",
                0 => "), (",
                _ => ", ",
            };
            sql.push_str(before);
            sql.push_str(&self.place(place + 1));
        }
        sql + ")"
    }

    /// Returns the parameter for the `number`th value of a statement; the first is 1.
    pub(crate) fn place(&self, number: usize) -> String {
        match self.link {
            Link::Sqlite(_) | Link::Mysql(_) => "?".to_owned(),
            Link::Postgres(_) => format!("${number}"),
        }
    }

    /// Returns an `INSERT` of `rows` rows; where a row with the same `key` exists, `sums` are added to it and
    /// `latest` replaced.
    pub(crate) fn upsert(&self, table: &str, upsert: &Upsert<'_>, rows: usize) -> String {
        let columns = [upsert.key, upsert.sums, upsert.latest].concat();
        let insert = self.insert(table, &columns, rows);
        let is_mysql = matches!(self.link, Link::Mysql(_));
        let new = |column| if is_mysql { format!("VALUES({column})") } else { format!("excluded.{column}") };
        let sums = upsert.sums.iter().map(|sum| format!("{sum} = {table}.{sum} + {}", new(sum)));
        let latest = upsert.latest.iter().map(|column| format!("{column} = {}", new(column)));
        let changes = sums.chain(latest).collect::<Vec<_>>().join(", ");
        match is_mysql {
            true => format!("{insert} ON DUPLICATE KEY UPDATE {changes}"),
            false => format!("{insert} ON CONFLICT ({}) DO UPDATE SET {changes}", upsert.key.join(", ")),
        }
    }

    /// Closes the connection, so that SQLite completes its file.
    pub(crate) async fn close(self) {
        // The result does not matter: no writes are pending.
        let _ = within(self.patience, async { on_each!(self.link, connection => connection.close().await) })
            .await;
    }
}

/// The columns of a table whose rows are added up.
pub(crate) struct Upsert<'c> {
    pub(crate) key: &'c [&'c str],
    pub(crate) sums: &'c [&'c str],
    pub(crate) latest: &'c [&'c str],
}

/// Returns rows in the format of PostgreSQL's `COPY`: a line for each, with tabs between the values. This
/// costs the server less than an `INSERT` of the same values.
fn copied(columns: usize, values: &[Value<'_>]) -> String {
    let mut lines = String::with_capacity(values.len() * 12);
    for row in values.chunks(columns) {
        for (place, value) in row.iter().enumerate() {
            if place > 0 {
                lines.push('\t');
            }
            match *value {
                Value::Figure(Some(figure)) => lines.push_str(&figure.to_string()),
                Value::Figure(None) => lines.push_str("\\N"),
                Value::Text(text) => escape(text, &mut lines),
            }
        }
        lines.push('\n');
    }
    lines
}

fn escape(text: &str, to: &mut String) {
    for char in text.chars() {
        match char {
            '\\' => to.push_str("\\\\"),
            '\t' => to.push_str("\\t"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            char => to.push(char),
        }
    }
}

/// Returns the result of `work`, which takes as long as `patience` at most. The driver panics at some malformed answers of a
/// server: then the connection has failed, as one that was lost.
pub(crate) async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Failure> {
    let mut work = pin!(work);
    let work = poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        let malformed = |_| Poll::Ready(Err(sqlx::Error::Protocol("a malformed answer".to_owned())));
        polled.unwrap_or_else(malformed)
    });
    match tokio::time::timeout(patience, work).await {
        Ok(done) => done.map_err(Failure::from),
        Err(_) => Err(Failure::Slow(patience)),
    }
}

fn cell(value: Result<Option<String>, sqlx::Error>) -> Option<String> {
    value.unwrap_or_else(|_| Some(BINARY.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Value, copied};

    #[test]
    fn a_row_is_a_line_whatever_its_texts_have() {
        let values =
            [Value::Text("a\tb\\N\nc\rd"), Value::Figure(None), Value::Text(""), Value::Figure(Some(-7))];
        assert_eq!(copied(2, &values), "a\\tb\\\\N\\nc\\rd\t\\N\n\t-7\n");
    }
}
