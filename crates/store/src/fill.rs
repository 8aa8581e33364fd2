//! One fetch, many readers: a response in progress, which clients read while it arrives.
//!
//! The leading request's task owns a [`FillWriter`], the writer; all clients, including the one that caused
//! the fetch, read through a [`Reader`]. So a client that disconnects does not end the fetch. Whether the
//! writer succeeds, fails or panics, dropping its `FillWriter` wakes every reader with the result.
//!
//! A purge overrides a fill: [`Fills::cancel`] removes the fill from the table and it publishes nothing, though its
//! readers still get their bytes.
//!
//! A body that turns out too large for memory continues as a window: the origin is read at most [`WINDOW`] bytes ahead
//! of the slowest reader, and bytes that all readers have read are freed. A disk can still store the body.

mod buffer;
mod epoch;
mod fills;
mod join;
mod reader;
mod recall;
mod refusal;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hashbrown::HashMap;
use http::StatusCode;
use larder_semantics::status::Why;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Entry;
use crate::purges::Generation;

use buffer::Buffer;

pub use crate::head::Head;
pub use epoch::Epoch;
pub(crate) use epoch::Epochs;
pub use fills::Fills;
pub use join::{JoinResult, ReloadResult};
pub use reader::{Piece, Reader};
pub use refusal::StoreRefusal;
pub use writer::{FillWriter, StoragePlace};

/// How far a body too large for memory may run ahead of its slowest reader, in bytes.
pub const WINDOW: u64 = 1 << 20;

/// The result of a fill, for the waiting requests.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// A response that clients may read as it arrives if their requests select it.
    Stream(Arc<Head>),
    /// The stored response is fresh (again): no content was transferred.
    Stored(Entry),
    /// The origin failed; clients that allow stale responses may get this stored response.
    StandIn(Entry),
    /// The response cannot be shared: each waiting request asks the origin itself.
    Released,
    /// The origin cannot be reached for any client; the status and reason for the clients.
    Failed(StatusCode, Why),
    /// The fetch failed, for reasons that may concern only its client: a waiting request may lead the next fetch.
    Abandoned,
}

/// The end of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEnd {
    /// All of the content arrived.
    Complete,
    /// The origin stopped early.
    Truncated,
}

#[derive(Debug, Default)]
struct Progress {
    verdict: Option<Verdict>,
    len: u64,
    ending: Option<ContentEnd>,
    /// Whether the complete response has been stored; `None` before its end.
    result: Option<Result<(), StoreRefusal>>,
}

/// A response in progress.
#[derive(Debug)]
pub struct Fill {
    key: Box<[u8]>,
    /// The hash of the key, from [`Memory::hash`](crate::Memory::hash).
    hash: u64,
    signature: Box<[u8]>,
    /// The generation in force before the request was sent.
    born: Generation,
    /// The number of removals of keys then.
    removals: u64,
    /// The start of the fetch, if a reload leads it.
    reloads_since: Option<Instant>,
    joinable: AtomicBool,
    /// Whether the requests that wait for the head may read the content.
    shared: AtomicBool,
    cancelled: AtomicBool,
    /// Whether a client has waited too long for the head.
    late: AtomicBool,
    progress: Mutex<Progress>,
    /// Notifies readers of progress.
    advanced: Notify,
    buffer: Mutex<Buffer>,
    readers: Mutex<Readers>,
    /// Notifies the leader that a reader has advanced or left.
    moved: Notify,
}

#[derive(Debug, Default)]
struct Readers {
    next: u64,
    positions: HashMap<u64, u64>,
}

impl Fill {
    fn is_joinable(&self) -> bool {
        self.joinable.load(Ordering::Acquire)
    }

    fn reader(self: &Arc<Self>) -> Reader {
        Reader::new(Arc::clone(self))
    }

    fn advance(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.advanced.notify_waiters();
    }

    /// Waits until `look` returns a value for the progress.
    async fn until<T>(&self, look: impl Fn(&Progress) -> Option<T>) -> T {
        loop {
            // Created before the look, so that no notification between the two is missed.
            let advanced = self.advanced.notified();
            let found = look(&self.progress.lock());
            match found {
                Some(found) => return found,
                None => advanced.await,
            }
        }
    }

    /// Returns the head of the announced response.
    fn head(&self) -> Option<Arc<Head>> {
        match &self.progress.lock().verdict {
            Some(Verdict::Stream(head)) => Some(Arc::clone(head)),
            _ => None,
        }
    }

    /// Makes an entry of the content that has arrived, under `head`; readers read it from the entry from now
    /// on. No more may be appended.
    fn seal(&self, head: &Head) -> Option<Entry> {
        if !Entry::has_room(&self.key, &head.signature, &head.fields.view()) {
            return None;
        }
        self.buffer.lock().seal(|body| head.entry(&self.key, self.born, body))
    }

    /// Returns the position of the slowest reader; `None` without readers.
    fn slowest(&self) -> Option<u64> {
        self.readers.lock().positions.values().min().copied()
    }
}
