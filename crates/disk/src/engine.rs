//! The writing thread: only it appends, cleans, and publishes objects.

mod streams;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use larder_words::cause;

use crate::event::Event;
use crate::full::{Ceiling, is_full};
use crate::log::{Class, Log};
use crate::queue::Command;
use crate::record::{RecordKind, RecordPrefix};
use crate::shared::{DiskState, ScanRemovals};
use crate::snapshot::{SegmentSummary, Snapshot};
use streams::Stream;

/// Consecutive failures after which writing is paused.
const PATIENCE: u32 = 3;
/// The most removals that may wait for a failing disk; beyond, everything is removed instead.
const MOST_OWED: usize = 1 << 16;
/// More segments than a crash can make disappear: names are synced before any segment is removed.
const LOST_NAMES: u64 = 1 << 16;
/// The interval at which an idle thread checks for waiting work.
const TICK: Duration = Duration::from_secs(1);
/// The least time between two reports that the disk is full.
const TELL: Duration = Duration::from_secs(60);

pub(crate) struct Engine {
    pub(crate) shared: Arc<DiskState>,
    pub(crate) log: Log,
    pub(crate) streams: HashMap<u64, Stream>,
    next_serial: u64,
    pub(crate) ceiling: Ceiling,
    /// The time of the last report that the disk is full, and whether no object was stored since.
    told_full: Option<Instant>,
    is_told_full: bool,
    failures: u32,
    paused_until: Option<Instant>,
    pause: Duration,
    owed: Vec<(RecordKind, u64)>,
    /// Marks that were written and may not be durable: after a failed sync their state is unknown.
    marked: Vec<(RecordKind, u64)>,
}

impl Engine {
    pub(crate) fn new(shared: Arc<DiskState>, next_number: u32, pause: Duration) -> Self {
        Self {
            log: Log::new(Arc::clone(&shared), next_number),
            ceiling: Ceiling::new(shared.segment, pause),
            told_full: None,
            is_told_full: false,
            shared,
            streams: HashMap::new(),
            next_serial: (u64::from(next_number) + LOST_NAMES) << 32,
            failures: 0,
            paused_until: None,
            pause,
            owed: Vec::new(),
            marked: Vec::new(),
        }
    }

    /// Runs until it receives a stop command; no caller waits for it afterwards.
    pub(crate) fn run(mut self) {
        loop {
            let command = self.shared.queue.next(TICK);
            self.end_pause();
            self.look_for_space();
            match command {
                Some(Command::Stop) => return,
                Some(command) => self.obey(command),
                None => {}
            }
            self.settle();
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Piece { ticket, bytes, is_last } => self.take_piece(&ticket, &bytes, is_last),
            Command::Abort(id) => self.abort(id),
            Command::Remove(hash) => {
                // An object published since is older than the mark will be, and would not survive a crash.
                self.shared.index.remove(hash);
                self.owe_removal(hash);
            }
            Command::Clear => self.clear(),
            // The caller may have stopped waiting.
            Command::Sync(reply) => drop(reply.send(self.sync())),
            Command::Capture(reply) => drop(reply.send(self.capture())),
            Command::Fit => drop(self.make_room(0)),
            Command::Stop => {}
        }
    }

    /// Returns the next serial. Serials keep pace with the segments' numbers, so that a start derives an
    /// unused serial from the names alone.
    pub(crate) fn serial(&mut self) -> u64 {
        let serial = self.next_serial.max(u64::from(self.log.next_number()) << 32);
        self.next_serial = serial + 1;
        serial
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until.is_some()
    }

    /// Records that a mark has to be written for the removed object of `hash`.
    pub(crate) fn owe_removal(&mut self, hash: u64) {
        self.owed.push((RecordKind::Removal, hash));
    }

    /// Records the result of a write.
    pub(crate) fn note(&mut self, name: &str, result: &io::Result<()>) {
        match result {
            Ok(()) => {
                if self.failures >= PATIENCE {
                    self.shared.tell(Event::Resumed);
                }
                self.failures = 0;
            }
            Err(error) => {
                self.shared.counts.write_errors.add(1);
                if self.failures == 0 {
                    self.shared.tell(Event::WriteFailed { name: name.into(), why: cause(error) });
                }
                self.failures = self.failures.saturating_add(1);
                if is_full(error) {
                    self.ceiling.lower(self.taken(), Instant::now());
                    self.lacks_space();
                }
                if self.failures >= PATIENCE {
                    self.begin_pause();
                }
            }
        }
    }

    /// Returns the bytes of the segments that count.
    fn taken(&self) -> u64 {
        self.shared.segments.occupied().saturating_sub(self.shared.segments.held())
    }

    /// Checks periodically whether a full disk has space again.
    fn look_for_space(&mut self) {
        let now = Instant::now();
        if !self.ceiling.is_due(now) {
            return;
        }
        self.ceiling.look(self.shared.files.space(), (self.taken(), self.shared.limit()), now);
        if !self.ceiling.is_low() {
            self.has_space();
        }
    }

    /// Records that an object was stored, or could be.
    pub(crate) fn has_space(&mut self) {
        self.shared.is_full.store(false, Ordering::Relaxed);
        if std::mem::take(&mut self.is_told_full) {
            self.shared.tell(Event::Resumed);
        }
    }

    /// Records that an object found no space on the disk.
    pub(crate) fn lacks_space(&mut self) {
        self.shared.is_full.store(true, Ordering::Relaxed);
        if self.told_full.is_none_or(|told| told.elapsed() >= TELL) {
            (self.told_full, self.is_told_full) = (Some(Instant::now()), true);
            self.shared.tell(Event::Full);
        }
    }

    fn begin_pause(&mut self) {
        self.paused_until = Some(Instant::now() + self.pause);
        if !self.shared.is_paused.swap(true, Ordering::Relaxed) && self.failures == PATIENCE {
            self.shared.tell(Event::Paused);
        }
    }

    fn end_pause(&mut self) {
        if self.paused_until.is_some_and(|until| Instant::now() >= until) {
            self.paused_until = None;
            self.shared.is_paused.store(false, Ordering::Relaxed);
        }
    }

    /// Writes the marks of removed objects; marks that fail wait.
    fn settle(&mut self) {
        if self.owed.len() > MOST_OWED {
            self.forget_all();
            self.owed = vec![(RecordKind::Clearing, 0)];
        }
        while !self.is_paused()
            && let Some(&(kind, _)) = self.owed.first()
        {
            // One write contains many marks.
            let count = match kind {
                RecordKind::Clearing => 1,
                _ => self.owed.iter().take(256).take_while(|owed| owed.0 == kind).count(),
            };
            let hashes = self.owed[..count].iter().map(|owed| owed.1).collect::<Vec<_>>();
            if !self.mark(kind, &hashes) {
                return;
            }
            self.marked.extend(self.owed.drain(..count));
            if self.marked.len() > MOST_OWED && !self.sync_log() {
                return;
            }
        }
    }

    fn mark(&mut self, kind: RecordKind, hashes: &[u64]) -> bool {
        let marks =
            hashes.iter().map(|&hash| RecordPrefix::mark(kind, self.serial(), hash)).collect::<Vec<_>>();
        self.append_marks(Class::New, &marks)
    }

    /// Writes each mark twice, so that a flipped bit cannot undo a removal.
    pub(crate) fn append_marks(&mut self, class: Class, marks: &[RecordPrefix]) -> bool {
        let twice = marks.iter().map(|mark| [mark.encode(&self.shared.secret); 2]);
        let bytes = twice.flatten().flatten().collect::<Vec<u8>>();
        // On a full disk, marks go into the reserved free space.
        if class == Class::New && !self.ceiling.is_low() && !self.make_room(bytes.len() as u64) {
            return false;
        }
        let Some(mut open) = self.open(class) else { return false };
        let written = self.log.write(&open, &bytes, open.at);
        if !self.wrote(&open, &written) {
            return false;
        }
        open.at += bytes.len() as u64;
        open.segment.marks.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.give_back(open);
        true
    }

    pub(crate) fn give_back(&mut self, open: crate::log::OpenSegment) {
        let name = open.segment.name.clone();
        if let Err(error) = self.log.give_back(open) {
            self.note(&name, &Err(error));
        }
    }

    /// Notes the result of a write, and appends no more to a segment after a failed one. Returns whether it succeeded.
    pub(crate) fn wrote(&mut self, open: &crate::log::OpenSegment, written: &io::Result<()>) -> bool {
        self.note(&open.segment.name, written);
        if written.is_err() {
            // Reads will detect bytes that are not durable.
            let _ = self.log.seal(&open.segment);
        }
        written.is_ok()
    }

    fn forget_all(&mut self) {
        self.shared.writing.cancel_all();
        self.shared.index.clear();
        let ids: Vec<u64> = self.streams.keys().copied().collect();
        ids.into_iter().for_each(|id| self.abort(id));
        let mut late = self.shared.late();
        if !matches!(*late, ScanRemovals::Known) {
            *late = ScanRemovals::Cleared;
        }
    }

    fn clear(&mut self) {
        self.forget_all();
        self.owed = vec![(RecordKind::Clearing, 0)];
        // All current segments are removed; the mark, in a new segment, covers them even if the files reappear.
        let _ = self.log.seal_idle();
        let old = self.shared.segments.all();
        self.settle();
        if !self.owed.is_empty() || !self.sync_log() {
            return;
        }
        for segment in old {
            if let Err(error) = self.log.retire(&segment) {
                self.note(&segment.name, &Err(error));
            }
        }
        self.sync_log();
    }

    /// Makes the written bytes durable; if that fails, marks whose state is unknown are written again.
    pub(crate) fn sync_log(&mut self) -> bool {
        let synced = self.log.sync();
        match &synced {
            Ok(()) => self.marked.clear(),
            Err(_) => {
                self.owed.append(&mut self.marked);
                self.note("segment", &synced);
            }
        }
        synced.is_ok()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.settle();
        if !self.owed.is_empty() {
            return Err(io::Error::other("removals could not be written"));
        }
        if self.sync_log() { Ok(()) } else { Err(io::Error::other("segments could not be made durable")) }
    }

    /// Returns the current index: it includes everything written so far.
    fn capture(&mut self) -> Snapshot {
        self.settle();
        let mut up_to: HashMap<u32, u64> = self.log.published().collect();
        up_to.extend(self.streams.values().map(Stream::published));
        let known = |segment: &Arc<crate::segment::Segment>| SegmentSummary {
            number: segment.number,
            up_to: up_to.get(&segment.number).copied().unwrap_or_else(|| segment.end()),
            oldest: segment.oldest(),
            marks: segment.marks.load(Ordering::Relaxed),
        };
        let segments = self.shared.segments.all().iter().map(known).collect();
        let mut objects = Vec::new();
        self.shared.index.for_each(|hash, place| objects.push((hash, place.clone())));
        Snapshot { next_segment: self.log.next_number(), next_serial: self.next_serial, segments, objects }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}
