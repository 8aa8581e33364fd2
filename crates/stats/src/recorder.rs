//! The interface for the threads that serve requests.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::failure::OpenError;
use crate::figures::Figures;
use crate::options::Options;
use crate::rank;
use crate::shared::Shared;
use crate::tally::Tally;
use crate::target::Target;
use crate::transaction::{Content, Transaction};
use crate::writer::Writer;

/// Longer than any caller waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Writes requests to a database, behind their backs.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    rate: u32,
}

impl Recorder {
    /// Opens the database at `url` (`sqlite:PATH`, `mysql://..`, `mariadb://..`, `postgres://..`), makes its
    /// tables where they are missing, and starts the thread that writes. Waits for the database, but no longer than
    /// [`Options::opening`].
    ///
    /// A server that cannot be reached is no error: it is tried again, and rows wait. So is one that refuses when nobody
    /// waits any more.
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
        // It holds nothing: an answer is taken, or its sender knows that it was not.
        let (opened, answer) = mpsc::sync_channel(0);
        let work = move || {
            rank::stand_back();
            runtime.block_on(writer.run(&shown, opened));
        };
        let thread = thread::Builder::new().name("stats".to_owned()).spawn(work);
        let thread = thread.map_err(OpenError::System)?;
        match answer.recv_timeout(options.opening) {
            Ok(answer) => answer?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(OpenError::System(std::io::Error::other("it ended at once")));
            }
        }
        Ok(Self { shared, thread: Mutex::new(Some(thread)), rate: options.rate })
    }

    /// Records a request. It takes no longer than copying the row into a queue; if that is full, the request is
    /// counted as dropped.
    pub fn record(&self, mut transaction: Transaction) {
        transaction.bound();
        self.shared.put(transaction);
    }

    /// A place where one thread sums requests that need no rows of their own.
    pub fn tally(&self) -> Tally {
        self.shared.tally(self.rate)
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
    /// what is recorded later. Called again meanwhile, from another thread, it may shorten the time, and does not wait.
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
