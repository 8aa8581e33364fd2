//! The budget of memory and threads for pages that are buffered whole before they are sent.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use larder_rpc::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure;
use super::rate::sender;

/// Maximum of bytes of buffered pages in the whole process.
const MOST: usize = 256 << 20;
/// Maximum of pages that are decoded at the same time. More would take the processors from clients whose pages need no
/// decoding.
const DECODERS: usize = 4;

/// The bytes that all calls together may hold in buffered pages, and the pages that they may decode at once.
#[derive(Debug)]
pub(crate) struct Budget {
    held: Arc<Mutex<Held>>,
    decoders: Arc<Semaphore>,
}

/// The bytes that calls hold.
#[derive(Debug, Default)]
struct Held {
    all: usize,
    clients: HashMap<IpAddr, usize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { held: Arc::default(), decoders: Arc::new(Semaphore::new(DECODERS)) }
    }
}

/// The share of the budget that one call holds.
pub(super) struct Share {
    held: Arc<Mutex<Held>>,
    client: IpAddr,
    bytes: usize,
}

impl Budget {
    /// Creates an empty share for a call of `client`.
    pub(super) fn share(&self, client: IpAddr) -> Share {
        Share { held: Arc::clone(&self.held), client: sender(client.to_canonical()), bytes: 0 }
    }

    /// Waits until a page may be decoded. `None` does not occur: the semaphore is never closed.
    pub(super) async fn decoder(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.decoders).acquire_owned().await.ok()
    }
}

impl Share {
    /// Adds `bytes` to the share. Returns false if the budget is exhausted. A client may hold as many bytes as stay
    /// free, so at most half of all: if it does not read its pages, there is room for those of others.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let mut held = locked(&self.held);
        let (own, all) = (held.clients.get(&self.client).unwrap_or(&0) + bytes, held.all + bytes);
        if own > MOST.saturating_sub(all) {
            return false;
        }
        held.all = all;
        held.clients.insert(self.client, own);
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = locked(&self.held);
        held.all -= self.bytes;
        if let Some(own) = held.clients.get_mut(&self.client) {
            *own -= self.bytes;
            if *own == 0 {
                held.clients.remove(&self.client);
            }
        }
    }
}

fn locked(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A whole page, and its share of the budget.
pub(super) struct Collected {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// The reason why a page cannot be buffered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The page has more than this number of bytes.
    TooLong(u64),
    /// The budget is exhausted.
    Crowded,
    /// The origin's response is incomplete or malformed.
    Broken(String),
}

impl Obstacle {
    pub(super) fn failure(self, url: &str) -> Failure {
        match self {
            Self::TooLong(most) => failure(url, 502, format!("the page has more than {most} bytes")),
            Self::Crowded => failure(url, 503, "too many pages are being assembled; try again"),
            Self::Broken(why) => failure(url, 502, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_holds_half_of_the_budget_leaves_room_for_others() {
        let (budget, client) = (Budget::default(), |last: u8| IpAddr::from([192, 0, 2, last]));
        let (mut one, mut two, mut other) =
            (budget.share(client(1)), budget.share(client(1)), budget.share(client(2)));
        assert!(one.grow(MOST / 4) && two.grow(MOST / 4) && !one.grow(1) && !two.grow(1));
        assert!(other.grow(MOST / 4) && !other.grow(1));
        drop((one, other));
        assert!(two.grow(MOST / 4) && !two.grow(1));
    }

    #[tokio::test]
    async fn few_pages_are_decoded_at_the_same_time() {
        let budget = Budget::default();
        let mut held = Vec::new();
        for _ in 0..DECODERS {
            held.extend(budget.decoder().await);
        }
        let mut next = std::pin::pin!(budget.decoder());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(held.len() == DECODERS && next.as_mut().poll(&mut cx).is_pending());
        held.pop();
        assert!(next.await.is_some());
    }
}
