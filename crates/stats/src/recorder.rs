//! The interface for the threads that serve requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::failure::OpenError;
use crate::figures::Figures;
use crate::options::Options;
use crate::rank;
use crate::shared::WriterState;
use crate::tally::Tally;
use crate::target::Target;
use crate::transaction::{Content, Prediction, Transaction};
use crate::writer::Writer;

/// A time that exceeds every caller's wait.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Time for the thread to end once its time to write is over. It may be busy with what a server had it compute.
const GRACE: Duration = Duration::from_secs(1);

/// Writes requests to a database, without delaying them.
pub struct Recorder {
    shared: Arc<WriterState>,
    /// Disconnected when the writing thread has ended.
    thread: Mutex<Option<Receiver<Infallible>>>,
    rate: u32,
}

impl Recorder {
    /// Opens the database at `url` (`sqlite:PATH`, `mysql://..`, `mariadb://..`, `postgres://..`), creates missing
    /// tables, and starts the writing thread. Waits for the database, but no longer than [`Options::opening`].
    ///
    /// A server that cannot be reached is not an error: the writing thread tries again, and rows wait. The
    /// same holds for a server that refuses after this call has stopped waiting.
    ///
    /// # Errors
    /// Where waiting cannot help: the URL is wrong, the database refuses, or its schema has a later version.
    pub fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let target = Target::parse(url)?;
        let shown = target.url.clone();
        let shared = Arc::new(WriterState::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OpenError::System)?;
        let writer = Writer::new(target, &options, Arc::clone(&shared));
        // A channel without a buffer: the sender knows whether its answer was received.
        let (opened, answer) = mpsc::sync_channel(0);
        let (ends, ended) = mpsc::channel();
        let work = move || {
            let _ends = ends;
            rank::stand_back();
            runtime.block_on(writer.run(&shown, opened));
        };
        thread::Builder::new().name("stats".to_owned()).spawn(work).map_err(OpenError::System)?;
        match answer.recv_timeout(options.opening) {
            Ok(answer) => answer?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(OpenError::System(std::io::Error::other("it ended at once")));
            }
        }
        Ok(Self { shared, thread: Mutex::new(Some(ended)), rate: options.rate })
    }

    /// Records a request. This only copies the row into a queue; if that is full, the request is counted as dropped.
    pub fn record(&self, mut transaction: Transaction) {
        transaction.bound();
        self.shared.put(transaction);
    }

    /// Returns a tally, in which one thread sums requests that need no separate rows.
    pub fn tally(&self) -> Tally {
        self.shared.tally(self.rate)
    }

    /// Records the contents of this instance's cache, in place of the earlier snapshot. Does not wait; if
    /// snapshots arrive faster than they are written, only the latest is written.
    pub fn record_contents(&self, contents: Vec<Content>) {
        self.shared.put_contents(contents);
    }

    /// Adds predictions of this instance to those of the same hour. Does not wait; if many wait already, they are dropped.
    pub fn record_predictions(&self, predictions: Vec<Prediction>) {
        self.shared.put_predictions(predictions);
    }

    /// Returns the figures up to now.
    pub fn figures(&self) -> Figures {
        self.shared.figures()
    }

    /// Writes the waiting rows, for at most `limit`, and ends. Rows not written by then count as dropped, as
    /// do later ones. A call from another thread meanwhile may shorten the time, and does not wait.
    pub fn close(&self, limit: Duration) -> Figures {
        let limit = limit.min(FOREVER);
        self.shared.close(Instant::now() + limit);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A thread that panicked has ended, too. One that does not end is left behind.
            let _ = thread.recv_timeout(limit + GRACE);
            self.shared.shut();
        }
        self.figures()
    }
}

impl Drop for Recorder {
    /// Closes the recorder at once: waiting rows are dropped.
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}
