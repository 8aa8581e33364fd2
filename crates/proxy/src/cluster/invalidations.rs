//! The invalidations of the cluster on one node: the ones it publishes, its position in the stream, and how long that
//! position is trusted.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_cluster::message::Order;
use larder_cluster::{Demand, Floor, Follower, Point, Position};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use super::lease::Lease;
use super::session::LastLookup;
use super::stream::Stream;
use super::stream_position::StreamPositions;
use crate::base::clock;
use crate::base::settings::cluster::Settings;

/// The invalidations of this process.
#[derive(Debug)]
pub struct Invalidations {
    pub(crate) lease: Lease,
    pub(crate) stream: Stream,
    pub(crate) positions: StreamPositions,
    /// The position up to which the stream was obeyed: this node's answers to others are as recent as that.
    pub follower: watch::Sender<Follower>,
    /// The position up to which the stream was read, and the entries that this node has added: the answers of others
    /// to this node have to be as recent as that. Answers obtained after an entry was obeyed are not judged by that
    /// entry any more.
    floor: Mutex<Floor>,
    /// The ends of the stream that were found for clients that show positions.
    pub(super) looks: LastLookup,
    obeyed: AtomicU64,
    /// Hashes of orders that were in force here before they were published, the latest last, until they are read in the stream.
    in_force: Mutex<VecDeque<u64>>,
    hasher: RandomState,
}

/// The most [orders in force](Invalidations::in_force) that are remembered. Those beyond are obeyed again.
const IN_FORCE: usize = 1_024;

impl Invalidations {
    /// Continues from the place of the process before this one, whose stored responses this one has. Call it before the
    /// stream is followed.
    pub fn go_on_from(&self, follower: Follower) {
        self.positions.begin(follower.clone());
        self.follower.send_replace(follower);
    }

    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            lease: Lease::new(settings),
            stream: Stream::default(),
            positions: StreamPositions::default(),
            follower: watch::Sender::default(),
            floor: Mutex::default(),
            looks: LastLookup::default(),
            obeyed: AtomicU64::new(0),
            in_force: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Records that the stream was read up to here, before those entries are obeyed.
    pub(super) fn sees(&self, follower: Follower) {
        self.floor.lock().read(follower);
    }

    /// Records that an entry of this node is in the stream, before any client gets the answer.
    pub(super) fn added(&self, point: &Point) {
        self.floor.lock().added(point.clone(), clock::millis(), self.lease.lag());
    }

    /// Records that `order`, which is about to be published as one entry, is in force here.
    pub(super) fn in_force(&self, order: &Order) {
        let mut orders = self.in_force.lock();
        if orders.len() == IN_FORCE {
            orders.pop_front();
        }
        orders.push_back(self.hasher.hash_one(order));
    }

    /// Whether `order` of this node was in force before it was published. Obeyed again, it would remove what was fetched
    /// since then, such as the response to the change itself. No other node has sent an older response meanwhile (`floor`).
    pub(super) fn was_in_force(&self, order: &Order) -> bool {
        let hash = self.hasher.hash_one(order);
        let mut orders = self.in_force.lock();
        let found = orders.iter().position(|own| *own == hash);
        found.is_some_and(|at| orders.remove(at).is_some())
    }

    pub(super) fn obeyed(&self) {
        self.obeyed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the state of the invalidations for `/cluster` and the metrics.
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

    /// Returns the position that another node must have reached before this one asks it; `None`: this node asks no
    /// other node.
    pub(crate) fn place(&self) -> Option<String> {
        match self.floor.lock().demand(clock::millis()) {
            Demand::Nothing => Some(NOWHERE.to_owned()),
            Demand::Point(point) => Some(point.to_string()),
            Demand::Unknown => None,
        }
    }

    /// Whether a response is recent enough if no purge has reached it up to `position` of the engine process called
    /// `engine`.
    pub(super) fn accepts(&self, engine: &str, position: Position) -> bool {
        self.floor.lock().is_met(engine, position, clock::millis())
    }

    /// Whether this node has obeyed the stream up to `place`, which another node has reached.
    pub(crate) fn has_reached(&self, place: &str) -> bool {
        place == NOWHERE || is_at(&self.follower.borrow(), place)
    }

    /// Waits until this node has reached `place`, though no longer than for ordinary news. Returns whether it has.
    pub(crate) async fn reach(&self, place: &str) -> bool {
        let mut follower = self.follower.subscribe();
        let reached = follower.wait_for(|follower| is_at(follower, place));
        place == NOWHERE || matches!(tokio::time::timeout(self.patience(), reached).await, Ok(Ok(_)))
    }

    /// Returns how long a request waits because this node has not reached a position.
    pub(super) fn patience(&self) -> Duration {
        self.lease.lag().wait().min(PATIENCE)
    }
}

/// A node's state in the stream of purges.
#[derive(Clone, Debug, Serialize)]
pub struct InvalidationsReport {
    /// Whether stored responses may answer without revalidation.
    pub trusted: bool,
    /// Seconds since this node last knew of all purges; `None` if it never has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<f64>,
    /// The last entry of the stream that it has obeyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<String>,
    /// Orders that were published to other nodes.
    pub published: u64,
    /// Orders that could not be published at once, whether published since or waiting.
    pub(crate) late: u64,
    /// Orders that wait to be published.
    pub waiting: usize,
    /// Orders of other nodes that were put in force.
    pub obeyed: u64,
    /// How often everything had to be revalidated, since purges were unknown.
    pub distrusted: u64,
}

/// The place of a node that does not follow the stream yet: it knows of no purge that others might have missed.
const NOWHERE: &str = "-";
/// The longest wait of another node, or of a client, for this node to reach a position.
const PATIENCE: Duration = Duration::from_millis(250);

fn is_at(follower: &Follower, place: &str) -> bool {
    place.parse().is_ok_and(|point| follower.has_reached(&point))
}
