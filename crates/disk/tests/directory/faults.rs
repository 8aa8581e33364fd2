//! Files in memory that fail as a disk does: unsynced bytes may be lost in a crash, any sector of them, in
//! any order; calls fail; bits flip. A seed determines all faults.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use larder_disk::{File, Files, Space};

const SECTOR: usize = 512;

/// The faults, and their frequency.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// After this number of changes every call fails, until the crash.
    pub(crate) crash_after: Option<u64>,
    /// The writes and syncs of 1000 that fail or are cut short.
    pub(crate) failing_writes: u64,
    /// The reads of 1000 that fail.
    pub(crate) failing_reads: u64,
    /// Whether reads without waiting never find bytes in memory; otherwise they do half the time.
    pub(crate) nothing_at_once: bool,
    /// The size of the disk in bytes.
    pub(crate) room: Option<usize>,
}

/// A disk in memory.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Mutex<State>>);

struct State {
    names: HashMap<String, Arc<Mutex<Inode>>>,
    /// The names after a crash.
    durable: HashMap<String, Arc<Mutex<Inode>>>,
    faults: Faults,
    changes: u64,
    random: fastrand::Rng,
}

#[derive(Default)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<(usize, Vec<u8>)>,
}

impl Memory {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let (names, durable) = (HashMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(State { names, durable, faults, changes: 0, random })))
    }

    /// Returns the state after a crash of the machine, with `flips` bits changed in it.
    pub(crate) fn crash(&self, flips: usize, faults: Faults) -> Self {
        let mut state = self.state();
        let seed = state.random.u64(..);
        let after = Self::new(seed, faults);
        let mut durable: Vec<_> = state.durable.clone().into_iter().collect();
        durable.sort_by(|one, other| one.0.cmp(&other.0));
        // The removal of a name may be durable or not.
        durable.retain(|(name, _)| state.names.contains_key(name) || state.random.bool());
        let mut left: HashMap<_, _> = durable.into_iter().collect();
        let mut names: Vec<_> = state.names.clone().into_iter().collect();
        names.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, inode) in names {
            if state.random.bool() {
                left.insert(name, inode);
            }
        }
        let mut left: Vec<_> = left.into_iter().collect();
        left.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, inode) in left {
            let mut bytes = inode.lock().unwrap().after_crash(&mut state.random);
            for _ in 0..flips {
                if let Some(at) = (!bytes.is_empty()).then(|| state.random.usize(..bytes.len())) {
                    bytes[at] ^= 1 << state.random.u8(..8);
                }
            }
            let inode = Inode { durable: bytes.clone(), bytes, pending: Vec::new() };
            let inode = Arc::new(Mutex::new(inode));
            after.state().names.insert(name.clone(), Arc::clone(&inode));
            after.state().durable.insert(name, inode);
        }
        after
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Returns the number of changes.
    pub(crate) fn changes(&self) -> u64 {
        self.state().changes
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.state().names.contains_key(name)
    }

    /// Changes a file without the store.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.state().names[name].lock().unwrap().bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Counts a change, and fails if a fault is due.
    fn before_change(&self) -> io::Result<()> {
        let mut state = self.state();
        state.changes += 1;
        let is_over = state.faults.crash_after.is_some_and(|most| state.changes > most);
        if is_over || state.random.u64(..1000) < state.faults.failing_writes {
            return Err(io::Error::other("injected write error"));
        }
        Ok(())
    }
}

impl Inode {
    fn after_crash(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let mut pending: Vec<_> = self.pending.iter().collect();
        random.shuffle(&mut pending);
        for (at, written) in pending {
            let mut from = *at;
            for sector in written.chunks(SECTOR) {
                if random.bool() {
                    bytes.resize(bytes.len().max(from + sector.len()), 0);
                    bytes[from..from + sector.len()].copy_from_slice(sector);
                }
                from += sector.len();
            }
        }
        bytes
    }
}

impl Files for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inode = self.state().names.get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(Opened { memory: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.before_change()?;
        let mut state = self.state();
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = Arc::<Mutex<Inode>>::default();
        state.names.insert(name.into(), Arc::clone(&inode));
        Ok(Arc::new(Opened { memory: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.before_change()?;
        let mut state = self.state();
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.state().names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.before_change()?;
        self.state().names.remove(name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.before_change()?;
        let mut state = self.state();
        state.durable = state.names.clone();
        Ok(())
    }

    fn space(&self) -> io::Result<Space> {
        let state = self.state();
        let whole = state.faults.room.ok_or(io::ErrorKind::Unsupported)?;
        let taken: usize = state.names.values().map(|inode| inode.lock().unwrap().bytes.len()).sum();
        Ok(Space { free: whole.saturating_sub(taken) as u64, whole: whole as u64 })
    }
}

struct Opened {
    memory: Memory,
    inode: Arc<Mutex<Inode>>,
}

impl File for Opened {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.memory.state();
        if state.random.u64(..1000) < state.faults.failing_reads {
            return Err(io::Error::other("injected read error"));
        }
        let short = into.len() > 1 && state.random.u8(..) == 0;
        drop(state);
        let inode = self.inode.lock().unwrap();
        let rest = inode.bytes.get(at as usize..).unwrap_or_default();
        let len = rest.len().min(if short { into.len() / 2 } else { into.len() });
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_at_once(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.memory.state();
        if state.faults.nothing_at_once || state.random.bool() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        drop(state);
        self.read_at(into, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.memory.before_change()?;
        let state = self.memory.state();
        let room = state.faults.room;
        let cut = state.random.clone().u64(..1000) < state.faults.failing_writes;
        if let Some(room) = room {
            let taken: usize = state.names.values().map(|inode| inode.lock().unwrap().bytes.len()).sum();
            if taken + bytes.len() > room {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        drop(state);
        let bytes = if cut { &bytes[..bytes.len().div_ceil(2)] } else { bytes };
        let mut inode = self.inode.lock().unwrap();
        let end = at as usize + bytes.len();
        let len = inode.bytes.len().max(end);
        inode.bytes.resize(len, 0);
        inode.bytes[at as usize..end].copy_from_slice(bytes);
        inode.pending.push((at as usize, bytes.to_vec()));
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.memory.before_change()?;
        let mut inode = self.inode.lock().unwrap();
        let pending = std::mem::take(&mut inode.pending);
        let bytes = std::mem::take(&mut inode.durable);
        inode.durable = pending.into_iter().fold(bytes, |mut bytes, (at, written)| {
            bytes.resize(bytes.len().max(at + written.len()), 0);
            bytes[at..at + written.len()].copy_from_slice(&written);
            bytes
        });
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.inode.lock().unwrap().bytes.len() as u64)
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}
