//! A database for writing: the connection opens when there is data to write, and again after a failure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::batch::Batch;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::options::{OpenCheck, Options, Retention};
use crate::rollup::{Routes, rollup};
use crate::row::{fitted, width};
use crate::target::Target;
use crate::transaction::{Content, Prediction};
use crate::{insert, retention, schema};

pub(crate) struct Store {
    target: Target,
    connection: Option<Connection>,
    instance: String,
    /// The identifier of this run of the program, and the number of the last batch begun.
    run: i64,
    batch: i64,
    patience: Duration,
    routes: Routes,
    keep: Retention,
    /// Set until it has succeeded once.
    may_open: Option<OpenCheck>,
}

impl Store {
    pub(crate) fn new(target: Target, options: &Options) -> Self {
        Self {
            target,
            connection: None,
            instance: fitted(&options.instance, width::NAME).into_owned(),
            run: fastrand::i64(0..),
            batch: 0,
            patience: options.patience,
            routes: Routes::new(options.routes),
            keep: options.keep,
            may_open: options.may_open.clone(),
        }
    }

    /// Connects and migrates the schema, unless that is done.
    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        if let Some(may_open) = &self.may_open {
            may_open().map_err(Failure::InUse)?;
            self.may_open = None;
        }
        if self.connection.is_none() {
            let mut connection = self.target.connect(self.patience).await?;
            schema::migrate(&mut connection).await?;
            insert::writer(&mut connection, &self.instance, self.run, now()).await?;
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// Whether the database may not be opened yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.may_open.is_some()
    }

    /// Assigns the next number to the batch that is about to be written, for all attempts.
    pub(crate) fn begin(&mut self) {
        self.batch += 1;
    }

    /// Writes the batch completely or not at all. After a failure it can be called again: no row is written twice.
    pub(crate) async fn write(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.in_transaction(async |own, connection| {
            if insert::is_first(connection, own.run, own.batch, now()).await? {
                insert::transactions(connection, &own.instance, batch.rows()).await?;
                let sums = rollup(batch.rows(), &mut own.routes);
                insert::hours(connection, &own.instance, &sums).await?;
            }
            Ok(())
        })
        .await
    }

    /// Replaces the snapshot of the cache's contents.
    pub(crate) async fn write_contents(&mut self, contents: &[Content]) -> Result<(), Failure> {
        self.in_transaction(async |own, to| insert::contents(to, &own.instance, contents).await).await
    }

    /// Adds predictions, completely or not at all, as [`write`](Self::write) does.
    pub(crate) async fn write_predictions(&mut self, predictions: &[Prediction]) -> Result<(), Failure> {
        self.in_transaction(async |own, connection| {
            if insert::is_first(connection, own.run, own.batch, now()).await? {
                insert::predictions(connection, &own.instance, predictions).await?;
            }
            Ok(())
        })
        .await
    }

    /// Writes completely or not at all. A connection on which that fails is not used again.
    async fn in_transaction(
        &mut self,
        write: impl AsyncFnOnce(&mut Self, &mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut connection = self.take().await?;
        connection.begin().await?;
        write(self, &mut connection).await?;
        connection.run("COMMIT").await?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Deletes some rows beyond the retention limits; returns true if there may be more.
    pub(crate) async fn tidy(&mut self) -> Result<bool, Failure> {
        let mut connection = self.take().await?;
        let more = retention::delete(&mut connection, &self.keep, now()).await?;
        self.connection = Some(connection);
        Ok(more)
    }

    /// Closes the connection cleanly.
    pub(crate) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    /// Takes the connection. The caller puts it back only after a success: after a failure its state is unknown.
    async fn take(&mut self) -> Result<Connection, Failure> {
        self.connect().await?;
        self.connection.take().ok_or(Failure::Empty)
    }
}

/// Returns milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
