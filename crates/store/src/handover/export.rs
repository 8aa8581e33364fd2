//! The memory tier as the earlier process of an upgrade offers it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::slice;
use crate::memory::CopiedResident;
use crate::{Extent, Fills, Memory, Store};

/// A slice has about so many bytes.
const SLICE: usize = 1 << 20;
/// Changes are copied again until they are as few, or so many times.
const FEW: usize = 64;
const ROUNDS: usize = 8;

/// What is sent to the successor.
pub enum Piece<'p> {
    /// The memory file with this number. It precedes the slices that name it.
    File(u32, OwnedFd),
    /// A slice of the tier.
    Slice(&'p [u8]),
}

/// A destination of pieces.
type Send<'s> = &'s mut dyn FnMut(Piece<'_>) -> io::Result<()>;

/// The offer to a successor. Dropping it before [`give`](Self::give) changes nothing: the process goes on as before, and
/// [unpacks](crate::Memory::unpack) what was packed.
pub struct MemoryOffer {
    fills: Arc<Fills>,
    files: Files,
    slice: Vec<u8>,
}

/// The memory files and the contents in them that were sent.
#[derive(Default)]
struct Files {
    /// The files, each at its number.
    all: Vec<Arc<File>>,
    /// The number of files that were sent.
    sent: usize,
    /// The contents that were sent, by file and offset. As long as they are here, no page of them is freed.
    extents: HashMap<(u32, u64), Arc<Extent>>,
    /// Whether the contents belong to the successor.
    is_given: bool,
}

impl MemoryOffer {
    /// Begins an offer: changes are noted from now on.
    pub fn new(fills: &Arc<Fills>) -> Self {
        fills.store().memory.note_changes(true);
        Self { fills: Arc::clone(fills), files: Files::default(), slice: Vec::new() }
    }

    /// Packs small contents, and sends everything that is stored. Takes as long as the receiver.
    ///
    /// # Errors
    /// The error of `send`.
    pub fn send(&mut self, send: Send<'_>) -> io::Result<()> {
        let fills = Arc::clone(&self.fills);
        let memory = &fills.store().memory;
        memory.pack(fills.arena());
        for hash in memory.by_last_use() {
            if let Some(copied) = memory.copy(hash) {
                self.push(&copied, send)?;
            }
        }
        self.flush(send)
    }

    /// Sends changes until there are few, so that the last ones take little time.
    ///
    /// # Errors
    /// The error of `send`.
    pub fn catch_up(&mut self, send: Send<'_>) -> io::Result<()> {
        for _ in 0..ROUNDS {
            if self.send_changes(send)? <= FEW {
                break;
            }
        }
        Ok(())
    }

    /// Sends what has changed since everything was sent, or since the last call; returns the number of URLs.
    ///
    /// # Errors
    /// The error of `send`.
    pub fn send_changes(&mut self, send: Send<'_>) -> io::Result<usize> {
        let fills = Arc::clone(&self.fills);
        let memory = &fills.store().memory;
        let noted = memory.take_changes();
        if noted.is_cleared {
            slice::write_cleared(&mut self.slice);
        }
        for (key, is_removed) in &noted.keys {
            let copied = copy(memory, key);
            // A successor that serves keeps what it has, except after a removal.
            if copied.is_none() || *is_removed || !self.files.is_given {
                slice::write_gone(&mut self.slice, key);
            }
            if let Some(copied) = copied {
                self.push(&copied, send)?;
            }
        }
        self.flush(send)?;
        Ok(noted.keys.len())
    }

    /// Sets whether the contents of memory files belong to the successor, which frees them from now on.
    pub fn give(&mut self, is_given: bool) {
        self.files.is_given = is_given;
        self.files.extents.values().for_each(|extent| extent.give(is_given));
    }

    fn push(&mut self, copied: &CopiedResident, send: Send<'_>) -> io::Result<()> {
        let store: &Store = self.fills.store();
        let variants = copied.resident.variants();
        let left: Vec<_> = variants.iter().filter_map(|entry| store.left(entry)).collect();
        match (left.is_empty(), variants.first()) {
            (true, Some(entry)) => slice::write_gone(&mut self.slice, entry.key()),
            _ => {
                let place = &mut |extent: &_| self.files.place(extent);
                slice::write_resident(&mut self.slice, &left, &copied.uses, place);
            }
        }
        if self.slice.len() < SLICE { Ok(()) } else { self.flush(send) }
    }

    /// Sends the memory files that the slice names first, and the slice.
    fn flush(&mut self, send: Send<'_>) -> io::Result<()> {
        while let Some(file) = self.files.all.get(self.files.sent) {
            send(Piece::File(self.files.sent as u32, file.try_clone()?.into()))?;
            self.files.sent += 1;
        }
        if !self.slice.is_empty() {
            send(Piece::Slice(&self.slice))?;
            self.slice.clear();
        }
        Ok(())
    }
}

impl Drop for MemoryOffer {
    fn drop(&mut self) {
        self.fills.store().memory.note_changes(false);
    }
}

impl Files {
    /// Returns the number of the memory file, and the range in it, of a complete content, and holds that.
    fn place(&mut self, extent: &Arc<Extent>) -> Option<(u32, u64, u64)> {
        let (file, offset, len) = extent.at_rest()?;
        let known = self.all.iter().position(|known| Arc::ptr_eq(known, file));
        let number = known.unwrap_or_else(|| {
            self.all.push(Arc::clone(file));
            self.all.len() - 1
        });
        let number = number as u32;
        extent.give(self.is_given);
        self.extents.insert((number, offset), Arc::clone(extent));
        Some((number, offset, len))
    }
}

fn copy(memory: &Memory, key: &[u8]) -> Option<CopiedResident> {
    let is_it =
        |copied: &CopiedResident| copied.resident.variants().first().is_some_and(|entry| entry.key() == key);
    memory.copy(memory.hash(key)).filter(is_it)
}
