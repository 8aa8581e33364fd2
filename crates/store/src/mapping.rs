//! Content of memory files, mapped into memory: reading it needs no system call and no copy.

use std::fs::File;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions};

/// Maximum of mappings: a quarter of those that Linux allows a process by default (`vm.max_map_count`).
const MOST: usize = 16 << 10;

/// The mappings of this process.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A range of a memory file, mapped into memory.
#[derive(Debug)]
pub(crate) struct Mapping(Mmap);

impl Mapping {
    /// Maps `len` bytes of `file` from `offset`. `None` if there are too many mappings, or if the kernel refuses.
    ///
    /// The file must be a memory file that cannot shrink. The bytes must not change while they are mapped.
    pub(crate) fn new(file: &File, offset: u64, len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let is_free = COUNT.fetch_add(1, Ordering::Relaxed) < MOST;
        // SAFETY: the bytes do not change while they are mapped, and no page is beyond the end of the file, as the arena
        // ensures: only it, and in an upgrade the arena of the next process, has the file, which is sealed against
        // shrinking. Both write the bytes of an extent once, and free no page that the other one may have mapped.
        let map = is_free.then(|| unsafe { MmapOptions::new().offset(offset).len(len).map(file) });
        if let Some(Ok(map)) = map {
            return Some(Self(map));
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
