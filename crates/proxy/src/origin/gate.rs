//! Bounds the requests to origins: so many at once, so many waiting, and no more (report B, row B1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for requests to origins, shared by all workers.
#[derive(Debug)]
pub struct Gate {
    places: Arc<Semaphore>,
    all: usize,
    waiting: AtomicUsize,
    queue: usize,
}

/// A place, given back on drop.
#[derive(Debug)]
pub struct Place(#[allow(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// All places are taken and the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Gate {
    /// `places` at once, `queue` waiting.
    pub fn new(places: usize, queue: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), all: places, waiting: AtomicUsize::new(0), queue }
    }

    /// A place, if one is free.
    pub fn try_enter(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok().map(Place)
    }

    /// A place: at once, after waiting, or never.
    ///
    /// # Errors
    /// [`Full`] when the queue is.
    pub async fn enter(&self) -> Result<Place, Full> {
        if let Some(place) = self.try_enter() {
            return Ok(place);
        }
        let _waiting = self.queue_up()?;
        Arc::clone(&self.places).acquire_owned().await.map(Place).map_err(|_| Full)
    }

    /// Requests under way, and waiting.
    pub fn occupancy(&self) -> (usize, usize) {
        let free = self.places.available_permits();
        (self.all.saturating_sub(free), self.waiting.load(Ordering::Relaxed))
    }

    fn queue_up(&self) -> Result<Waiting<'_>, Full> {
        let waiting = Waiting(&self.waiting);
        match self.waiting.fetch_add(1, Ordering::Relaxed) < self.queue {
            true => Ok(waiting),
            false => Err(Full),
        }
    }
}

struct Waiting<'g>(&'g AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn beyond_the_queue_requests_are_refused_at_once() {
        let gate = Arc::new(Gate::new(1, 1));
        let place = gate.enter().await.unwrap();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter().await.map(drop) }
        });
        while gate.occupancy() != (1, 1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(gate.enter().await.unwrap_err(), Full);
        drop(place);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(gate.occupancy(), (0, 0));
    }
}
