//! Recovery at a start: segments, the snapshot, and the records that are not in the snapshot.
//!
//! With a good snapshot, the records written after it are read before anything is served, so that no removed object is
//! found. Without one, a separate thread reads all records, and they enter the index together.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::event::Event;
use crate::files::Files;
use crate::index::{Index, Location, ObjectLocation};
use crate::open_error::OpenError;
use crate::record::{RecordKind, RecordPrefix, Secret};
use crate::scan::scan;
use crate::segment::{self, HEADER, Header, Segment, Segments};
use crate::shared::{DiskState, ScanRemovals};
use crate::snapshot::{Snapshot, SnapshotFault};

/// Objects added to the index under one lock, for which removals wait.
const BATCH: usize = 1000;

/// The contents of the directory, as far as names and headers show.
pub(crate) struct Inventory {
    pub(crate) segments: Arc<Segments>,
    /// The secret of the segments; `None` if there are none.
    pub(crate) secret: Option<Secret>,
    /// The lowest unused number.
    pub(crate) next_segment: u32,
    pub(crate) foreign: Vec<String>,
}

/// Finds all segments. Their records are not read yet.
pub(crate) fn take_inventory(files: &dyn Files) -> Result<Inventory, OpenError> {
    let failed = |error| OpenError::io("cannot list the disk cache".into(), error);
    let mut numbers: Vec<u32> =
        files.list().map_err(failed)?.iter().filter_map(|n| segment::number(n)).collect();
    numbers.sort_unstable();
    let segments = Arc::new(Segments::default());
    let next_segment = numbers.last().map_or(1, |last| last.saturating_add(1));
    let mut inventory = Inventory { segments, secret: None, next_segment, foreign: Vec::new() };
    for number in numbers {
        let name = segment::name(number);
        match look_at(files, number) {
            Ok((Header::Future(format), ..)) => return Err(OpenError::Future { name, format }),
            Ok((Header::Ours(secret), file, size)) if *inventory.secret.get_or_insert(secret) == secret => {
                let segment = inventory.segments.add(number, file, size);
                segment.sealed.store(true, Ordering::Release);
                segment.known.store(false, Ordering::Release);
            }
            // Its creation was interrupted by a crash. If it cannot be removed, its number is not used again.
            Ok((_, _, 0)) => drop(files.remove(&name)),
            Ok(_) | Err(_) => inventory.foreign.push(name),
        }
    }
    Ok(inventory)
}

fn look_at(files: &dyn Files, number: u32) -> io::Result<(Header, Arc<dyn crate::File>, u64)> {
    let file = files.open(&segment::name(number))?;
    let header = segment::read_header(&*file, number)?;
    let size = file.size()?;
    Ok((header, file, size))
}

/// Loads the snapshot and reads the records after it. Returns the number of the next segment at the time of
/// the snapshot.
pub(crate) fn load(
    files: &dyn Files,
    index: &Index,
    segments: &Segments,
    secret: &Secret,
) -> Result<u32, SnapshotFault> {
    let snapshot = Snapshot::read(files)?;
    let ends: HashMap<u32, u64> = segments.all().iter().map(|all| (all.number, all.end())).collect();
    for (hash, place) in snapshot.objects {
        let (location, end) = (place.location(), place.location().at() + place.len());
        if ends.get(&location.segment.get()).is_some_and(|&there| end <= there) {
            index.put(hash, place, || true);
        }
    }
    let known: HashMap<u32, _> = snapshot.segments.iter().map(|known| (known.number, known)).collect();
    let mut operations = Vec::new();
    for segment in segments.all() {
        match known.get(&segment.number) {
            Some(known) => {
                segment.holds(known.oldest);
                segment.marks.store(known.marks, Ordering::Relaxed);
                read_segment(&segment, known.up_to, secret, &mut operations);
            }
            None if segment.number >= snapshot.next_segment => {
                read_segment(&segment, HEADER, secret, &mut operations);
            }
            // It was freed before the snapshot, and reappeared: its objects are dead, and the marks that say so stay.
            None => segment.holds(0),
        }
        segment.known.store(true, Ordering::Release);
    }
    // The snapshot includes everything before it; a mark from then has only been moved.
    operations
        .retain(|operation| operation.kind == RecordKind::Object || operation.serial >= snapshot.next_serial);
    let net = Net::of(operations);
    if net.is_cleared {
        index.clear();
    }
    for (hash, place) in net.last {
        match place {
            None => drop(index.remove(hash)),
            Some(place) => renew(index, hash, place),
        }
    }
    Ok(snapshot.next_segment)
}

/// Updates an entry to the copy or the successor at `place`; one of equal length keeps its rank.
fn renew(index: &Index, hash: u64, place: ObjectLocation) {
    let is_copy = index.peek(hash).is_some_and(|old| {
        old.len() == place.len() && index.relocate(hash, old.location(), place.location())
    });
    if !is_copy {
        index.put(hash, place, || true);
    }
}

/// Reads all records of all segments that existed at the start, and then adds them to the index.
pub(crate) fn scan_all(shared: &DiskState, segments: &[Arc<Segment>]) {
    let (mut operations, mut damaged) = (Vec::new(), 0);
    for segment in segments {
        if matches!(*shared.late(), ScanRemovals::Cleared) {
            break;
        }
        damaged += read_segment(segment, HEADER, &shared.secret, &mut operations);
    }
    let net = Net::of(operations);
    let objects: Vec<_> = net.last.into_iter().filter_map(|(hash, place)| Some((hash, place?))).collect();
    for batch in objects.chunks(BATCH) {
        let late = shared.late();
        let ScanRemovals::Scanning(removed) = &*late else { break };
        for (hash, place) in batch {
            if !removed.contains(hash) && !shared.index.has(*hash) {
                shared.index.put(*hash, place.clone(), || true);
            }
        }
    }
    for segment in segments {
        segment.known.store(true, Ordering::Release);
    }
    shared.tell(Event::Scanned { objects: shared.index.usage().objects, damaged });
    *shared.late() = ScanRemovals::Known;
}

/// Begins to record the removals that a scan must respect.
pub(crate) fn begin_scan(shared: &DiskState) {
    *shared.late() = ScanRemovals::Scanning(HashSet::new());
}

/// Adds the operations of the records from `from` on; returns the number of damaged places.
fn read_segment(segment: &Segment, from: u64, secret: &Secret, operations: &mut Vec<Operation>) -> u64 {
    scan(&*segment.file, (from, segment.end()), secret, &mut |at, fixed| {
        match fixed.kind {
            RecordKind::Object => segment.holds(fixed.serial),
            _ => drop(segment.marks.fetch_add(fixed.len(), Ordering::Relaxed)),
        }
        operations.extend(Operation::new(segment.number, at, fixed));
        ControlFlow::Continue(())
    })
}

/// The operation that a record stands for.
struct Operation {
    serial: u64,
    hash: u64,
    kind: RecordKind,
    place: ObjectLocation,
}

impl Operation {
    fn new(segment: u32, at: u64, fixed: &RecordPrefix) -> Option<Self> {
        let place = ObjectLocation::new(Location::new(segment, at)?, fixed.len(), fixed.cost, fixed.stored)?;
        Some(Self { serial: fixed.serial, hash: fixed.hash, kind: fixed.kind, place })
    }
}

/// The net effect of many records.
struct Net {
    is_cleared: bool,
    /// The latest place of each hash, `None` where it was removed; in the order of the writes.
    last: Vec<(u64, Option<ObjectLocation>)>,
}

impl Net {
    fn of(mut operations: Vec<Operation>) -> Self {
        operations.sort_by_key(|operation| operation.serial);
        let cleared = operations.iter().rposition(|operation| operation.kind == RecordKind::Clearing);
        let operations = operations.split_off(cleared.map_or(0, |at| at + 1));
        let mut latest = HashMap::with_capacity(operations.len());
        for (n, operation) in operations.iter().enumerate() {
            latest.insert(operation.hash, n);
        }
        let is_latest = |&(n, operation): &(usize, &Operation)| latest.get(&operation.hash) == Some(&n);
        let last = operations.iter().enumerate().filter(is_latest);
        let place =
            |operation: &Operation| (operation.kind == RecordKind::Object).then(|| operation.place.clone());
        let last = last.map(|(_, operation)| (operation.hash, place(operation))).collect();
        Self { is_cleared: cleared.is_some(), last }
    }
}
