//! The lines of the access log that wait to be written: a page for each worker.
//!
//! A worker appends to its own page, which no other worker touches. Pages are written as a whole: by a thread soon after
//! their first line, or by their worker when they are full. A page is taken and written under the lock of the sink, so
//! that the lines of a worker stay in order.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use super::sink::Sink;
use super::stamp::Stamp;

/// The longest that a line waits for others.
const WAIT: Duration = Duration::from_millis(50);
/// The bytes at which a page is full.
const FULL: usize = 64 << 10;

/// The pages and the sink to which they are written.
pub(super) struct Pages {
    shared: Arc<PageSet>,
    /// The thread that writes pages, since the first line; `None` if it could not be started.
    writer: OnceLock<Option<Thread>>,
}

struct PageSet {
    pages: Box<[Page]>,
    /// The sink, and the empty buffer that the next page gets.
    sink: Mutex<(Sink, Vec<u8>)>,
    lost: AtomicU64,
}

/// The page of one worker, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Page(Mutex<PageContent>);

#[derive(Default)]
struct PageContent {
    lines: Vec<u8>,
    stamp: Stamp,
}

impl Pages {
    /// Returns empty pages for this number of workers.
    pub(super) fn new(workers: usize, sink: Sink) -> Self {
        let pages = (0..workers.max(1)).map(|_| Page::default()).collect();
        let sink = Mutex::new((sink, Vec::new()));
        Self { shared: Arc::new(PageSet { pages, sink, lost: AtomicU64::new(0) }), writer: OnceLock::new() }
    }

    /// Appends the line that `write` appends to the page of a worker. If it is `urgent`, it is written at once.
    pub(super) fn append(&self, worker: usize, urgent: bool, write: impl FnOnce(&mut Vec<u8>, &mut Stamp)) {
        let page = &self.shared.pages[worker % self.shared.pages.len()];
        let (is_first, is_full) = {
            let mut content = page.0.lock();
            let PageContent { lines, stamp } = &mut *content;
            let is_first = lines.is_empty();
            write(lines, stamp);
            (is_first, lines.len() >= FULL)
        };
        if urgent || is_full {
            self.shared.write(page);
        } else if is_first {
            self.writer().map_or_else(|| self.shared.write(page), |writer| writer.unpark());
        }
    }

    fn writer(&self) -> Option<&Thread> {
        let start = || {
            let shared = Arc::clone(&self.shared);
            let run = move || loop {
                // A line that arrives during the wait or the writing ends the next park at once.
                thread::park();
                thread::sleep(WAIT);
                shared.write_all();
            };
            let thread = thread::Builder::new().name("access-log".to_owned()).spawn(run);
            thread.ok().map(|handle| handle.thread().clone())
        };
        self.writer.get_or_init(start).as_ref()
    }

    /// Writes all lines.
    pub(super) fn flush(&self) {
        self.shared.write_all();
    }

    /// Writes all lines to the present sink, and the lines from now on to this one.
    pub(super) fn redirect(&self, sink: Sink) {
        let mut old = self.shared.sink.lock();
        self.shared.pages.iter().for_each(|page| self.shared.write_to(&mut old, page));
        old.0 = sink;
    }

    /// Returns the number of lines that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl PageSet {
    fn write_all(&self) {
        self.pages.iter().for_each(|page| self.write(page));
    }

    fn write(&self, page: &Page) {
        self.write_to(&mut self.sink.lock(), page);
    }

    fn write_to(&self, (sink, spare): &mut (Sink, Vec<u8>), page: &Page) {
        mem::swap(&mut page.0.lock().lines, spare);
        if !spare.is_empty() {
            self.lost.fetch_add(sink.append(spare), Ordering::Relaxed);
            spare.clear();
        }
    }
}
