//! Makes the coded forms of stored responses, one after another, on a thread of low priority.
//!
//! No request waits for a form. A client that accepts a missing form gets the uncoded content, and the form is queued.
//! The thread runs while the queue has entries. If the queue is full, a later hit requests the form again.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::VecDeque, thread};

use larder_semantics::coding::Coding;
use larder_store::{Body, Entry};
use parking_lot::Mutex;
use serde::Serialize;

use super::Cache;
use crate::base::low_priority;

/// The most forms in the queue.
const MOST: usize = 64;
/// The longest content that is compressed, in bytes: its compression takes the same amount of memory again.
pub(crate) const LONGEST: u64 = 16 << 20;
/// A form is stored if it is shorter than the content by at least one part in this many.
const WORTH: u64 = 10;
/// The queue of forms to be made, and counters.
#[derive(Default)]
pub struct Compressor {
    list: Mutex<List>,
    figures: Figures,
}

#[derive(Default)]
struct List {
    /// The form at the front is being made, if the thread runs.
    waiting: VecDeque<Job>,
    is_under_way: bool,
}

/// The counters of the compressor.
#[derive(Default)]
struct Figures {
    forms: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
    useless: AtomicU64,
    dropped: AtomicU64,
    passing: AtomicU64,
    refused: AtomicU64,
}

/// The counts of the compressor so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompressorCounts {
    /// Forms made.
    pub forms: u64,
    /// Bytes of the contents from which forms were made.
    pub bytes_before: u64,
    /// Bytes of these forms.
    pub bytes_after: u64,
    /// Forms that were not short enough, or for which there was no room.
    pub(crate) useless: u64,
    /// Forms that were dropped because the queue was full.
    pub dropped: u64,
    /// Forms in the queue, including the one in progress.
    pub(crate) waiting: usize,
    /// Replies that were compressed while they were sent.
    pub passing: u64,
    /// Replies that were not, beyond the limit.
    pub refused: u64,
}

/// The form of a stored response to be made.
#[derive(Clone, PartialEq, Eq)]
struct Job {
    key: Box<[u8]>,
    signature: Box<[u8]>,
    coding: Coding,
}

impl Job {
    fn is(&self, entry: &Entry, coding: Coding) -> bool {
        self.coding == coding && *self.key == *entry.key() && *self.signature == *entry.signature()
    }

    /// Returns the response, if it is stored and this form of it has not been tried yet.
    fn entry(&self, cache: &Cache) -> Option<Entry> {
        let entry = cache.variant(&self.key, &self.signature)?;
        let is_tried = entry.coded().is_some_and(|coded| coded.is_tried(self.coding));
        (!is_tried).then_some(entry)
    }
}

impl List {
    /// Adds a form, unless it is queued already. Returns false if the queue is full.
    fn add(&mut self, entry: &Entry, coding: Coding) -> bool {
        if self.waiting.iter().any(|job| job.is(entry, coding)) {
            return true;
        }
        let has_room = self.waiting.len() < MOST;
        if has_room {
            let (key, signature) = (entry.key().into(), entry.signature().into());
            self.waiting.push_back(Job { key, signature, coding });
        }
        has_room
    }
}

impl Compressor {
    /// Queues the form of `entry` in `coding`. Never waits: if another thread holds the queue, a later hit requests the
    /// form again.
    pub(crate) fn want(&self, cache: &Arc<Cache>, entry: &Entry, coding: Coding) {
        if entry.body().len() > LONGEST {
            return;
        }
        let Some(mut list) = self.list.try_lock() else { return };
        if !list.add(entry, coding) {
            self.figures.dropped.fetch_add(1, Ordering::Relaxed);
        } else if !list.is_under_way {
            let cache = Arc::clone(cache);
            match low_priority::start("compress", move || cache.compressor.run(&cache)) {
                Ok(()) => list.is_under_way = true,
                Err(error) => {
                    tracing::debug!("cannot compress stored responses: {error}");
                    list.waiting.clear();
                }
            }
        }
    }

    /// Returns the counts so far.
    pub fn figures(&self) -> CompressorCounts {
        let Figures { forms, before, after, useless, dropped, passing, refused } = &self.figures;
        let [forms, bytes_before, bytes_after, useless, dropped, passing, refused] =
            [forms, before, after, useless, dropped, passing, refused]
                .map(|count| count.load(Ordering::Relaxed));
        let waiting = self.list.lock().waiting.len();
        CompressorCounts { forms, bytes_before, bytes_after, useless, dropped, waiting, passing, refused }
    }

    /// Counts a reply that is compressed while it is sent, or that is not, beyond the limit.
    pub(crate) fn count_passing(&self, is_compressed: bool) {
        let count = if is_compressed { &self.figures.passing } else { &self.figures.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn run(&self, cache: &Cache) {
        let _ended = ThreadGuard(self);
        while let Some(job) = self.next() {
            if let Some(entry) = job.entry(cache) {
                self.make(cache, &entry, job.coding);
            }
            self.list.lock().waiting.pop_front();
        }
    }

    /// Returns the next form to be made; `None` ends the thread.
    fn next(&self) -> Option<Job> {
        let mut list = self.list.lock();
        let job = list.waiting.front().cloned();
        list.is_under_way = job.is_some();
        job
    }

    fn make(&self, cache: &Cache, entry: &Entry, coding: Coding) {
        let (len, memory) = (entry.body().len(), &cache.store.memory);
        let content = &mut Content { body: entry.body(), at: 0 };
        let form = larder_coding::encode(coding, content, len, len - len / WORTH)
            .and_then(|bytes| bytes.map(|bytes| cache.body(bytes)).transpose());
        let form = form.unwrap_or_else(|error| {
            tracing::debug!("cannot make the {} form of a response: {error}", coding.token());
            None
        });
        let made = form.as_ref().map(Body::len);
        let (figures, is_made) = (&self.figures, made.is_some());
        if is_made && memory.add_form(entry, coding, form) {
            figures.forms.fetch_add(1, Ordering::Relaxed);
            figures.before.fetch_add(len, Ordering::Relaxed);
            figures.after.fetch_add(made.unwrap_or_default(), Ordering::Relaxed);
        } else if memory.add_form(entry, coding, None) {
            figures.useless.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Lets a later hit start another thread if this one panics.
struct ThreadGuard<'c>(&'c Compressor);

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            *self.0.list.lock() = List::default();
        }
    }
}

/// Reads a body from its beginning to its end.
struct Content<'b> {
    body: &'b Body,
    at: u64,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.body.copy(self.at, buffer.len())?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use larder_semantics::freshness::Freshness;
    use larder_store::entry::Parts;
    use larder_store::{Generation, LinePool};

    use super::*;

    fn entry(number: usize) -> Entry {
        let fields = LinePool::default().keep(&HeaderMap::new(), 0);
        let (key, body) = (number.to_string().into_bytes(), Body::empty());
        let (signature, status, cost, born) = (&[][..], StatusCode::OK, 0, Generation::default());
        let freshness = Freshness::default();
        Entry::new(Parts { key: &key, signature, status, freshness, cost, born, fields: &fields, body })
            .unwrap()
    }

    #[test]
    fn a_form_waits_once_and_so_many_forms_at_most() {
        let mut list = List::default();
        for number in 0..MOST / 2 {
            for coding in [Coding::Gzip, Coding::Brotli, Coding::Gzip] {
                assert!(list.add(&entry(number), coding));
            }
        }
        assert_eq!(list.waiting.len(), MOST);
        assert!(list.add(&entry(0), Coding::Gzip), "it waits already");
        assert!(!list.add(&entry(0), Coding::Zstd) && !list.add(&entry(MOST), Coding::Gzip));
        assert_eq!(list.waiting.len(), MOST);
    }
}
