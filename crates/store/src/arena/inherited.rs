//! Memory files of the process before this one, in an upgrade.
//!
//! Both processes read the same content while the earlier one finishes its requests, and no byte may change under a
//! reader. So pages are freed in this order:
//!
//! 1. The earlier process offers content ([`Extent::at_rest`]), and holds it until the upgrade has succeeded or failed.
//! 2. This process adopts it ([`InheritedFile::adopt`]). If it drops the content again, that frees no page yet.
//! 3. The earlier process gives its ranges away ([`Extent::give`]): dropping them frees no page there. If the upgrade fails
//!    before, it drops what it held, and that frees pages as ever.
//! 4. The earlier process still sends the content to its clients, and ends.
//! 5. This process frees every page that none of its extents has ([`InheritedFile::free_rest`]), also of content that it did not
//!    adopt, or that the earlier process wrote afterwards. From now on, dropping an extent frees its pages.
//!
//! If one of them is killed, the other one ends at worst with pages that are freed later: nothing is freed twice or early.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::{SealFlags, fcntl_get_seals};

use super::{Arena, Extent, PAGE, punch};

/// A memory file of the process before this one.
#[derive(Debug)]
pub struct InheritedFile {
    file: Arc<File>,
    held: Arc<AtomicU64>,
    ranges: Mutex<Ranges>,
}

#[derive(Debug, Default)]
struct Ranges {
    /// The adopted ranges by their start: the end, and the extent.
    adopted: BTreeMap<u64, (u64, Weak<Extent>)>,
    /// Whether the process before this one has ended.
    is_alone: bool,
}

impl Arena {
    /// Takes over a memory file of the process before this one.
    ///
    /// # Errors
    /// It is no memory file, or can shrink: to read a mapped page beyond its end would end this process.
    pub fn inherit(&self, file: OwnedFd) -> io::Result<Arc<InheritedFile>> {
        if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory file can shrink"));
        }
        let (file, held) = (Arc::new(File::from(file)), Arc::clone(&self.held));
        Ok(Arc::new(InheritedFile { file, held, ranges: Mutex::default() }))
    }
}

impl InheritedFile {
    /// Returns the complete content of `len` bytes at `offset`; `None` if the file has no such range, or if the range
    /// overlaps another one that was adopted. Equal ranges are one extent.
    pub(crate) fn adopt(self: &Arc<Self>, offset: u64, len: u64) -> Option<Arc<Extent>> {
        let end = offset.checked_add(len)?.checked_next_multiple_of(PAGE)?;
        let mut ranges = self.ranges.lock();
        // An extent that is being dropped waits for this lock, and is not found any more.
        let known = ranges.adopted.get(&offset).and_then(|(_, known)| known.upgrade());
        if known.is_some() {
            // Without the lock, which dropping the extent would take.
            drop(ranges);
            return known.filter(|known| known.len() == len);
        }
        let is_there =
            len > 0 && offset.is_multiple_of(PAGE) && offset + len <= self.file.metadata().ok()?.len();
        if !is_there || !ranges.is_free(offset, end) {
            return None;
        }
        let mut own = Extent::new(Arc::clone(&self.file), offset, end - offset, Arc::clone(&self.held));
        own.len = AtomicU64::new(len);
        own.inherited = Some(Arc::clone(self));
        self.held.fetch_add(len, Ordering::Relaxed);
        let own = Arc::new(own);
        ranges.adopted.insert(offset, (end, Arc::downgrade(&own)));
        Some(own)
    }

    /// Frees the pages that no adopted extent has. To be called once, when the process before this one has ended.
    pub fn free_rest(&self) {
        let mut ranges = self.ranges.lock();
        ranges.is_alone = true;
        let adopted: Vec<_> = ranges.adopted.iter().map(|(start, (end, _))| (*start, *end)).collect();
        drop(ranges);
        let end = self.file.metadata().map_or(0, |file| file.len().next_multiple_of(PAGE));
        let mut from = 0;
        for (start, next) in adopted.into_iter().chain([(end, end)]) {
            if from < start {
                punch(&self.file, from, start - from);
            }
            from = next;
        }
    }

    /// Notes that the extent at `offset` is dropped. Returns whether its pages can be freed.
    pub(super) fn leave(&self, offset: u64) -> bool {
        let mut ranges = self.ranges.lock();
        // It may have been adopted again.
        if ranges.adopted.get(&offset).is_some_and(|(_, extent)| extent.strong_count() == 0) {
            ranges.adopted.remove(&offset);
        }
        ranges.is_alone
    }
}

impl Ranges {
    /// Whether no adopted range but a dropped one of the same start overlaps this one.
    fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.adopted.range(..start).next_back();
        let after = self.adopted.range(start..).find(|(next, _)| **next > start);
        before.is_none_or(|(_, (before, _))| *before <= start) && after.is_none_or(|(next, _)| end <= *next)
    }
}

impl Extent {
    /// Returns the memory file, and the range in it; `None` unless all of the content is there.
    pub(crate) fn at_rest(&self) -> Option<(&Arc<File>, u64, u64)> {
        let is_whole = self.start.load(Ordering::Relaxed) == 0 && !self.is_empty();
        is_whole.then(|| (&self.file, self.offset, self.len()))
    }

    /// Sets whether the range belongs to the next process. Then dropping the extent frees no page.
    pub(crate) fn give(&self, is_given: bool) {
        self.is_given.store(is_given, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the content of a file at `at`.
    fn read(extent: &Extent) -> Vec<u8> {
        let mut bytes = vec![0; extent.len() as usize];
        extent.read(0, &mut bytes).unwrap();
        bytes
    }

    struct TwoProcesses {
        earlier: Arena,
        later: Arena,
    }

    impl TwoProcesses {
        fn new() -> Self {
            Self { earlier: Arena::new().unwrap(), later: Arena::new().unwrap() }
        }

        /// Writes `bytes` in the earlier process, and hands the file to the later one.
        fn written(&self, bytes: &[u8]) -> (Extent, Arc<InheritedFile>) {
            let extent = self.earlier.extent(None).unwrap();
            extent.append(bytes).unwrap();
            let file = extent.file.try_clone().unwrap();
            (extent, self.later.inherit(file.into()).unwrap())
        }
    }

    #[test]
    fn a_range_is_freed_only_after_the_earlier_process() {
        let both = TwoProcesses::new();
        let (sent, file) = both.written(&[7; 9_000]);
        let adopted = file.adopt(sent.offset, 9_000).unwrap();
        assert_eq!(both.later.held(), 9_000);
        sent.give(true);
        drop(adopted);
        assert_eq!(
            (read(&sent), both.later.held()),
            (vec![7; 9_000], 0),
            "the earlier process still sends it"
        );
        file.free_rest();
        assert_eq!(read(&sent), [0; 9_000]);
    }

    #[test]
    fn content_outlives_the_earlier_process_until_it_is_dropped() {
        let both = TwoProcesses::new();
        let (sent, file) = both.written(&[7; 9_000]);
        let (adopted, again) =
            (file.adopt(sent.offset, 9_000).unwrap(), file.adopt(sent.offset, 9_000).unwrap());
        assert!(Arc::ptr_eq(&adopted, &again));
        sent.give(true);
        let offset = sent.offset;
        drop(sent);
        file.free_rest();
        assert_eq!(read(&adopted), [7; 9_000]);
        drop((adopted, again));
        let mut bytes = [1; 9];
        std::os::unix::fs::FileExt::read_exact_at(&*file.file, &mut bytes, offset).unwrap();
        assert_eq!(bytes, [0; 9]);
    }

    #[test]
    fn ranges_that_are_not_there_are_refused() {
        let both = TwoProcesses::new();
        let (sent, file) = both.written(&[7; 9_000]);
        let _held = file.adopt(sent.offset, 5_000).unwrap();
        let last = u64::MAX / PAGE * PAGE;
        for (offset, len) in
            [(1, 5), (0, 0), (0, 9_001), (4_096, 100), (0, 4_096), (last, 5), (last, PAGE), (8_192, u64::MAX)]
        {
            assert!(file.adopt(sent.offset + offset, len).is_none(), "{len} bytes at {offset}");
        }
    }
}
