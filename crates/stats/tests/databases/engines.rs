//! The kinds of databases, and the creation of each.

use std::sync::atomic::{AtomicU32, Ordering};

use larder_testkit::databases::Server;
use tempfile::TempDir;

/// A kind of database, and how to have one of it.
pub(crate) trait Engine {
    /// Returns the URL of an empty database.
    fn fresh(&self) -> String;

    /// Changes the database without a recorder.
    fn alter(&self, url: &str, sql: &str);
}

/// Files in a folder.
pub(crate) struct Sqlite {
    folder: TempDir,
    made: AtomicU32,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), made: AtomicU32::new(0) }
    }
}

impl Engine for Sqlite {
    fn fresh(&self) -> String {
        let name = format!("{}.db", self.made.fetch_add(1, Ordering::Relaxed));
        format!("sqlite:{}", self.folder.path().join(name).display())
    }

    fn alter(&self, url: &str, sql: &str) {
        let path = url.strip_prefix("sqlite:").expect("a path");
        rusqlite::Connection::open(path).expect("a file").execute_batch(sql).expect("done");
    }
}

impl Engine for Server {
    fn fresh(&self) -> String {
        self.make()
    }

    fn alter(&self, url: &str, sql: &str) {
        self.run(url, sql);
    }
}
