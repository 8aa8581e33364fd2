//! The data of one service: rows with versions, in a separate database.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Params, Result, Row as Found, params};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = OFF;
    CREATE TABLE entities (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        user INTEGER NOT NULL,
        version INTEGER NOT NULL,
        gone INTEGER NOT NULL
    );
    CREATE TABLE collection (version INTEGER NOT NULL);
    INSERT INTO collection VALUES (1);";

/// The maximum number of members that a collection's page shows.
const LATEST: u32 = 20;

/// A service's database.
pub(super) struct Database {
    connection: Mutex<Connection>,
}

/// A member. A removed one keeps its number and its version.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) description: String,
    /// The user to whom it belongs.
    pub(super) user: u32,
    pub(super) version: u64,
    pub(super) is_gone: bool,
}

pub(super) struct WriteResult {
    pub(super) id: u32,
    pub(super) version: u64,
    /// The version of the collection.
    pub(super) collection: u64,
}

impl Database {
    /// Creates a database with `count` rows in a new file.
    pub(super) fn create(file: &Path, kind: &str, count: u32) -> Result<Self> {
        let mut connection = Connection::open(file)?;
        connection.execute_batch(SCHEMA)?;
        let transaction = connection.transaction()?;
        for id in 1..=count {
            let description = format!("What there is to say of number {id} of all {kind}. ").repeat(12);
            transaction
                .prepare_cached("INSERT INTO entities VALUES (?, ?, ?, ?, 1, 0)")?
                .execute(params![id, format!("{kind} {id}"), description, whose(id, count)])?;
        }
        transaction.commit()?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Returns the row with this number, if it ever existed.
    pub(super) fn row(&self, id: u32) -> Result<Option<Row>> {
        let connection = self.lock();
        let mut statement = connection
            .prepare_cached("SELECT name, description, user, version, gone FROM entities WHERE id = ?")?;
        let row = |found: &Found<'_>| {
            Ok(Row {
                name: found.get(0)?,
                description: found.get(1)?,
                user: found.get(2)?,
                version: found.get(3)?,
                is_gone: found.get(4)?,
            })
        };
        statement.query_row([id], row).optional()
    }

    /// Returns the collection's version, and the numbers and names of its latest members.
    pub(super) fn latest(&self) -> Result<(u64, Vec<(u32, String)>)> {
        let mut connection = self.lock();
        let snapshot = connection.transaction()?;
        let version =
            snapshot.prepare_cached("SELECT version FROM collection")?.query_row([], |found| found.get(0))?;
        let members = snapshot
            .prepare_cached("SELECT id, name FROM entities WHERE gone = 0 ORDER BY id DESC LIMIT ?")?
            .query_map([LATEST], |found| Ok((found.get(0)?, found.get(1)?)))?
            .collect::<Result<_>>()?;
        Ok((version, members))
    }

    /// Adds a member that belongs to the user of that number.
    pub(super) fn add(&self, name: &str, description: &str, user: u32) -> Result<Option<WriteResult>> {
        let sql = "INSERT INTO entities (name, description, user, version, gone) VALUES (?, ?, ?, 1, 0) \
                   RETURNING id, version";
        self.write(sql, params![name, description, user])
    }

    /// Changes the name and description of a member. A removed member becomes visible again. Returns `None` if it never
    /// existed.
    pub(super) fn replace(&self, id: u32, name: &str, description: &str) -> Result<Option<WriteResult>> {
        let sql = "UPDATE entities SET name = ?, description = ?, gone = 0, version = version + 1 WHERE id = ? \
                   RETURNING id, version";
        self.write(sql, params![name, description, id])
    }

    /// Changes the description of a member. Returns `None` if it does not exist.
    pub(super) fn describe(&self, id: u32, description: &str) -> Result<Option<WriteResult>> {
        let sql = "UPDATE entities SET description = ?, version = version + 1 WHERE id = ? AND gone = 0 \
                   RETURNING id, version";
        self.write(sql, params![description, id])
    }

    /// Removes a member. Returns `None` if it does not exist.
    pub(super) fn remove(&self, id: u32) -> Result<Option<WriteResult>> {
        let sql = "UPDATE entities SET gone = 1, version = version + 1 WHERE id = ? AND gone = 0 RETURNING id, version";
        self.write(sql, params![id])
    }

    fn write(&self, sql: &str, values: impl Params) -> Result<Option<WriteResult>> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let written = transaction
            .prepare_cached(sql)?
            .query_row(values, |found| Ok((found.get(0)?, found.get(1)?)))
            .optional()?;
        let Some((id, version)) = written else { return Ok(None) };
        let collection = transaction
            .prepare_cached("UPDATE collection SET version = version + 1 RETURNING version")?
            .query_row([], |found| found.get(0))?;
        transaction.commit()?;
        Ok(Some(WriteResult { id, version, collection }))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // SQLite has rolled back a transaction that a panic interrupted.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the user to whom the member of a number belongs: a different number from the member's, if there are several
/// users.
fn whose(id: u32, count: u32) -> u32 {
    id % count.max(1) + 1
}
