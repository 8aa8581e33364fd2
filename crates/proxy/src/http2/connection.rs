//! A client's connection: reads frames, answers requests from memory, and sends the frames of its streams.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Method;
use larder_http2::hpack::Bounds;
use larder_http2::{Code, Event, Failure, Head as Received, LINGER, Limits, Scratch};
use larder_stats::BatchSums;

use super::session::{Session, State};
use super::stream::Stream;
use crate::base::clock;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::target::HashedKey;
use crate::features::arrive::{Client, NO_REPLY, Step};
use crate::flow::drain::{ConnectionPermit, Drain};
use crate::flow::serve;
use crate::flow::worker::Worker;
use crate::http::head::{HEAD_TOO_LARGE, MOST_FIELDS, NO_LINE, Refusal, RequestHead};
use crate::net::deadline::Deadline;
use crate::net::io::{ReadHalf, WriteHalf};
use crate::net::linger;
use crate::observe::memo::RequestRecord;
use crate::wire::exchange::{FlowRequest, ReplyStart, answer, finish, too_large};
use crate::wire::request::{self, FEW, FEWEST};
use crate::wire::{stream, tunnel};

/// Bytes of replies after which a turn ends and sends them. With twice as many, a reply of 1 KiB costs 2% more CPU time.
const TURN: u64 = 32 << 10;

/// How long a client without requests may take to acknowledge the end of the connection.
const FAREWELL: Duration = Duration::from_secs(1);

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A client's connection.
pub(crate) struct Connection {
    desk: Responder,
    session: Arc<Session>,
    reading: ReadHalf,
    deadline: Deadline,
    awaits: WaitPhase,
}

/// The part of a connection that answers requests.
struct Responder {
    worker: Arc<Worker>,
    session: Arc<Session>,
    client: Client,
    key: HashedKey,
    /// Hits whose duration has not been counted.
    untimed: u64,
    /// Replies to refused requests, with their lengths in bytes, which have not been recorded yet.
    refused: Vec<(Reply, u64, Option<Box<RequestRecord>>)>,
}

/// The event that a connection waits for, which determines the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPhase {
    /// The rest of a frame, or of a field section.
    Rest,
    /// The next request.
    Request,
    /// The answers to requests.
    Answers,
    /// Unwanted content of requests that are answered.
    Unwanted,
    /// The end of the connection.
    End,
}

/// A stream that a client has opened with a request.
#[derive(Clone, Copy)]
struct OpenStream {
    stream: u32,
    /// Whether the request has no content.
    end: bool,
}

/// A request that is refused.
struct StreamRefusal {
    stream: u32,
    /// Whether its method is HEAD.
    head_only: bool,
    refusal: Refusal,
    memo: Option<Box<RequestRecord>>,
}

/// The result of a turn.
enum Turn {
    /// All complete frames have been read.
    Read {
        /// Whether there were any.
        any: bool,
    },
    /// The buffer is full and has to be sent first.
    Full,
    /// The client has violated a rule of the whole connection.
    Failed(Failure),
}

/// The reason why a waiting connection continues.
enum WakeReason {
    /// Bytes have arrived, or there is something to send.
    Work,
    /// The process drains.
    Drain,
    /// The time limit has passed.
    Late,
    /// The client has closed the connection.
    Left,
}

impl Connection {
    /// Creates a connection with a client, which continues after the bytes that have been read.
    pub(crate) fn new(
        worker: &Arc<Worker>,
        client: Client,
        (reading, mut writing): (ReadHalf, WriteHalf),
        permit: ConnectionPermit,
    ) -> Self {
        let limits = &worker.plan().settings.limits;
        let head = Bounds { bytes: limits.head_bytes, fields: limits.head_fields.min(MOST_FIELDS) };
        let limits = Limits { streams: limits.streams, head, ..Limits::default() };
        writing.wake_for_frames();
        let wire = larder_http2::Connection::new(limits, &mut writing.out);
        let session = Arc::new(Session::new(wire, writing, (client.address.ip(), &worker.shared), permit));
        let (worker, shared) = (Arc::clone(worker), Arc::clone(&session));
        let desk = Responder {
            worker,
            session: shared,
            client,
            key: HashedKey::default(),
            untimed: 0,
            refused: Vec::new(),
        };
        let deadline = Deadline::new(Duration::ZERO);
        Self { desk, session, reading, deadline, awaits: WaitPhase::End }
    }

    /// Serves the client until it leaves.
    pub(crate) async fn serve(mut self) {
        let result = self.run().await;
        self.session.state().close();
        match result {
            Ok(()) => Box::pin(self.end()).await,
            Err(error) => {
                let mut state = self.session.state();
                state.writing.send_alert(&error);
                state.writing.notify();
                tracing::trace!(client = %self.desk.client.address, "connection ended: {error}");
            }
        }
        // Tasks of streams may hold the socket for longer.
        self.session.state().writing.shut();
    }

    /// Lets the client read the last frames before the connection is closed.
    async fn end(&mut self) {
        if poll_fn(|cx| self.session.state().writing.poll_finish_in_time(cx)).await.is_ok() {
            linger::wait(&mut self.reading).await;
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        let worker = Arc::clone(&self.desk.worker);
        let mut plan = worker.plan();
        let mut drain = Some(Drain::new(&worker));
        loop {
            if worker.is_outdated(&plan) {
                plan = worker.plan();
            }
            let begun = Instant::now();
            let turn = self.turn(&plan);
            worker.times.served_as_group(std::mem::take(&mut self.desk.untimed), begun.elapsed());
            self.desk
                .refused
                .drain(..)
                .for_each(|(reply, bytes, memo)| worker.witness.replied(&plan, &reply, bytes, memo));
            self.flush().await?;
            let any = match turn {
                Turn::Full => continue,
                Turn::Failed(failure) => {
                    tracing::debug!(client = %self.desk.client.address, "connection refused: {failure}");
                    return Ok(());
                }
                Turn::Read { any } => any,
            };
            if self.session.state().wire.is_done() {
                return Ok(());
            }
            let (awaits, limit) = self.waits_for(&plan, drain.as_ref());
            if any || awaits != self.awaits {
                self.awaits = awaits;
                self.deadline.set(limit);
            }
            match poll_fn(|cx| self.poll_woken(cx, drain.as_mut())).await? {
                WakeReason::Work => {}
                WakeReason::Drain => {
                    drain = None;
                    self.say(|state| state.wire.drain(&mut state.writing.out));
                }
                WakeReason::Late if self.awaits == WaitPhase::Unwanted => self.deadline.restart(),
                WakeReason::Late if self.awaits == WaitPhase::Answers && !self.is_silent() => {
                    self.say(|state| state.wire.ping(&mut state.writing.out));
                    self.deadline.restart();
                }
                WakeReason::Late => {
                    self.say(|state| state.wire.go_away(&mut state.writing.out, Code::NO_ERROR));
                    return self.flush().await;
                }
                WakeReason::Left => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    fn say(&self, write: impl FnOnce(&mut State)) {
        let mut state = self.session.state();
        state.writing.wake_for_frames();
        write(&mut state);
    }

    /// Whether the client has not acknowledged a ping.
    fn is_silent(&self) -> bool {
        self.session.state().wire.is_pinged()
    }

    /// Reads all complete frames that have arrived, and answers the requests that need no waiting.
    fn turn(&mut self, plan: &Arc<Plan>) -> Turn {
        let worker = Arc::clone(&self.desk.worker);
        let mut sheet = worker.witness.sheet();
        let mut state = self.session.state();
        state.begin_turn();
        let (now, mut any, before) = (clock::millis(), false, state.writing.written());
        let turn = SCRATCH.with_borrow_mut(|scratch| {
            loop {
                // A client that does not read replies must not make them accumulate here. Frames that streams have
                // written meanwhile do not count against the limit.
                if state.writing.written() - before >= TURN {
                    return Turn::Full;
                }
                let State { wire, writing, .. } = &mut *state;
                let next = wire.next(self.reading.input.unread(), scratch, &mut writing.out, now);
                // Borrowed, the head of a request is not moved.
                let (used, event) = match &next {
                    Ok((_, Event::More)) => return Turn::Read { any },
                    Ok((used, event)) => (*used, event),
                    Err(failure) => return Turn::Failed(*failure),
                };
                any |= !matches!(event, Event::Nothing);
                self.desk.handle(&mut state, plan, event, sheet.as_deref_mut());
                self.reading.input.consume(used);
            }
        });
        let State { wire, writing, .. } = &mut *state;
        wire.linger(&mut writing.out, now);
        turn
    }

    /// Sends the written frames, while streams may write more.
    async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.session.state().poll_flush(cx)).await
    }

    /// Whether the incomplete frame carries content (RFC 9113 section 6.1).
    fn begins_content(&self) -> bool {
        self.reading.input.unread().get(3) == Some(&0)
    }

    /// Returns the event that the connection waits for now, and the time limit. `drain` is `None` once the process
    /// drains.
    fn waits_for(&self, plan: &Plan, drain: Option<&Drain>) -> (WaitPhase, Duration) {
        let timeouts = &plan.settings.timeouts;
        let state = self.session.state();
        match state.is_busy() {
            _ if state.wire.is_lingering() => (WaitPhase::Unwanted, Duration::from_millis(LINGER)),
            _ if self.begins_content() => (WaitPhase::Rest, timeouts.stall),
            _ if !self.reading.input.is_empty() => (WaitPhase::Rest, timeouts.head),
            false if drain.is_none() => (WaitPhase::End, FAREWELL),
            false => (WaitPhase::Request, timeouts.idle),
            true => (WaitPhase::Answers, timeouts.idle),
        }
    }

    fn poll_woken(
        &mut self,
        cx: &mut Context<'_>,
        drain: Option<&mut Drain>,
    ) -> Poll<io::Result<WakeReason>> {
        match self.reading.poll_receive(cx) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Ok(WakeReason::Left)),
            Poll::Ready(Ok(_)) => return Poll::Ready(Ok(WakeReason::Work)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
        {
            let mut state = self.session.state();
            if state.poll_news(cx).is_ready() {
                return Poll::Ready(Ok(WakeReason::Work));
            }
            // A waiting connection releases its buffers, unless one of its streams sends next and would allocate them
            // again.
            if !state.is_sending() {
                state.writing.release_buffers();
            }
        }
        self.reading.release_buffers();
        if drain.is_some_and(|drain| drain.poll(cx)) {
            return Poll::Ready(Ok(WakeReason::Drain));
        }
        self.deadline.poll(cx).map(|()| Ok(WakeReason::Late))
    }
}

impl Responder {
    fn handle(
        &mut self,
        state: &mut State,
        plan: &Arc<Plan>,
        event: &Event<'_>,
        sheet: Option<&mut BatchSums>,
    ) {
        match *event {
            Event::Head { stream, ref head, end } => {
                self.request(state, plan, OpenStream { stream, end }, head, sheet);
            }
            Event::TooLarge { stream } => {
                let refused = StreamRefusal { stream, head_only: false, refusal: HEAD_TOO_LARGE, memo: None };
                self.refuse(state, plan, refused);
            }
            Event::Data { stream, data, end } => state.received(stream, data, end),
            Event::Trailers { stream, fields } => state.ended(stream, fields),
            Event::Reset { stream, .. } => state.gone(stream),
            Event::Windows => state.opened(),
            Event::More | Event::Nothing => {}
        }
    }

    fn request(
        &mut self,
        state: &mut State,
        plan: &Arc<Plan>,
        opened: OpenStream,
        received: &Received<'_>,
        sheet: Option<&mut BatchSums>,
    ) {
        // To fill a larger array than necessary takes time.
        let (mut fewest, mut few, mut many);
        let lines = match received.fields.count() {
            0..=FEWEST => {
                fewest = [NO_LINE; FEWEST];
                request::lines(received, &mut fewest)
            }
            count if count <= FEW => {
                few = [NO_LINE; FEW];
                request::lines(received, &mut few)
            }
            _ => {
                many = [NO_LINE; MOST_FIELDS];
                request::lines(received, &mut many)
            }
        };
        let result = match request::head(received, lines, opened.end, &plan.settings.limits) {
            Ok(mut head) => self.answer(state, plan, opened, &mut head, sheet),
            Err(refusal) => Err((refusal, None)),
        };
        if let Err((refusal, memo)) = result {
            let head_only = received.method == Method::HEAD.as_str();
            self.refuse(state, plan, StreamRefusal { stream: opened.stream, head_only, refusal, memo });
        }
    }

    /// Answers a request from memory, or else starts a task for it.
    fn answer(
        &mut self,
        state: &mut State,
        plan: &Arc<Plan>,
        opened: OpenStream,
        head: &mut RequestHead<'_>,
        mut sheet: Option<&mut BatchSums>,
    ) -> Result<(), (Refusal, Option<Box<RequestRecord>>)> {
        let head_only = head.method == Method::HEAD;
        let mut place = None;
        let room = (&mut self.key, &mut place);
        match self.client.step(&self.worker, plan, head, sheet.as_deref_mut(), room) {
            Step::Answer(visit) => {
                let reply = place.as_mut().ok_or((NO_REPLY, None))?;
                let before = state.writing.written();
                let banner = plan.banner_of(reply, || visit.is_secure(head));
                if !state.accepts_head(reply, banner) {
                    *reply = too_large(reply);
                }
                if state.reply(opened.stream, reply, head_only, banner) || state.begin(opened.stream, reply) {
                    let bytes = state.writing.written() - before;
                    self.worker.witness.hit(plan, sheet, &visit.hit(head), reply, bytes);
                    self.untimed += 1;
                    if let Some(Reply { fields, hash, .. }) = place {
                        self.worker.take_back(fields, hash);
                    }
                    return Ok(());
                }
                let memo = visit.note(&self.worker, plan, head);
                let sent = state.writing.written() - before;
                if let (Some(stream), Some(reply)) = (self.enlist(state, plan, opened), place) {
                    let begun = Box::new(ReplyStart { reply, sent, memo, since: Instant::now() });
                    tokio::spawn(finish(stream, Arc::clone(&self.worker), Arc::clone(plan), begun));
                }
                Ok(())
            }
            Step::Ask(mut pending) => {
                if head.upgrade {
                    tunnel::shake_hands(&mut pending.request);
                }
                let ask = Box::new(FlowRequest { pending, head_only, since: Instant::now() });
                if let Some(stream) = self.enlist(state, plan, opened) {
                    tokio::spawn(answer(stream, Arc::clone(&self.worker), Arc::clone(plan), ask));
                }
                Ok(())
            }
            Step::Refuse(refusal, memo) => Err((refusal, memo)),
        }
    }

    /// Returns the stream for a separate task; resets it and returns `None` if there are too many tasks.
    fn enlist(&self, state: &mut State, plan: &Plan, opened: OpenStream) -> Option<stream::Stream<Stream>> {
        let OpenStream { stream: id, end } = opened;
        // The tasks of reset streams may still run.
        if state.enlist(id, end, 2 * plan.settings.limits.streams) {
            let stream = Stream { session: Arc::clone(&self.session), id };
            return Some(stream::Stream::new(stream, &plan.settings.timeouts));
        }
        state.wire.reset(&mut state.writing.out, id, Code::REFUSED_STREAM);
        None
    }

    /// Answers a request that is refused.
    fn refuse(&mut self, state: &mut State, plan: &Plan, refused: StreamRefusal) {
        let StreamRefusal { stream, head_only, refusal, memo } = refused;
        let reply = serve::refusal(refusal);
        let (client, status) = (self.client.address, refusal.status.as_u16());
        tracing::debug!(%client, "refused with {status}: {}", refusal.reason);
        let before = state.writing.written();
        // A client that does not open its window gets the status only.
        if !state.reply(stream, &reply, head_only, &plan.banner) {
            state.wire.reset(&mut state.writing.out, stream, Code::NO_ERROR);
        }
        let bytes = state.writing.written() - before;
        self.refused.push((reply, bytes, memo.or_else(|| self.worker.witness.note_unread(plan, client))));
    }
}
