//! The data of one service: rows with a version each, in its own database.

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

/// How much of a collection its page shows.
const LATEST: u32 = 20;

/// A service's database.
pub(super) struct Database {
    connection: Mutex<Connection>,
}

/// One of the things that are kept. What was removed leaves its number and its version.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) description: String,
    /// The user whose it is.
    pub(super) user: u32,
    pub(super) version: u64,
    pub(super) is_gone: bool,
}

/// What a write has made.
pub(super) struct Written {
    pub(super) id: u32,
    pub(super) version: u64,
    /// That of the collection.
    pub(super) collection: u64,
}

impl Database {
    /// Makes a database with `count` rows in a new file.
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

    /// The row of a number, if there ever was one.
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

    /// The collection's version, and the numbers and names of its latest members.
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

    /// Adds a member, of the user of that number.
    pub(super) fn add(&self, name: &str, description: &str, user: u32) -> Result<Option<Written>> {
        let sql = "INSERT INTO entities (name, description, user, version, gone) VALUES (?, ?, ?, 1, 0) \
                   RETURNING id, version";
        self.write(sql, params![name, description, user])
    }

    /// Gives a member other words; one that was removed is there again. `None` if there never was one.
    pub(super) fn replace(&self, id: u32, name: &str, description: &str) -> Result<Option<Written>> {
        let sql = "UPDATE entities SET name = ?, description = ?, gone = 0, version = version + 1 WHERE id = ? \
                   RETURNING id, version";
        self.write(sql, params![name, description, id])
    }

    /// Gives a member another description; `None` if there is none.
    pub(super) fn describe(&self, id: u32, description: &str) -> Result<Option<Written>> {
        let sql = "UPDATE entities SET description = ?, version = version + 1 WHERE id = ? AND gone = 0 \
                   RETURNING id, version";
        self.write(sql, params![description, id])
    }

    /// Removes a member; `None` if there is none.
    pub(super) fn remove(&self, id: u32) -> Result<Option<Written>> {
        let sql = "UPDATE entities SET gone = 1, version = version + 1 WHERE id = ? AND gone = 0 RETURNING id, version";
        self.write(sql, params![id])
    }

    fn write(&self, sql: &str, values: impl Params) -> Result<Option<Written>> {
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
        Ok(Some(Written { id, version, collection }))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic interrupted was rolled back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user whose the thing of a number is: another one than the user of that number, where there are several.
fn whose(id: u32, count: u32) -> u32 {
    id % count.max(1) + 1
}
