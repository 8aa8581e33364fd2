//! The side of the database that requests see.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::failure::OpenError;
use crate::figures::Figures;
use crate::options::Options;
use crate::shared::Shared;
use crate::target::Target;
use crate::transaction::{Content, Transaction};
use crate::writer::Writer;

/// More than anybody waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Writes requests to a database, behind their backs.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Opens the database at `url` (`sqlite:PATH`, `mysql://..`, `mariadb://..`, `postgres://..`), makes its
    /// tables where they are missing, and starts the thread that writes. Waits for the database, at most
    /// [`Options::patience`] for each answer.
    ///
    /// A server that cannot be reached is no error: it is tried again, and rows wait.
    ///
    /// # Errors
    /// Where waiting will not help: the URL is wrong, the database refuses, or its schema is of a later version.
    pub fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let target = Target::parse(url)?;
        let shown = target.url.clone();
        let shared = Arc::new(Shared::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OpenError::System)?;
        let writer = Writer::new(target, &options, Arc::clone(&shared));
        let (opened, answer) = mpsc::channel();
        let work = move || runtime.block_on(writer.run(&shown, opened));
        let thread = thread::Builder::new().name("stats".to_owned()).spawn(work);
        let thread = thread.map_err(OpenError::System)?;
        let gone = |_| Err(OpenError::System(std::io::Error::other("it ended at once")));
        answer.recv().unwrap_or_else(gone)?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Records a request. It takes no longer than copying the row into a queue; if that is full, the request is
    /// counted as dropped.
    pub fn record(&self, mut transaction: Transaction) {
        transaction.bound();
        self.shared.put(transaction);
    }

    /// Records all that is in the cache of this instance, in place of what was recorded before. Does not wait;
    /// of snapshots that come faster than they are written, the latest counts.
    pub fn record_contents(&self, contents: Vec<Content>) {
        self.shared.put_contents(contents);
    }

    /// What was counted until now.
    pub fn figures(&self) -> Figures {
        self.shared.figures()
    }

    /// Writes what waits, for at most `limit`, and ends. What is not written by then counts as dropped, as does
    /// what is recorded later.
    pub fn close(&self, limit: Duration) -> Figures {
        self.shared.close(Instant::now() + limit.min(FOREVER));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has written what it could.
            let _ = thread.join();
            self.shared.shut();
        }
        self.figures()
    }
}

impl Drop for Recorder {
    /// As [`Recorder::close`] without time: what waits is dropped.
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}
