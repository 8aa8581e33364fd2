//! Memory-backed files for bodies that are sent by `sendfile`.
//!
//! An [`Extent`] is a range of an anonymous memory file. Ranges are allocated upwards and **never reused**: a freed range is
//! punched out of the file, its pages return to the kernel, and its offsets stay unused. So a page that the network stack
//! still reads never contains another object's bytes, and there is no free list to fragment. When the 2^62 offsets of a
//! file are used up, a new file replaces it.
//!
//! Content that is complete can be [mapped](Extent::mapped) into memory, to be encrypted from there.
//!
//! A successor of the process goes on with the same content, in the [same files](inherited).

pub(crate) mod inherited;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};

use self::inherited::InheritedFile;
use crate::lines::PackLines;
use crate::mapping::Mapping;

/// Extents start on a page, so that freeing one frees whole pages.
const PAGE: u64 = 4096;
/// Numbers reserved for a body of yet unknown length.
const OPEN_ENDED: u64 = 1 << 42;
const LAST_OFFSET: u64 = 1 << 62;
/// Writers of one memory file exclude each other in the kernel; a few files keep fills parallel.
const FILES: usize = 8;

/// Allocates extents. Cheap to share; one per process is enough.
#[derive(Debug)]
pub struct Arena {
    files: Vec<Mutex<Numbers>>,
    turn: AtomicUsize,
    held: Arc<AtomicU64>,
    refusals: AtomicU64,
}

#[derive(Debug)]
struct Numbers {
    file: Arc<File>,
    next: u64,
}

/// A body's range of a memory file. Dropping it gives its pages back.
#[derive(Debug)]
pub struct Extent {
    file: Arc<File>,
    offset: u64,
    reserved: u64,
    start: AtomicU64,
    len: AtomicU64,
    /// `None` after pages were freed: the extent is not mapped any more.
    mapping: OnceLock<Option<Mapping>>,
    /// The lines that the responses of a pack share.
    lines: OnceLock<Box<PackLines>>,
    held: Arc<AtomicU64>,
    /// The file among those of the process before this one, if that process wrote the content.
    inherited: Option<Arc<InheritedFile>>,
    /// Whether the range belongs to the next process: then only that one frees its pages.
    is_given: AtomicBool,
}

impl Arena {
    /// Makes the memory files.
    ///
    /// # Errors
    /// The kernel's error when it refuses an anonymous file.
    pub fn new() -> io::Result<Self> {
        let files = (0..FILES)
            .map(|_| Ok(Mutex::new(Numbers { file: memory_file()?, next: 0 })))
            .collect::<io::Result<_>>()?;
        Ok(Self { files, turn: AtomicUsize::new(0), held: Arc::default(), refusals: AtomicU64::new(0) })
    }

    /// Creates a new, empty extent for `expected` bytes. `expected` is `None` when the length is not known.
    ///
    /// # Errors
    /// When a new memory file is needed and the kernel refuses it.
    pub fn extent(&self, expected: Option<u64>) -> io::Result<Extent> {
        let reserved = expected.unwrap_or(OPEN_ENDED).max(1).next_multiple_of(PAGE);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.files.len();
        let mut numbers = self.files[turn].lock();
        if numbers.next.saturating_add(reserved) > LAST_OFFSET {
            *numbers = Numbers { file: memory_file()?, next: 0 };
        }
        let offset = numbers.next;
        numbers.next += reserved;
        let file = Arc::clone(&numbers.file);
        Ok(Extent::new(file, offset, reserved, Arc::clone(&self.held)))
    }

    /// Returns the bytes held by living extents.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the number of bodies that were not kept because the kernel refused to extend a memory file.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    pub(crate) fn note_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }
}

impl Extent {
    fn new(file: Arc<File>, offset: u64, reserved: u64, held: Arc<AtomicU64>) -> Self {
        Self {
            file,
            offset,
            reserved,
            start: AtomicU64::new(0),
            len: AtomicU64::new(0),
            mapping: OnceLock::new(),
            lines: OnceLock::new(),
            held,
            inherited: None,
            is_given: AtomicBool::new(false),
        }
    }

    /// Returns the bytes written so far.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether no byte has been written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the file and the absolute offset of byte `from`, for `sendfile`.
    pub fn at(&self, from: u64) -> (&File, u64) {
        (&self.file, self.offset + from)
    }

    /// Appends `bytes`. Only one writer may append at a time; readers see the new length once the bytes are written.
    ///
    /// # Errors
    /// The kernel's error (no memory left), or `FileTooLarge` beyond the reserved range.
    pub fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let len = self.len();
        let new = len + bytes.len() as u64;
        if new > self.reserved {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all_at(bytes, self.offset + len)?;
        self.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.len.store(new, Ordering::Release);
        Ok(())
    }

    /// Fills `into` with the bytes from `from` on.
    ///
    /// # Errors
    /// `UnexpectedEof` when a part of the range has not been written.
    pub fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        if from + into.len() as u64 > self.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(into, self.offset + from)
    }

    /// Returns the content, mapped into memory for as long as the extent lives; `None` if the kernel or the number of
    /// mappings does not allow it. To be called once the content is complete: the first call maps the bytes that are
    /// there.
    pub fn mapped(&self) -> Option<&[u8]> {
        if self.mapping.get().is_none() {
            let mapping = Mapping::new(&self.file, self.offset, self.len())?;
            // Another thread may have been faster.
            let _ = self.mapping.set(Some(mapping));
        }
        self.mapping.get()?.as_deref()
    }

    pub(crate) fn set_lines(&self, lines: PackLines) {
        // It is set once.
        let _ = self.lines.set(Box::new(lines));
    }

    pub(crate) fn lines(&self) -> &PackLines {
        self.lines.get_or_init(Box::default)
    }
}

impl Extent {
    /// Frees the pages that lie wholly before byte `to`, unless the extent is mapped; they must not be read again.
    pub fn discard(&self, to: u64) {
        if self.mapping.get_or_init(|| None).is_none() {
            self.release(to.min(self.len()) / PAGE * PAGE, true);
        }
    }

    /// Releases the bytes before `to`, and `frees` their pages.
    fn release(&self, to: u64, frees: bool) {
        let from = self.start.swap(to, Ordering::Relaxed);
        if from >= to {
            self.start.fetch_max(from, Ordering::Relaxed);
            return;
        }
        self.held.fetch_sub(to.min(self.len()) - from, Ordering::Relaxed);
        if frees {
            punch(&self.file, self.offset + from, to - from);
        }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.mapping.take();
        let is_own = self.inherited.as_ref().is_none_or(|file| file.leave(self.offset));
        let frees = is_own && !self.is_given.load(Ordering::Acquire);
        self.release(self.len().next_multiple_of(PAGE), frees);
    }
}

/// Gives the pages of a range back to the kernel.
fn punch(file: &File, offset: u64, len: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // If the kernel refuses, the memory stays used until the process ends. No reader gets a wrong byte:
    // the range is not reused.
    let _ = fallocate(file, flags, offset, len);
}

fn memory_file() -> io::Result<Arc<File>> {
    let file = memfd_create("larder", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    // To read a mapped page beyond the end of its file would end the process.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(Arc::new(file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_keep_their_own_bytes_and_give_them_back() {
        let arena = Arena::new().unwrap();
        let one = arena.extent(Some(5)).unwrap();
        let two = arena.extent(None).unwrap();
        one.append(b"first").unwrap();
        two.append(b"second ").unwrap();
        two.append(b"body").unwrap();
        let mut read = [0; 5];
        one.read(0, &mut read).unwrap();
        assert_eq!(&read, b"first");
        two.read(6, &mut read).unwrap();
        assert_eq!(&read, b" body");
        assert_eq!(arena.held(), 16);
        drop(one);
        two.read(6, &mut read).unwrap();
        assert_eq!((&read, arena.held()), (b" body", 11));
    }

    #[test]
    fn mapped_content_stays_until_its_extent_is_dropped() {
        let arena = Arena::new().unwrap();
        let extent = arena.extent(None).unwrap();
        let content: Vec<u8> = (0..3 * PAGE + 5).map(|at| (at % 251) as u8).collect();
        extent.append(&content).unwrap();
        assert_eq!(extent.mapped(), Some(&content[..]));
        extent.discard(2 * PAGE);
        assert_eq!(extent.mapped(), Some(&content[..]));
        assert_eq!(arena.held(), content.len() as u64);
        drop(extent);
        assert_eq!(arena.held(), 0);
    }

    #[test]
    fn content_of_which_pages_were_freed_is_not_mapped() {
        let extent = Arena::new().unwrap().extent(None).unwrap();
        extent.append(&[1; 3 * PAGE as usize]).unwrap();
        extent.discard(PAGE);
        assert_eq!(extent.mapped(), None);
    }

    #[test]
    fn a_range_that_is_not_there_is_refused() {
        let extent = Arena::new().unwrap().extent(Some(4096)).unwrap();
        extent.append(b"abc").unwrap();
        assert_eq!(extent.read(1, &mut [0; 3]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(extent.append(&[0; 4096]).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
