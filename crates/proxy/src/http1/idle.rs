//! Holds connections that wait for their next request, and answers requests from memory.
//!
//! A worker has one task that holds all idle connections. It serves the ready ones in groups: it reads from all
//! connections of a group, then answers all, then sends to all, so that the processor's cache still holds the
//! instructions of each step. A request that memory cannot answer at once moves its connection to a separate task,
//! until the connection is idle again. The replies of such tasks are sent one after the other, too.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use larder_stats::BatchSums;
use parking_lot::Mutex;
use slab::Slab;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

use super::connection::{Connection, InputResult};
use crate::base::{clock, in_place};
use crate::exchange::plan::Plan;
use crate::features::arrive::Client;
use crate::flow::drain::{ConnectionPermit, Drain};
use crate::flow::worker::Worker;
use crate::net::io::{ReadHalf, WriteHalf};

/// The connections that are served as a group: their buffers should fit into the first-level cache.
const GROUP: usize = 16;
/// The connections that are served before other tasks run.
const TURN: usize = 4 * GROUP;
/// The shortest time between two searches for connections whose idle timeout has passed.
const SWEEP: Duration = Duration::from_millis(20);
/// The idle time after which a connection releases resources that are cheap to allocate again, and the shortest time
/// between two checks for it.
const DOZE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(250);
/// The time that a client has for its next request after the beginning of a drain that is not in a hurry.
const GRACE: Duration = Duration::from_secs(5);

/// The idle connections of a worker, as other tasks access them. No other worker's data share its cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct IdleConnections(Mutex<Inbox>);

/// Messages for the task.
#[derive(Default)]
struct Inbox {
    /// Connections that have become idle.
    #[expect(clippy::vec_box, reason = "they come and go boxed")]
    arrivals: Vec<Box<Connection>>,
    /// Slots of connections that are ready.
    calls: Vec<usize>,
    task: Option<Waker>,
}

/// Notifies the task that a connection is ready.
struct ConnectionWaker {
    shared: Arc<IdleConnections>,
    place: usize,
}

struct IdleConnection {
    connection: Box<Connection>,
    /// The time since which it has been idle, in `clock::millis`.
    since: u64,
    /// Whether it has released resources that are cheap to allocate again.
    dozes: bool,
    /// Whether it is closed after the reply in its buffer.
    ends: bool,
}

/// The state of the task.
struct IdleLoop {
    worker: Arc<Worker>,
    shared: Arc<IdleConnections>,
    plan: Arc<Plan>,
    connections: Slab<IdleConnection>,
    /// The wakers of all slots that have been used.
    wakers: Vec<Waker>,
    /// Slots of ready connections that have not been served.
    calls: Vec<usize>,
    /// Slots of connections that have arrived with replies in their buffers.
    replied: Vec<usize>,
    /// The connections of the current group that get a reply.
    served: Vec<usize>,
    drain: Drain,
    /// The drain in which idle connections wait for their last request: since when, and whether the process ends then.
    last: Option<(u64, bool)>,
    sweep: Pin<Box<Sleep>>,
    /// Whether a connection has arrived, or a shrunk one has been used.
    has_woken: bool,
}

impl IdleConnections {
    /// Serves HTTP to a client on the two halves of its connection: HTTP/1.1, or HTTP/2 if the client begins with that.
    pub(crate) fn serve(
        &self,
        worker: &Arc<Worker>,
        client: Client,
        ends: (ReadHalf, WriteHalf),
        permit: ConnectionPermit,
    ) {
        self.enter(Box::new(Connection::new(Arc::clone(worker), client, ends, permit)));
    }

    /// Adds a connection that waits for its next request, and sends the replies in its buffer.
    fn enter(&self, connection: Box<Connection>) {
        let mut inbox = self.0.lock();
        inbox.arrivals.push(connection);
        inbox.notify();
    }

    fn call(&self, place: usize) {
        let mut inbox = self.0.lock();
        inbox.calls.push(place);
        inbox.notify();
    }
}

impl Inbox {
    fn notify(&self) {
        if let (Some(task), 1) = (&self.task, self.arrivals.len() + self.calls.len()) {
            task.wake_by_ref();
        }
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.call(self.place);
    }
}

/// Serves the idle connections of a worker; does not return.
pub(crate) async fn run(worker: Arc<Worker>, shared: Arc<IdleConnections>) {
    let plan = worker.plan();
    let (drain, sweep) = (Drain::new(&worker), Box::pin(sleep(plan.settings.timeouts.idle)));
    let mut task = IdleLoop {
        worker,
        shared,
        plan,
        connections: Slab::new(),
        wakers: Vec::new(),
        calls: Vec::new(),
        replied: Vec::new(),
        served: Vec::new(),
        drain,
        last: None,
        sweep,
        has_woken: false,
    };
    // The cooperative budget of the runtime would end a turn in the middle of a group.
    unconstrained(poll_fn(|cx| task.poll(cx))).await
}

/// Answers the requests of a connection until it is idle again.
async fn go_on(
    connection: Box<Connection>,
    plan: Arc<Plan>,
    look: InputResult,
    shared: Arc<IdleConnections>,
) {
    if let Some(connection) = connection.go_on(plan, look).await {
        shared.enter(connection);
    }
}

impl IdleLoop {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.worker.is_outdated(&self.plan) {
            self.plan = self.worker.plan();
        }
        self.take_in(cx);
        let (mut replied, now) = (std::mem::take(&mut self.replied), clock::millis());
        replied.drain(..).for_each(|place| self.send(place, now));
        self.replied = replied;
        let mut calls = std::mem::take(&mut self.calls);
        let turn = calls.len().min(TURN);
        // The end time of one group is the start time of the next.
        calls[..turn].chunks(GROUP).fold(Instant::now(), |begun, group| self.serve(group, begun));
        calls.drain(..turn);
        self.calls = calls;
        if !self.calls.is_empty() {
            cx.waker().wake_by_ref();
        } else if self.drain.poll(cx) {
            self.leave_in_peace();
        } else {
            self.last = None;
        }
        self.sweep(cx);
        Poll::Pending
    }

    /// Gives each connection the time for a last request; or only new ones if the process ends, and closes the others.
    fn leave_in_peace(&mut self) {
        let ends = !self.worker.shared.phases.has_time();
        if self.last.is_none_or(|(_, ended)| ended != ends) {
            let now = clock::millis();
            self.last = Some((now, ends));
            self.connections.iter_mut().for_each(|(_, idle)| idle.since = now);
            let end = Instant::now() + self.patience();
            self.sweep.as_mut().reset(end);
        }
        if ends {
            self.close(|idle| !idle.connection.is_new);
        }
    }

    /// Returns how long a connection waits for its next request.
    fn patience(&self) -> Duration {
        let idle = self.plan.settings.timeouts.idle;
        match self.last {
            None => idle,
            Some((_, false)) => idle.min(GRACE),
            Some((_, true)) => idle.min(self.worker.shared.last_wait()),
        }
    }

    /// Closes the connections that `is_over` accepts.
    fn close(&mut self, is_over: impl Fn(&IdleConnection) -> bool) {
        let over = self.connections.iter().filter_map(|(place, idle)| is_over(idle).then_some(place));
        let over: Vec<_> = over.collect();
        over.into_iter().for_each(|place| self.connections.remove(place).connection.close());
    }

    /// Takes the messages from the inbox.
    fn take_in(&mut self, cx: &Context<'_>) {
        let arrivals = {
            let mut inbox = self.shared.0.lock();
            if !inbox.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                inbox.task = Some(cx.waker().clone());
            }
            self.calls.append(&mut inbox.calls);
            std::mem::take(&mut inbox.arrivals)
        };
        let since = match self.last {
            Some((since, true)) => since,
            _ => clock::millis(),
        };
        self.has_woken |= !arrivals.is_empty();
        for connection in arrivals {
            let entry = self.connections.vacant_entry();
            let place = entry.key();
            let (has_reply, is_amid) =
                (!connection.writing.out.is_empty(), connection.reading.is_amid_record());
            entry.insert(IdleConnection { connection, since, dozes: false, ends: false });
            // Slots are used in order, and again.
            if place == self.wakers.len() {
                let shared = Arc::clone(&self.shared);
                self.wakers.push(Waker::from(Arc::new(ConnectionWaker { shared, place })));
            }
            if has_reply {
                self.replied.push(place);
            }
            // Sending its reply also looks for more input.
            if !has_reply || is_amid {
                self.calls.push(place);
            }
        }
    }

    /// Serves a group, which begins at `begun`; returns the end time.
    fn serve(&mut self, group: &[usize], begun: Instant) -> Instant {
        let mut hits = 0;
        let mut served = std::mem::take(&mut self.served);
        served.extend(group.iter().filter(|&&place| self.read(place)));
        let worker = Arc::clone(&self.worker);
        let mut sheet = worker.witness.sheet();
        served.retain(|&place| self.answer(place, sheet.as_deref_mut(), begun, &mut hits));
        drop(sheet);
        let now = clock::millis();
        served.drain(..).for_each(|place| self.send(place, now));
        self.served = served;
        let ended = Instant::now();
        self.worker.times.served_as_group(hits, ended - begun);
        ended
    }

    /// Reads from a connection; returns whether bytes have arrived.
    fn read(&mut self, place: usize) -> bool {
        let Some(idle) = self.connections.get_mut(place) else { return false };
        let cx = &mut Context::from_waker(&self.wakers[place]);
        match idle.connection.poll_receive(cx, &self.plan) {
            Poll::Pending => {
                if idle.connection.awaits_record(&self.plan) {
                    self.leave(place, InputResult::Partial);
                }
                false
            }
            Poll::Ready(Ok(1..)) => true,
            Poll::Ready(Ok(0) | Err(_)) => {
                let IdleConnection { connection, since, .. } = self.connections.remove(place);
                connection.client_left(Duration::from_millis(clock::millis().saturating_sub(since)));
                false
            }
        }
    }

    /// Answers the requests of a connection, and adds to the group's hits. Returns whether all replies can be sent from
    /// here; if not, the connection moves to a separate task.
    fn answer(
        &mut self,
        place: usize,
        sheet: Option<&mut BatchSums>,
        begun: Instant,
        hits: &mut u64,
    ) -> bool {
        let Some(idle) = self.connections.get_mut(place) else { return false };
        let look = idle.connection.look(&self.plan, sheet, begun.into_std());
        *hits += idle.connection.take_untimed();
        match look {
            InputResult::Nothing => true,
            InputResult::Last if idle.connection.writing.conclude().is_ok() => {
                idle.ends = true;
                true
            }
            look => {
                self.leave(place, look);
                false
            }
        }
    }

    fn send(&mut self, place: usize, now: u64) {
        let Some(idle) = self.connections.get_mut(place) else { return };
        idle.since = now;
        self.has_woken |= std::mem::take(&mut idle.dozes);
        match (idle.connection.try_send(), idle.ends) {
            (Ok(true), false) => {
                let cx = &mut Context::from_waker(&self.wakers[place]);
                if idle.connection.poll_ready(cx).is_ready() {
                    self.shared.call(place);
                }
            }
            (Ok(false), false) => self.leave(place, InputResult::Nothing),
            (Ok(false), true) => self.leave(place, InputResult::Last),
            (Ok(true), true) => self.connections.remove(place).connection.close(),
            (Err(_), _) => drop(self.connections.remove(place)),
        }
    }

    /// Moves a connection to a separate task.
    fn leave(&mut self, place: usize, look: InputResult) {
        let mut connection = self.connections.remove(place).connection;
        if matches!(look, InputResult::Ask(_)) {
            connection.release_buffers();
        }
        let (plan, shared) = (Arc::clone(&self.plan), Arc::clone(&self.shared));
        // Boxed, the future is not moved with the task.
        tokio::spawn(in_place::pinned(|| go_on(connection, plan, look, shared)));
    }

    /// Closes connections whose idle timeout has passed, and shrinks those that have been idle for a while.
    fn sweep(&mut self, cx: &mut Context<'_>) {
        let soon = std::mem::take(&mut self.has_woken).then(|| Instant::now() + DOZE);
        if let Some(soon) = soon.filter(|soon| *soon < self.sweep.deadline()) {
            self.sweep.as_mut().reset(soon);
        }
        while self.sweep.as_mut().poll(cx).is_ready() {
            let now = clock::millis();
            let since = now.saturating_sub(self.patience().as_millis() as u64);
            self.close(|idle| idle.since <= since);
            let oldest = self.connections.iter().map(|(_, idle)| idle.since).min().unwrap_or(now);
            let wait = Duration::from_millis(oldest - since).max(SWEEP);
            let wait = self.shrink(now).map_or(wait, |next| wait.min(next));
            self.sweep.as_mut().reset(Instant::now() + wait);
        }
    }

    /// Shrinks connections; returns the time until the next check, if some are yet to be shrunk.
    fn shrink(&mut self, now: u64) -> Option<Duration> {
        let mut next = None;
        for (_, idle) in self.connections.iter_mut().filter(|(_, idle)| !idle.dozes) {
            let since = Duration::from_millis(now.saturating_sub(idle.since));
            if since >= DOZE {
                idle.connection.reading.shrink();
                idle.connection.writing.shrink();
                idle.dozes = true;
            } else {
                next = Some(next.map_or(DOZE - since, |next: Duration| next.min(DOZE - since)));
            }
        }
        next.map(|next| next.max(LOOK))
    }
}
