//! Stored responses and what belongs to them, from the earlier process of an upgrade to its successor.
//!
//! `larder_store::handover` has the order of events. Here are the parts: the keys of hashes, memory files and slices of the tier
//! while the earlier process serves; at the cut the last changes and all [`state`](super::state); and then, in both directions,
//! what requests purge until the earlier process has ended.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use larder_store::handover::{self, MemoryImport, MemoryOffer, Piece, Taken};
use larder_store::{Generation, Store, purges};

use super::frame::{Part, Sink};
use super::state::{DOUBTS, KINDS, Kind, PREDICTIONS, PURGES};
use crate::base::clock;
use crate::base::schedule::is_spent;
use crate::flow::worker::ProcessState;

/// The keys of the hash of cache keys.
const KEYS: &str = "hash-keys";
/// A memory file.
const FILE: &str = "memory-file";
/// Stored responses. A slice that is lost costs only its responses.
const SLICE: &str = "memory";
/// Later changes of stored responses. Without one of them, responses could be outdated.
const CHANGES: &str = "memory-changes";
/// Purges by the last requests of the earlier process.
const LATE_PURGES: &str = "late-purges";
/// The number of the last purge before this part that waits for the other process to obey.
const ASKED: &str = "purges-asked";
/// The number up to which the other process obeys.
const OBEYED: &str = "purges-obeyed";

/// The hashes of the keys that the earlier process is fetching, behind all that it has fetched.
const FETCHES: &str = "fetches";

/// The version of the parts that have no other one.
const VERSION: u32 = 1;

/// The time after the cut in which the earlier process keeps its copies. Almost all of its requests end in it.
const KEPT: Duration = Duration::from_secs(10);

/// What the earlier process offers. Dropping it before the cut changes nothing.
pub(crate) struct Offer {
    shared: Arc<ProcessState>,
    memory: MemoryOffer,
    /// What the last requests of this process purge.
    late: LatePurges,
    /// The keys that this process was fetching when that was sent last.
    fetches: HashSet<u64>,
    /// The time of the cut, until the copies in this process are freed.
    cut: Option<Instant>,
}

/// The purges by requests of one process, for the other one.
pub(crate) struct LatePurges {
    shared: Arc<ProcessState>,
    /// The last purge that was sent.
    purged: Generation,
    /// The end of the last doubt that was sent.
    doubted: u64,
    /// The last numbers that were sent as [`ASKED`] and [`OBEYED`].
    asked: u64,
    obeyed: u64,
}

/// The successor's part of the upgrade.
pub(crate) struct Import {
    shared: Arc<ProcessState>,
    memory: MemoryImport,
    has_keys: bool,
    has_purges: bool,
    /// Whether changes of stored responses are lost.
    is_outdated: bool,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PartResult {
    /// It is in force.
    Taken,
    /// The name is of no part of stored responses or their state.
    Unknown,
    /// It is not taken, for this reason; what it concerns starts empty.
    Refused(String),
}

impl Offer {
    /// Begins an offer.
    pub(crate) fn new(shared: &Arc<ProcessState>) -> Self {
        let (late, memory) = (LatePurges::new(shared), MemoryOffer::new(&shared.cache.fills));
        Self { shared: Arc::clone(shared), memory, late, fetches: HashSet::new(), cut: None }
    }

    /// Sends everything that is stored, while this process serves.
    pub(crate) fn send(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        let keys = self.shared.cache.store.memory.hash_keys().get();
        sink.part(KEYS, VERSION, |out| out.write_all(keys.map(u64::to_le_bytes).as_flattened()))?;
        PREDICTIONS.send(&self.shared, sink)?;
        self.memory.send(&mut |piece| send(sink, SLICE, piece))?;
        self.memory.catch_up(&mut |piece| send(sink, CHANGES, piece))
    }

    /// Sends the last changes and all state. To be called when this process accepts no connections any more, and before
    /// the successor serves. From now on the successor frees the contents of memory files.
    pub(crate) fn cut(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        self.shared.cache.twin.meet();
        self.send_changes(sink)?;
        self.late = LatePurges::new(&self.shared);
        for kind in &KINDS {
            kind.send(&self.shared, sink)?;
        }
        self.memory.give(true);
        self.cut = Some(Instant::now());
        Ok(())
    }

    /// Takes the offer back after the cut. To be called when the successor has ended before it served.
    pub(crate) fn take_back(mut self) {
        self.memory.give(false);
        self.shared.cache.twin.leave();
    }

    /// Sends what the last requests of this process have changed, and frees its copies when these requests have ended but
    /// for slow ones. To be called several times a second after the cut.
    pub(crate) fn follow(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        let asked = self.shared.cache.twin.asked();
        self.late.send(sink)?;
        self.send_changes(sink)?;
        self.late.agree(asked, sink)?;
        if self.cut.take_if(|cut| cut.elapsed() > KEPT).is_some() {
            let shared = Arc::clone(&self.shared);
            let free = move || _ = shared.cache.store.memory.prune(&mut |_, _| true);
            // Without a thread, the copies stay until this process ends.
            let _ = thread::Builder::new().name("copies".to_owned()).spawn(free);
        }
        Ok(())
    }

    /// Sends what has changed since the last call, and what is still being fetched.
    fn send_changes(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        // Looked up first: what ends until the changes are sent is among them.
        let fetches = self.shared.cache.fills.hashes();
        self.memory.send_changes(&mut |piece| send(sink, CHANGES, piece))?;
        if fetches != self.fetches {
            let hashes = fetches.iter().flat_map(|hash| hash.to_le_bytes()).collect::<Vec<_>>();
            sink.part(FETCHES, VERSION, |out| out.write_all(&hashes))?;
            self.fetches = fetches;
        }
        Ok(())
    }
}

impl LatePurges {
    /// Returns the purges of this process from now on.
    fn new(shared: &Arc<ProcessState>) -> Self {
        let (purged, doubted) = (shared.cache.store.purges.now(), shared.cache.doubts.latest());
        Self { shared: Arc::clone(shared), purged, doubted, asked: 0, obeyed: 0 }
    }

    /// Sends those since the last call.
    fn send(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        let purges = &self.shared.cache.store.purges;
        if purges.now() != self.purged {
            let (now, copy) = purges.copy_since(self.purged);
            sink.part(LATE_PURGES, purges::COPY_VERSION, |out| out.write_all(&copy))?;
            self.purged = now;
        }
        let doubted = self.shared.cache.doubts.latest();
        if doubted != self.doubted {
            DOUBTS.send(&self.shared, sink)?;
            self.doubted = doubted;
        }
        Ok(())
    }

    /// Sends what the successor has purged and removed since the last call, to the process before it. To be called often
    /// while that one answers its last requests.
    pub(crate) fn send_back(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        let asked = self.shared.cache.twin.asked();
        self.send(sink)?;
        let removals = self.shared.cache.fills.removals();
        if !removals.is_empty() {
            sink.part(CHANGES, handover::VERSION, |out| out.write_all(&removals))?;
        }
        self.agree(asked, sink)
    }

    /// Sends the number `asked` of the last purge that was sent, and up to which number this process obeys the other one.
    fn agree(&mut self, asked: u64, sink: &mut impl Sink) -> io::Result<()> {
        let heard = self.shared.cache.twin.heard();
        for (name, last, number) in [(ASKED, &mut self.asked, asked), (OBEYED, &mut self.obeyed, heard)] {
            if *last != number {
                sink.part(name, VERSION, |out| out.write_all(&number.to_le_bytes()))?;
                *last = number;
            }
        }
        Ok(())
    }
}

/// Notes a number of the other process. Returns false if `part` is no such number.
fn note_number(shared: &ProcessState, name: &str, content: &[u8]) -> bool {
    let (twin, Ok(number)) = (&shared.cache.twin, content.try_into().map(u64::from_le_bytes)) else {
        return false;
    };
    match name {
        ASKED => twin.note_heard(number),
        OBEYED => twin.note_obeyed(number),
        _ => return false,
    }
    true
}

/// Obeys a part that the successor [sends back](LatePurges::send_back). What it cannot read reaches everything.
pub(crate) fn obey(shared: &ProcessState, part: &Part) {
    let fills = &shared.cache.fills;
    let obeyed = match (&*part.name, part.version, &part.content) {
        (CHANGES, handover::VERSION, Ok(slice)) => fills.remove_likewise(slice).is_ok(),
        (LATE_PURGES, purges::COPY_VERSION, Ok(copy)) => fills.order_copied(copy).is_some(),
        (name, _, Ok(copy)) if name == DOUBTS.name => DOUBTS.take(shared, part.version, copy),
        (name, VERSION, Ok(number)) => note_number(shared, name, number),
        _ => false,
    };
    if !obeyed {
        fills.purge_all_noted(false);
    }
}

/// Sends a piece of the tier; slices are parts of this name.
fn send(sink: &mut impl Sink, name: &str, piece: Piece<'_>) -> io::Result<()> {
    match piece {
        Piece::File(number, file) => {
            let descriptor = sink.descriptor(file)?;
            let numbers = [number, descriptor].map(u32::to_le_bytes);
            sink.part(FILE, VERSION, |out| out.write_all(numbers.as_flattened()))
        }
        Piece::Slice(bytes) => sink.part(name, handover::VERSION, |out| out.write_all(bytes)),
    }
}

/// Returns the version that this program reads of the parts called `name`, and their kind of state; `None` if it knows no such part.
fn known(name: &str) -> Option<(u32, Option<&'static Kind>)> {
    let kind = KINDS.iter().chain([&PREDICTIONS]).find(|kind| kind.name == name);
    let version = match (name, kind) {
        (_, Some(kind)) => kind.version,
        (KEYS | FILE | FETCHES | ASKED | OBEYED, _) => VERSION,
        (SLICE | CHANGES, _) => handover::VERSION,
        (LATE_PURGES, _) => purges::COPY_VERSION,
        _ => return None,
    };
    Some((version, kind))
}

/// Returns the content of a part of which this program reads `version`. The error is the reason why it cannot.
fn content_of(part: &Part, version: u32) -> Result<&[u8], String> {
    match &part.content {
        _ if part.version != version => {
            Err(format!("it has version {}, and this program reads {version}", part.version))
        }
        Err(_) => Err("it is damaged".to_owned()),
        Ok(content) => Ok(content),
    }
}

impl Import {
    /// Returns an import into `shared`, which serves no requests yet.
    pub(crate) fn new(shared: &Arc<ProcessState>) -> Self {
        let memory = MemoryImport::new(&shared.cache.fills);
        let shared = Arc::clone(shared);
        Self { shared, memory, has_keys: false, has_purges: false, is_outdated: false }
    }

    /// Takes `part`. `descriptor` returns the descriptor with a number.
    pub(crate) fn part(
        &mut self,
        part: &Part,
        descriptor: &mut dyn FnMut(u32) -> Option<OwnedFd>,
    ) -> PartResult {
        let Some((version, kind)) = known(&part.name) else { return PartResult::Unknown };
        let taken =
            content_of(part, version).and_then(|content| self.take(&part.name, kind, content, descriptor));
        self.is_outdated |= taken.is_err() && matches!(&*part.name, CHANGES | LATE_PURGES);
        if self.is_outdated {
            self.memory.give_up();
        }
        match taken {
            Ok(()) => PartResult::Taken,
            Err(why) => PartResult::Refused(why),
        }
    }

    fn take(
        &mut self,
        name: &str,
        kind: Option<&Kind>,
        content: &[u8],
        descriptor: &mut dyn FnMut(u32) -> Option<OwnedFd>,
    ) -> Result<(), String> {
        let malformed = || "it is malformed".to_owned();
        let store = &self.shared.cache.store;
        match (name, kind) {
            (_, Some(kind)) if kind.has_hashes && !self.has_keys => {
                return Err("the keys of its hashes are not known".to_owned());
            }
            (_, Some(kind)) => {
                (kind.restore)(&self.shared, content).ok_or_else(malformed)?;
                self.has_purges |= kind.name == PURGES.name;
            }
            (KEYS, _) => {
                let (keys, []) = content.as_chunks() else { return Err(malformed()) };
                let &[one, other] = keys else { return Err(malformed()) };
                store.memory.hash_keys().set([one, other].map(u64::from_le_bytes));
                self.has_keys = true;
            }
            (FILE, _) => {
                let (numbers, []) = content.as_chunks() else { return Err(malformed()) };
                let &[number, at] = numbers else { return Err(malformed()) };
                let file = descriptor(u32::from_le_bytes(at)).ok_or("its descriptor is missing")?;
                self.memory.file(u32::from_le_bytes(number), file).map_err(|error| error.to_string())?;
            }
            (FETCHES, _) => {
                let (hashes, []) = content.as_chunks() else { return Err(malformed()) };
                let hashes = hashes.iter().copied().map(u64::from_le_bytes).filter(|_| self.has_keys);
                self.shared.cache.twin.note_fetches(hashes.collect());
            }
            (ASKED | OBEYED, _) => _ = note_number(&self.shared, name, content),
            (LATE_PURGES, _) => self.shared.cache.fills.order_copied(content).ok_or_else(malformed)?,
            _ if self.is_outdated => return Err("a part before it is missing".to_owned()),
            _ => {
                let now = clock::now();
                self.memory
                    .slice(content, &|freshness| is_spent(freshness, now, 0))
                    .map_err(|_| malformed())?;
            }
        }
        Ok(())
    }

    /// Ends the import before this process serves. Returns what memory has, and the purges to send back.
    pub(crate) fn complete(&mut self) -> (Taken, LatePurges) {
        if !self.has_purges {
            // Purges since the responses were sent could reach them.
            self.memory.give_up();
        }
        self.shared.cache.twin.meet();
        (self.memory.complete(), LatePurges::new(&self.shared))
    }

    /// Frees what no response has of the memory files. To be called when the process before this one has ended. Returns the
    /// store, whose contents can be unpacked now.
    pub(crate) fn predecessor_ended(self) -> Arc<Store> {
        self.shared.cache.twin.leave();
        self.shared.cache.twin.note_fetches(HashSet::new());
        self.memory.predecessor_ended();
        Arc::clone(&self.shared.cache.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_older_and_newer_programs_are_refused_by_version_or_name() {
        let own = [KEYS, FILE, SLICE, CHANGES, LATE_PURGES, ASKED, OBEYED, FETCHES];
        for name in own.into_iter().chain(KINDS.iter().chain([&PREDICTIONS]).map(|kind| kind.name)) {
            let (version, kind) = known(name).expect("a part");
            assert!(kind.is_none_or(|kind| kind.name == name && kind.version == version), "{name}");
            let part = |version| Part { name: name.to_owned(), version, content: Ok(b"content".to_vec()) };
            assert_eq!(content_of(&part(version), version), Ok(&b"content"[..]));
            for other in [version - 1, version + 1] {
                let why = format!("it has version {other}, and this program reads {version}");
                assert_eq!(content_of(&part(other), version), Err(why), "{name}");
            }
            assert!(known(&format!("{name}-2")).is_none());
        }
    }
}
