//! What nodes tell each other of purges, as one of them has it: what it says, how far it has listened, and for how long
//! that counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder_cluster::{Demand, Floor, Follower, Point, Position};
use serde::Serialize;
use tokio::sync::watch;

use super::lease::Lease;
use super::session::Looks;
use super::stream::Stream;
use super::stream_position::StreamPositions;
use crate::base::clock;
use crate::base::settings::cluster::Settings;

/// One per process.
#[derive(Debug)]
pub(crate) struct Invalidations {
    pub(crate) lease: Lease,
    pub(crate) stream: Stream,
    pub(crate) positions: StreamPositions,
    /// How far the stream was obeyed: what this node answers others with is as new as that.
    pub(crate) follower: watch::Sender<Follower>,
    /// How far it was read, and what this node has added: what others answer this node with has to be as new as that.
    /// What comes after something was obeyed is not judged by it any more.
    floor: Mutex<Floor>,
    /// What the stream was found to end with for clients that show positions.
    pub(super) looks: Looks,
    obeyed: AtomicU64,
}

impl Invalidations {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            lease: Lease::new(settings),
            stream: Stream::default(),
            positions: StreamPositions::default(),
            follower: watch::Sender::default(),
            floor: Mutex::default(),
            looks: Looks::default(),
            obeyed: AtomicU64::new(0),
        }
    }

    /// Says that the stream was read so far, before that is obeyed.
    pub(super) fn sees(&self, follower: Follower) {
        self.floor().read(follower);
    }

    /// Says that an entry of this node is in the stream, before any client is told.
    pub(super) fn added(&self, point: &Point) {
        self.floor().added(point.clone(), clock::millis(), self.lease.lag());
    }

    fn floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn obeyed(&self) {
        self.obeyed.fetch_add(1, Ordering::Relaxed);
    }

    /// What `/cluster` and the metrics show of it.
    pub(crate) fn report(&self) -> InvalidationsReport {
        InvalidationsReport {
            trusted: self.lease.holds(),
            lag_seconds: self.lease.age().map(|millis| millis as f64 / 1e3),
            position: self.follower.borrow().position().map(|position| position.to_string()),
            published: self.stream.added(),
            late: self.stream.failed(),
            waiting: self.stream.waiting(),
            obeyed: self.obeyed.load(Ordering::Relaxed),
            distrusted: self.lease.distrusted(),
        }
    }

    /// How far another node must have read before this one asks it; `None`: this one asks no other node.
    pub(crate) fn place(&self) -> Option<String> {
        match self.floor().demand(clock::millis()) {
            Demand::Nothing => Some(NOWHERE.to_owned()),
            Demand::Point(point) => Some(point.to_string()),
            Demand::Unknown => None,
        }
    }

    /// Whether a response is new enough of which it is known that nothing purged it up to `position` of the process of the
    /// engine called `engine`.
    pub(super) fn accepts(&self, engine: &str, position: Position) -> bool {
        self.floor().is_met(engine, position, clock::millis())
    }

    /// Whether this node has obeyed what another one has that is at `place`.
    pub(crate) fn has_reached(&self, place: &str) -> bool {
        place == NOWHERE || is_at(&self.follower.borrow(), place)
    }

    /// Waits for that, though no longer than for ordinary news.
    pub(crate) async fn reach(&self, place: &str) -> bool {
        let mut follower = self.follower.subscribe();
        let reached = follower.wait_for(|follower| is_at(follower, place));
        place == NOWHERE || matches!(tokio::time::timeout(self.patience(), reached).await, Ok(Ok(_)))
    }

    /// How long somebody waits because this node has heard less.
    pub(super) fn patience(&self) -> Duration {
        self.lease.lag().wait().min(PATIENCE)
    }
}

/// How a node stands with what is purged.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InvalidationsReport {
    /// Whether what is stored may answer without being validated.
    pub(crate) trusted: bool,
    /// For how long this node has not known of all that was purged; `None` if it never has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lag_seconds: Option<f64>,
    /// The last entry of the stream that it has obeyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<String>,
    /// Orders that others were told.
    pub(crate) published: u64,
    /// Of those and of what waits, the ones that could not be told at once.
    pub(crate) late: u64,
    /// Orders that wait to be told.
    pub(crate) waiting: usize,
    /// Orders of others that were put in force.
    pub(crate) obeyed: u64,
    /// How often everything had to be validated, since it was unknown what was purged.
    pub(crate) distrusted: u64,
}

/// Stands for the place of a node that follows nothing yet: it knows of no purge that others might have missed.
const NOWHERE: &str = "-";
/// How long a node that is asked lets another one, or a client, wait because it has heard less.
const PATIENCE: Duration = Duration::from_millis(250);

fn is_at(follower: &Follower, place: &str) -> bool {
    place.parse().is_ok_and(|point| follower.has_reached(&point))
}
