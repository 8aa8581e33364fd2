//! Where connections wait for their next request, and where memory answers it.
//!
//! A worker has one lobby: a task that holds every connection with nothing under way. It takes those
//! that have something to say in groups: reads from all of a group, then answers all, then sends to
//! all. Doing one thing many times over, the processor still has the instructions at hand the second
//! time. What memory cannot answer at once leaves for a task of its own, and comes back afterwards.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use larder_stats::Sheet;
use slab::Slab;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

use super::connection::{Connection, Look};
use crate::base::clock;
use crate::exchange::plan::Plan;
use crate::flow::drain::Drain;
use crate::flow::worker::Worker;

/// Connections that are served as a group: their buffers should fit into the first-level cache.
const GROUP: usize = 16;
/// Connections that are served before other tasks have their turn.
const TURN: usize = 4 * GROUP;
/// The least time between two searches for connections that were idle for too long.
const SWEEP: Duration = Duration::from_millis(20);

/// The way into a worker's lobby.
#[derive(Default)]
pub(crate) struct Lobby(Mutex<Desk>);

/// What is to be told to the lobby's task.
#[derive(Default)]
struct Desk {
    /// Connections on their way in.
    #[expect(clippy::vec_box, reason = "they come and go boxed")]
    arrivals: Vec<Box<Connection>>,
    /// Places of guests that have something to say.
    calls: Vec<usize>,
    host: Option<Waker>,
}

/// Tells the lobby that a guest has something to say.
struct Bell {
    lobby: Arc<Lobby>,
    place: usize,
}

struct Guest {
    connection: Box<Connection>,
    bell: Waker,
    /// Since when it has been idle, in `clock::millis`.
    since: u64,
}

/// The lobby's task.
struct Host {
    worker: Arc<Worker>,
    lobby: Arc<Lobby>,
    plan: Arc<Plan>,
    guests: Slab<Guest>,
    /// Calls that have not been answered.
    calls: Vec<usize>,
    /// Of the group that is being served, those who get a reply.
    served: Vec<usize>,
    drain: Drain,
    sweep: Pin<Box<Sleep>>,
}

impl Lobby {
    /// Lets a connection wait for its next request; it must have nothing left to send.
    pub(crate) fn enter(&self, connection: Box<Connection>) {
        let mut desk = self.desk();
        desk.arrivals.push(connection);
        desk.notify();
    }

    fn call(&self, place: usize) {
        let mut desk = self.desk();
        desk.calls.push(place);
        desk.notify();
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn notify(&self) {
        if let (Some(host), 1) = (&self.host, self.arrivals.len() + self.calls.len()) {
            host.wake_by_ref();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.lobby.call(self.place);
    }
}

/// Serves the guests of a worker's lobby for ever.
pub(crate) async fn host(worker: Arc<Worker>, lobby: Arc<Lobby>) {
    let plan = worker.plan();
    let (drain, sweep) = (Drain::new(&worker), Box::pin(sleep(plan.settings.timeouts.idle)));
    let mut host = Host {
        worker,
        lobby,
        plan,
        guests: Slab::new(),
        calls: Vec::new(),
        served: Vec::new(),
        drain,
        sweep,
    };
    // The runtime's own measure of a fair share would end a turn in the middle of a group.
    unconstrained(poll_fn(|cx| host.poll(cx))).await
}

impl Host {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.worker.is_outdated(&self.plan) {
            self.plan = self.worker.plan();
        }
        self.attend(cx);
        let mut calls = std::mem::take(&mut self.calls);
        let turn = calls.len().min(TURN);
        // The end of one group is the beginning of the next.
        calls[..turn].chunks(GROUP).fold(Instant::now(), |begun, group| self.serve(group, begun));
        calls.drain(..turn);
        self.calls = calls;
        if !self.calls.is_empty() {
            cx.waker().wake_by_ref();
        } else if self.drain.poll(cx) {
            self.guests.drain().for_each(|guest| guest.connection.part());
        }
        self.sweep(cx);
        Poll::Pending
    }

    /// Takes from the desk what has come in.
    fn attend(&mut self, cx: &Context<'_>) {
        let arrivals = {
            let mut desk = self.lobby.desk();
            if !desk.host.as_ref().is_some_and(|host| host.will_wake(cx.waker())) {
                desk.host = Some(cx.waker().clone());
            }
            self.calls.append(&mut desk.calls);
            std::mem::take(&mut desk.arrivals)
        };
        let since = clock::millis();
        for connection in arrivals {
            let seat = self.guests.vacant_entry();
            let place = seat.key();
            let bell = Waker::from(Arc::new(Bell { lobby: Arc::clone(&self.lobby), place }));
            seat.insert(Guest { connection, bell, since });
            self.calls.push(place);
        }
    }

    /// Serves a group, which begins at `begun`; returns when it ended.
    fn serve(&mut self, group: &[usize], begun: Instant) -> Instant {
        let mut hits = 0;
        let mut served = std::mem::take(&mut self.served);
        served.extend(group.iter().filter(|&&place| self.read(place)));
        let worker = Arc::clone(&self.worker);
        let mut sheet = worker.sheet();
        served.retain(|&place| self.answer(place, sheet.as_deref_mut(), &mut hits));
        drop(sheet);
        let now = clock::millis();
        served.drain(..).for_each(|place| self.send(place, now));
        self.served = served;
        let ended = Instant::now();
        self.worker.times.served_as_group(hits, ended - begun);
        ended
    }

    /// Whether something has come from a guest.
    fn read(&mut self, place: usize) -> bool {
        let Some(guest) = self.guests.get_mut(place) else { return false };
        let cx = &mut Context::from_waker(&guest.bell);
        match guest.connection.poll_receive(cx, &self.plan) {
            Poll::Pending => {
                if guest.connection.awaits_record(&self.plan) {
                    self.show_out(place, Look::Partial);
                }
                false
            }
            Poll::Ready(Ok(1..)) => {
                if guest.connection.poll_ready(cx).is_ready() {
                    self.lobby.call(place);
                }
                true
            }
            Poll::Ready(Ok(0) | Err(_)) => {
                self.guests.remove(place).connection.part();
                false
            }
        }
    }

    /// Whether a guest can be sent all its replies from here; others leave. Adds to the group's hits.
    fn answer(&mut self, place: usize, sheet: Option<&mut Sheet>, hits: &mut u64) -> bool {
        let Some(guest) = self.guests.get_mut(place) else { return false };
        let look = guest.connection.look(&self.plan, sheet);
        *hits += guest.connection.take_untimed();
        match look {
            Look::Nothing => true,
            look => {
                self.show_out(place, look);
                false
            }
        }
    }

    fn send(&mut self, place: usize, now: u64) {
        let Some(guest) = self.guests.get_mut(place) else { return };
        guest.since = now;
        match guest.connection.try_send() {
            Ok(true) => {}
            Ok(false) => self.show_out(place, Look::Nothing),
            Err(_) => drop(self.guests.remove(place)),
        }
    }

    /// Lets a guest go on by itself.
    fn show_out(&mut self, place: usize, look: Look) {
        let connection = self.guests.remove(place).connection;
        tokio::spawn(connection.go_on(Arc::clone(&self.plan), look));
    }

    /// Closes connections that were idle for too long.
    fn sweep(&mut self, cx: &mut Context<'_>) {
        while self.sweep.as_mut().poll(cx).is_ready() {
            let (now, idle) = (clock::millis(), self.plan.settings.timeouts.idle);
            let since = now.saturating_sub(idle.as_millis() as u64);
            let is_over = |(place, guest): (usize, &Guest)| (guest.since <= since).then_some(place);
            let over: Vec<_> = self.guests.iter().filter_map(is_over).collect();
            over.into_iter().for_each(|place| self.guests.remove(place).connection.part());
            let oldest = self.guests.iter().map(|(_, guest)| guest.since).min().unwrap_or(now);
            let wait = Duration::from_millis(oldest - since).max(SWEEP);
            self.sweep.as_mut().reset(Instant::now() + wait);
        }
    }
}
