//! The pool of idle connections to origins.
//!
//! The state of an idle connection is checked when it is taken, and by a periodic sweep, which also closes connections
//! that were idle for too long.
//!
//! Bytes that an origin sends behind a response are detected if they have arrived when the response was read, or when
//! the connection is taken for another request. The connection is then closed, and the origin is remembered
//! ([`CarelessOrigins`]). Bytes that arrive after that check and before the response cannot be distinguished from the
//! response: they reach a client, and are stored, as the response to a request to the same scheme, host and port through
//! the same kind of listener, never as the response of another origin. The true response is then left over. So a
//! connection that has carried several requests is swept as soon as something arrives on it, and what was stored from it
//! is removed if a response is among that. Other bytes, such as content that is longer than its announced length, show
//! that nothing was taken for a response.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::unconstrained;
use tokio::time::timeout;

use super::careless::CarelessOrigins;
use super::common::Common;
use super::connection::Connection;
use super::quota::{Quota, QuotaPermit};
use super::resolve::Resolver;
use crate::base::clock;
use crate::net::stream::{State, Surplus};

/// Interval between sweeps of unusable connections.
const SWEEP: Duration = Duration::from_secs(2);
/// Maximum of idle connections to one origin, on one worker.
const MOST: usize = 256;

type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// The idle connections of one client.
#[derive(Debug)]
pub(super) struct Idle {
    waiting: Mutex<IdleTable>,
    quota: Arc<Quota>,
    careless: Arc<CarelessOrigins>,
    resolver: Arc<Resolver>,
    stirred: Arc<SweepWaker>,
    /// Wakes `stirred`.
    waker: Waker,
}

/// Wakes the sweep when something arrives on an idle connection.
#[derive(Debug, Default)]
struct SweepWaker(Notify);

impl Wake for SweepWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[derive(Debug, Default)]
struct IdleTable {
    /// Connections by authority: first without TLS, then with TLS.
    connections: [HashMap<Box<str>, Vec<IdleEntry>>; 2],
    swept: bool,
}

#[derive(Debug)]
struct IdleEntry {
    connection: Box<Connection>,
    /// The beginning of the idle time, in `clock::millis`.
    since: u64,
    _counted: QuotaPermit,
}

impl Idle {
    /// Creates an empty pool.
    pub(super) fn new(common: &Common) -> Arc<Self> {
        let (quota, careless) = (Arc::clone(&common.quota), Arc::clone(&common.careless));
        let resolver = Arc::clone(&common.resolver);
        let stirred = Arc::<SweepWaker>::default();
        let waker = Waker::from(Arc::clone(&stirred));
        Arc::new(Self { waiting: Mutex::default(), quota, careless, resolver, stirred, waker })
    }

    /// Whether the origin has sent an unsolicited response lately.
    pub(super) fn distrusts(&self, https: bool, authority: &str) -> bool {
        self.careless.is_marked(https, authority, Surplus::Response)
    }

    /// Takes a usable connection to `authority`, the most recently used one first.
    pub(super) fn take(&self, https: bool, authority: &str) -> Option<Box<Connection>> {
        if self.careless.is_marked(https, authority, Surplus::Bytes) {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let to_it = waiting.connections[usize::from(https)].get_mut(authority)?;
        while let Some(mut one) = to_it.pop() {
            match one.connection.state() {
                State::Quiet if one.is_young() && !one.connection.has_left(&self.resolver) => {
                    return Some(one.connection);
                }
                State::Quiet | State::Closed => {}
                State::Talks(surplus) => {
                    drop(waiting);
                    self.distrust(&one.connection, surplus);
                    return None;
                }
            }
        }
        None
    }

    /// Adds a connection to the pool, in place of the longest idle one if the quota is exhausted.
    pub(super) fn put(self: &Arc<Self>, connection: Box<Connection>) {
        let (https, authority) = connection.target();
        if self.distrusts(https, authority) {
            self.withdraw(&connection);
        }
        if self.careless.is_marked(https, authority, Surplus::Bytes) {
            return;
        }
        if !connection.suspects.is_empty() && connection.has_stirred(&self.waker) {
            self.waker.wake_by_ref();
        }
        let mut waiting = self.waiting.lock();
        let counted = self.quota.count().or_else(|| {
            waiting.close_oldest();
            self.quota.count()
        });
        let Some(counted) = counted else { return };
        if !std::mem::replace(&mut waiting.swept, true) {
            // Without a budget, which a sweep of many connections would exceed.
            tokio::spawn(unconstrained(sweep(Arc::downgrade(self), Arc::clone(&self.stirred))));
        }
        let connections = &mut waiting.connections[usize::from(https)];
        let since = clock::millis();
        match connections.get_mut(authority) {
            Some(to_it) if to_it.len() < MOST => {
                to_it.push(IdleEntry { connection, since, _counted: counted })
            }
            Some(_) => {}
            None => {
                let authority = Box::from(authority);
                connections.insert(authority, vec![IdleEntry { connection, since, _counted: counted }]);
            }
        }
    }

    /// Remembers that the origin of this connection sent more bytes than its response. If a response is among them,
    /// removes what was stored from the connection.
    pub(super) fn distrust(&self, connection: &Connection, surplus: Surplus) {
        let (https, authority) = connection.target();
        self.careless.mark(https, authority, surplus);
        if surplus == Surplus::Response {
            self.withdraw(connection);
        }
    }

    /// Removes what was stored from this connection.
    pub(super) fn withdraw(&self, connection: &Connection) {
        self.careless.withdraw(&connection.suspects);
    }

    /// Drops unusable connections among all, or among those on which something may have arrived. Returns false when none
    /// is left.
    fn sweep(&self, only_stirred: bool) -> bool {
        let mut suspects = Vec::new();
        let mut waiting = self.waiting.lock();
        for (https, connections) in waiting.connections.iter_mut().enumerate() {
            connections.retain(|authority, to_it| {
                to_it.retain_mut(|one| {
                    if only_stirred && !one.connection.has_stirred(&self.waker) {
                        return true;
                    }
                    match one.connection.state() {
                        State::Quiet => one.is_young() && !one.connection.has_left(&self.resolver),
                        State::Closed => false,
                        State::Talks(surplus) => {
                            self.careless.mark(https == 1, authority, surplus);
                            if surplus == Surplus::Response {
                                suspects.push(std::mem::take(&mut one.connection.suspects));
                            }
                            false
                        }
                    }
                });
                !to_it.is_empty()
            });
        }
        waiting.swept = waiting.connections.iter().any(|connections| !connections.is_empty());
        let is_left = waiting.swept;
        drop(waiting);
        suspects.iter().for_each(|suspects| self.careless.withdraw(suspects));
        is_left
    }
}

impl IdleTable {
    /// Closes the connection that was idle for the longest time.
    #[cold]
    fn close_oldest(&mut self) {
        let since = |to_it: &[IdleEntry]| to_it.first().map(|one| one.since);
        let oldest = self.connections.iter().flat_map(HashMap::values).filter_map(|to_it| since(to_it)).min();
        for connections in &mut self.connections {
            let found = connections.iter_mut().find(|(_, to_it)| !to_it.is_empty() && since(to_it) == oldest);
            if let Some((_, to_it)) = found {
                to_it.remove(0);
                return;
            }
        }
    }
}

impl IdleEntry {
    fn is_young(&self) -> bool {
        clock::millis() < self.since + self.connection.patience
    }
}

/// Sweeps until the pool is empty or dropped.
async fn sweep(idle: Weak<Idle>, stirred: Arc<SweepWaker>) {
    loop {
        let has_stirred = timeout(SWEEP, stirred.0.notified()).await.is_ok();
        if !idle.upgrade().is_some_and(|idle| idle.sweep(has_stirred)) {
            return;
        }
    }
}
