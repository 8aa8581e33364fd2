//! The regular upkeep of the tiers, on a thread that may wait for disks. It opens directories, makes their contents
//! durable, writes snapshots for the next start, and removes the entries that the [schedule](crate::base::schedule)
//! selects.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Zoned;
use larder_semantics::freshness::Freshness;
use larder_store::disks::{Event, EventHandler, OpenError};
use larder_store::{PruneTotals, Store};
use serde::Serialize;

use crate::base::clock;
use crate::base::counted::counted;
use crate::base::error::{Error, cause};
use crate::base::schedule::{Schedule, is_spent};
use crate::flow::worker::ProcessState;

/// How long a start waits until the directories are open. Until then their contents are not found.
const PATIENCE: Duration = Duration::from_millis(500);
/// The interval of the checks whether a task is due.
const TICK: Duration = Duration::from_millis(200);
/// The interval of the attempts to open a directory that could not be used.
const RETRY: Duration = Duration::from_secs(1);
/// The interval at which stored data is made durable.
const SYNC: Duration = Duration::from_secs(10);
/// The interval of the snapshots, which record where each object is.
const SNAPSHOT: Duration = Duration::from_secs(300);

/// The thread that maintains the tiers.
pub struct Upkeep {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

counted! {
    /// Counts of the schedule's work, as `/stats` shows them.
    #[derive(Debug, Serialize)]
    pub struct MaintenanceReport, ScheduleCounts {
        /// Passes over all objects.
        runs,
        /// Objects examined.
        looked,
        /// Objects removed because they had been stale for too long.
        expired,
        /// Objects removed because they had not been requested for too long.
        unused,
        /// Times that all objects were removed.
        cleared,
    }
}

impl Upkeep {
    /// Opens the directories, and starts the upkeep of the tiers. With `turn`, another process uses the directories until
    /// a message arrives or the sender is dropped; this does not wait for it. Errors: a directory that cannot become
    /// usable by itself: its path is wrong. The proxy serves without directories that fail for other reasons, and tries
    /// to open them again.
    pub fn start(
        shared: &Arc<ProcessState>,
        done: &Arc<ScheduleCounts>,
        turn: Option<Receiver<()>>,
    ) -> Result<Self, Error> {
        let (end, told) = channel();
        let (first, tried) = channel();
        let keeper = Keeper {
            shared: Arc::clone(shared),
            done: Arc::clone(done),
            tell: Arc::new(log),
            said: Vec::new(),
        };
        let is_first = turn.is_none();
        let work = move || {
            if turn.is_none_or(|turn| has_turn(&turn, &told)) {
                keeper.run(&told, &first);
            }
        };
        let thread = thread::Builder::new().name("upkeep".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::new("cannot start the maintenance thread", error))?;
        if !is_first {
            return Ok(Self { end, thread });
        }
        match tried.recv_timeout(PATIENCE) {
            Ok(Some(error)) => Err(error),
            Ok(None) | Err(_) => Ok(Self { end, thread }),
        }
    }

    /// Makes all data durable and writes a snapshot. Waits for the disks.
    pub fn finish(self) {
        drop(self.end);
        // The thread has reported a panic itself.
        let _ = self.thread.join();
    }
}

struct Keeper {
    shared: Arc<ProcessState>,
    done: Arc<ScheduleCounts>,
    tell: EventHandler,
    /// The errors that were logged, by directory.
    said: Vec<(PathBuf, String)>,
}

/// The time of the last run of a task.
struct LastRun(Instant);

impl LastRun {
    fn is_due(&mut self, every: Duration) -> bool {
        let is_due = self.0.elapsed() >= every;
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}

/// Returns true once it is this process's turn, or false when the process ends before that.
fn has_turn(turn: &Receiver<()>, told: &Receiver<()>) -> bool {
    while matches!(turn.recv_timeout(TICK), Err(RecvTimeoutError::Timeout)) {
        if told.try_recv() == Err(TryRecvError::Disconnected) {
            return false;
        }
    }
    true
}

impl Keeper {
    fn run(mut self, told: &Receiver<()>, first: &Sender<Option<Error>>) {
        // The caller of `start` may have stopped waiting.
        if let Err(SendError(Some(error))) = first.send(self.open()) {
            tracing::error!("{error}; serving without that disk cache");
        }
        let last = || LastRun(Instant::now());
        let (mut retry, mut sync, mut snapshot, mut look, mut since) =
            (last(), last(), last(), last(), Zoned::now());
        while matches!(told.recv_timeout(TICK), Err(RecvTimeoutError::Timeout)) {
            if retry.is_due(RETRY) {
                let _ = self.open();
            }
            // Failures have been reported as events.
            if sync.is_due(SYNC) {
                let _ = self.sync();
            }
            if snapshot.is_due(SNAPSHOT) {
                let _ = self.store().disks.snapshot();
            }
            let schedule = self.shared.plan().settings.schedule.clone();
            if schedule.looks_through() && look.is_due(schedule.every) {
                self.look_through(&schedule, told);
            }
            self.clear_if_due(&schedule, &mut since);
        }
        let disks = &self.store().disks;
        if let Err(error) = self.sync().and_then(|()| disks.snapshot()) {
            tracing::warn!(
                "the disk cache was not written down; its records will be read at the next start: {}",
                cause(&error)
            );
        }
    }

    /// Makes all data durable, and then writes down which purges of other nodes it includes.
    fn sync(&self) -> io::Result<()> {
        let invalidations = self.shared.cluster.as_ref().map(|cluster| &cluster.invalidations);
        let place =
            invalidations.map(|invalidations| (invalidations, invalidations.follower.borrow().clone()));
        self.store().disks.sync()?;
        place.map_or(Ok(()), |(invalidations, place)| invalidations.positions.write(&place))
    }

    fn store(&self) -> &Store {
        &self.shared.cache.store
    }

    /// Opens the directories that are not open yet. Returns an error that will not go away by itself.
    fn open(&mut self) -> Option<Error> {
        let mut hopeless = None;
        let shared = Arc::clone(&self.shared);
        for drive in shared.cache.store.disks.drives() {
            if drive.disk().is_some() {
                continue;
            }
            let path = drive.path();
            let Err(error) = drive.open(&self.tell) else {
                self.said.retain(|(of, _)| of != path);
                tracing::info!("disk cache in {} is open", path.display());
                continue;
            };
            let text = error.to_string();
            if is_hopeless(&error) {
                hopeless = Some(Error::new("cannot start", &text));
            } else if !self.said.iter().any(|(of, said)| (of.as_path(), said) == (path, &text)) {
                tracing::error!("{text}; serving without that disk cache, and trying again");
                self.said.push((path.to_owned(), text));
            }
        }
        hopeless
    }

    /// Removes the entries that are due, in memory and on the disks.
    fn look_through(&self, schedule: &Schedule, told: &Receiver<()>) {
        let (now, done) = (clock::now(), &*self.done);
        let seconds = |patience: Duration| patience.as_secs().min(u64::from(u32::MAX)) as u32;
        let unused = schedule.unused.map(|patience| now.saturating_sub(seconds(patience)));
        let spent = |freshness: &Freshness| {
            schedule.expired.is_some_and(|patience| is_spent(freshness, now, patience.as_secs()))
        };
        let mut go_on = || matches!(told.try_recv(), Err(TryRecvError::Empty));
        let pruned = self.store().prune(&spent, unused, schedule.rate, &mut go_on);
        for (counter, count) in [
            (&done.runs, 1),
            (&done.looked, pruned.looked),
            (&done.expired, pruned.spent),
            (&done.unused, pruned.unused),
        ] {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        let PruneTotals { looked, spent, unused } = pruned;
        tracing::info!("checked {looked} objects, as scheduled: {spent} expired, {unused} unused");
    }

    fn clear_if_due(&self, schedule: &Schedule, since: &mut Zoned) {
        let now = Zoned::now();
        let due =
            schedule.everything.as_ref().and_then(|times| times.next(since)).is_some_and(|at| at <= now);
        *since = now;
        if due {
            self.shared.cache.fills.purge_all();
            self.done.cleared.fetch_add(1, Ordering::Relaxed);
            tracing::info!("all stored responses were removed, as scheduled");
        }
    }
}

fn is_hopeless(error: &OpenError) -> bool {
    use io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied};
    match error {
        OpenError::Io { error, .. } => {
            matches!(error.kind(), AlreadyExists | NotADirectory | NotFound | PermissionDenied)
        }
        OpenError::TooSmall { .. } => true,
        OpenError::InUse { .. } | OpenError::Future { .. } => false,
    }
}

fn log(path: &Path, event: Event) {
    let path = path.display();
    match event {
        Event::Scanned { .. } | Event::Resumed => tracing::info!("{path}: {event}"),
        _ => tracing::warn!("{path}: {event}"),
    }
}
