//! A client's connection: reads request heads and answers them.
//!
//! A request that memory can answer is answered synchronously ([`Connection::look`]), with borrowed fields and no
//! allocation; replies to pipelined requests are gathered in one write. Any other request becomes an owned [`Request`]
//! and is answered by `dispatch::serve` in a separate task ([`Connection::go_on`]), while its content is read
//! concurrently. Between requests the connection waits with the [idle ones](crate::http1::idle).

use std::borrow::Cow;
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::StatusCode;
use larder_stats::BatchSums;

use super::answer::answer;
use super::tunnel::{self, TunnelStart};
use super::upload::Receiver;
use super::watch::{Unread, Watch};
use crate::cluster::probe;
use crate::exchange::link::Link;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Framing, Reply, Tunnel};
use crate::exchange::request::Request;
use crate::exchange::send::{gather, send, send_stored};
use crate::exchange::sink::{Direct, GATHER, SendError};
use crate::exchange::target::HashedKey;
use crate::features::arrive::{Client, Entrance, NO_REPLY, PendingRequest, Step};
use crate::flow::drain::ConnectionPermit;
use crate::flow::interceptor::Interceptor;
use crate::flow::serve;
use crate::flow::worker::Worker;
use crate::http::head::{self, ParseResult, Refusal};
use crate::http2;
use crate::net::io::{ReadHalf, WriteHalf};
use crate::net::{input::HeadSearch, linger};
use crate::observe::memo::RequestRecord;
use crate::wire::content::{self, ContentResult};

/// A client's connection.
pub(crate) struct Connection {
    worker: Arc<Worker>,
    client: Client,
    pub(super) reading: ReadHalf,
    pub(super) writing: WriteHalf,
    key: HashedKey,
    /// Hits whose duration has not been counted.
    untimed: u64,
    /// Whether no request has arrived yet.
    pub(super) is_new: bool,
    permit: ConnectionPermit,
}

/// The next step of a connection.
enum NextStep {
    /// The connection answers more requests that have arrived.
    Look,
    /// The connection waits for a request.
    Wait,
    /// The connection is closed.
    Close,
    /// The connection is reset, so that the client does not take a truncated reply for complete.
    Reset,
    /// The connection carries the bytes of a tunnel.
    Tunnel(Tunnel, Box<TunnelStart>),
    /// The connection switches to HTTP/2.
    Http2,
}

/// The result of handling the bytes that have arrived. Replies to earlier requests may be in the buffer already.
pub(super) enum InputResult {
    /// There are no more bytes.
    Nothing,
    /// The buffer is full of replies; more requests are waiting.
    Full,
    /// A head is incomplete.
    Partial,
    /// The connection ends with the reply in the buffer.
    Last,
    /// A reply's head is in the buffer, and its content is large.
    Reply(Box<ReplyStart>),
    /// Memory cannot answer the request.
    Ask(Box<FlowRequest>),
    /// The request is not acceptable.
    Refuse(Refusal, Option<Box<RequestRecord>>),
    /// The client uses HTTP/2.
    Http2,
}

/// A reply whose head is in the buffer, which held `before` bytes before it.
pub(super) struct ReplyStart {
    reply: Reply,
    framing: Framing,
    memo: Option<Box<RequestRecord>>,
    since: Instant,
    before: usize,
}

/// A request that memory could not answer at once.
pub(super) struct FlowRequest {
    pending: PendingRequest,
    framing: Framing,
    since: Instant,
}

impl Connection {
    pub(crate) fn new(
        worker: Arc<Worker>,
        client: Client,
        (reading, writing): (ReadHalf, WriteHalf),
        permit: ConnectionPermit,
    ) -> Self {
        Self { worker, client, reading, writing, key: HashedKey::default(), untimed: 0, is_new: true, permit }
    }

    /// Reads from the client and returns the number of bytes, 0 at the end of the stream.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>, plan: &Plan) -> Poll<io::Result<usize>> {
        let received = self.reading.poll_receive(cx);
        match &received {
            Poll::Ready(Err(error)) => self.writing.send_alert(error),
            Poll::Ready(Ok(_)) => self.reading.within(plan.settings.timeouts.head),
            Poll::Pending => {}
        }
        received
    }

    /// Whether a part of a TLS record has arrived. The rest must arrive within the time limit for a head.
    pub(super) fn awaits_record(&mut self, plan: &Plan) -> bool {
        let awaits = self.reading.is_amid_record();
        if awaits {
            self.reading.within(plan.settings.timeouts.head);
        }
        awaits
    }

    /// Closes a connection without a request in progress.
    pub(super) fn close(self: Box<Self>) {
        self.writing.close();
    }

    /// Closes a connection whose client has left, after this time without a request.
    pub(super) fn client_left(self: Box<Self>, idle: Duration) {
        // Others may be behind the address of a client that only looked at the certificate.
        let is_for_one = || self.worker.plan().settings.forward.one_user;
        if let Some((site, interceptor)) = self.interception().filter(|_| self.is_new && is_for_one()) {
            interceptor.left(site, self.client.address.ip(), idle);
        }
        self.close();
    }

    /// Returns the host of an intercepted tunnel, and what was found out about such.
    fn interception(&self) -> Option<(&str, &Interceptor)> {
        Some((self.client.tunnel.as_deref()?, self.worker.shared.interceptor.get()?))
    }

    /// Ready if more bytes may have arrived; otherwise `cx` is woken when they have.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.reading.poll_ready(cx)
    }

    /// Answers the requests that have arrived, as far as that needs no waiting. They have been read since `since`.
    ///
    /// Hits are summed on `sheet`, which belongs to the worker.
    pub(super) fn look(
        &mut self,
        plan: &Plan,
        mut sheet: Option<&mut BatchSums>,
        since: Instant,
    ) -> InputResult {
        while !self.reading.input.is_empty() {
            // A client that does not read replies must not make them accumulate here.
            if self.writing.out.len() >= GATHER {
                return InputResult::Full;
            }
            match self.answer_next(plan, sheet.as_deref_mut(), since) {
                ControlFlow::Break(InputResult::Refuse(refusal, None))
                    if refusal.status == StatusCode::HTTP_VERSION_NOT_SUPPORTED
                        && head::lower_version(self.reading.input.unread_mut()) => {}
                ControlFlow::Break(look) => return look,
                ControlFlow::Continue(()) => {}
            }
        }
        InputResult::Nothing
    }

    /// Answers the next request, or returns why it stays without an answer for now.
    fn answer_next(
        &mut self,
        plan: &Plan,
        mut sheet: Option<&mut BatchSums>,
        since: Instant,
    ) -> ControlFlow<InputResult> {
        if self.is_new && self.begins_http2(plan) {
            self.trusted();
            return ControlFlow::Break(InputResult::Http2);
        }
        let mut lines = head::room();
        let (mut head, used) =
            match head::parse(self.reading.input.unread(), &mut lines, &plan.settings.limits) {
                Ok(ParseResult::Whole(head, used)) => (head, used),
                Ok(ParseResult::Partial) => return ControlFlow::Break(InputResult::Partial),
                Err(refusal) => return ControlFlow::Break(InputResult::Refuse(refusal, None)),
            };
        if self.is_new {
            self.is_new = false;
            self.trusted();
        }
        if self.client.entrance == Entrance::Nodes && probe::is_asked(&head) {
            self.writing.wake();
            probe::answer(&mut self.writing.out, self.worker.shared.cluster.as_deref(), &head);
            self.consume(plan, used);
            return ControlFlow::Continue(());
        }
        let stays = !self.worker.shared.is_draining();
        let mut place = None;
        let room = (&mut self.key, &mut place);
        let step = self.client.step(&self.worker, plan, &mut head, sheet.as_deref_mut(), room);
        let result = match step {
            Step::Answer(visit) => {
                let Some(reply) = &place else {
                    return ControlFlow::Break(InputResult::Refuse(NO_REPLY, None));
                };
                self.writing.wake();
                let before = self.writing.out.len();
                let framing = Framing::of(&head, visit.role, stays);
                let banner = plan.banner_of(reply, || visit.is_secure(&head));
                if gather(&mut self.writing.out, reply, &framing, banner) {
                    let bytes = (self.writing.out.len() - before) as u64;
                    self.worker.witness.hit(plan, sheet, &visit.hit(&head), reply, bytes);
                    self.untimed += 1;
                    if let Some(Reply { fields, hash, .. }) = place {
                        self.worker.take_back(fields, hash);
                    }
                    if framing.keep_alive {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(InputResult::Last)
                    }
                } else {
                    let memo = visit.note(&self.worker, plan, &head);
                    let begun = |reply| Box::new(ReplyStart { reply, framing, memo, since, before });
                    ControlFlow::Break(
                        place.map_or(InputResult::Nothing, |reply| InputResult::Reply(begun(reply))),
                    )
                }
            }
            Step::Ask(pending) => {
                let framing = Framing::of(&head, pending.role, stays);
                ControlFlow::Break(InputResult::Ask(Box::new(FlowRequest { pending, framing, since })))
            }
            Step::Refuse(refusal, memo) => ControlFlow::Break(InputResult::Refuse(refusal, memo)),
        };
        self.consume(plan, used);
        result
    }

    /// Records that the client of an intercepted tunnel sends requests.
    fn trusted(&self) {
        if let Some((site, interceptor)) = self.interception() {
            interceptor.trusted(site, self.client.address.ip());
        }
    }

    /// Removes the head of a request from the input; the next one has all the time for heads.
    fn consume(&mut self, plan: &Plan, used: usize) {
        self.reading.input.consume(used);
        self.reading.within(plan.settings.timeouts.head);
    }

    /// Whether the first bytes from the client are the beginning of HTTP/2.
    fn begins_http2(&self, plan: &Plan) -> bool {
        let may_begin = plan.settings.limits.streams > 0 && self.client.entrance != Entrance::Nodes;
        may_begin && http2::begins(self.reading.input.unread())
    }

    /// Returns the number of hits since the last call; the caller measures their duration.
    pub(super) fn take_untimed(&mut self) -> u64 {
        std::mem::take(&mut self.untimed)
    }

    /// Sends the replies in the buffer. Returns whether the client took them all at once.
    pub(super) fn try_send(&mut self) -> io::Result<bool> {
        let sent = self.writing.try_flush()?;
        if sent {
            self.release_buffers();
        }
        Ok(sent)
    }

    /// Releases the empty buffers and the timers of a connection that is about to wait.
    pub(super) fn release_buffers(&mut self) {
        self.reading.release_buffers();
        if self.writing.out.is_empty() {
            self.writing.release_buffers();
        }
    }

    /// Continues after a look. Returns the connection when it waits for a request, perhaps with replies in its buffer.
    pub(super) async fn go_on(
        mut self: Box<Self>,
        mut plan: Arc<Plan>,
        mut look: InputResult,
    ) -> Option<Box<Self>> {
        let worker = Arc::clone(&self.worker);
        loop {
            match self.next(&plan, look).await.unwrap_or(NextStep::Reset) {
                NextStep::Look => {}
                NextStep::Wait => break,
                end => {
                    self.end(end, &plan).await;
                    return None;
                }
            }
            if self.reading.input.is_empty() {
                break;
            }
            if worker.is_outdated(&plan) {
                plan = worker.plan();
            }
            let begun = Instant::now();
            look = self.look(&plan, worker.witness.sheet().as_deref_mut(), begun);
            if let hits @ 1.. = self.take_untimed() {
                worker.times.served_as_group(hits, begun.elapsed());
            }
        }
        self.release_buffers();
        Some(self)
    }

    /// Ends the connection, or continues it in another protocol.
    async fn end(self: Box<Self>, end: NextStep, plan: &Plan) {
        match end {
            NextStep::Look | NextStep::Wait | NextStep::Close => self.close(),
            NextStep::Reset => self.writing.reset(),
            NextStep::Http2 => Box::pin(self.http2()).await,
            NextStep::Tunnel(tunnel, opened) => Box::pin(self.tunnel(tunnel, *opened, plan)).await,
        }
    }

    async fn next(&mut self, plan: &Arc<Plan>, look: InputResult) -> io::Result<NextStep> {
        match look {
            InputResult::Nothing => {
                self.writing.flush().await?;
                Ok(NextStep::Wait)
            }
            InputResult::Full => {
                self.writing.flush().await?;
                Ok(NextStep::Look)
            }
            InputResult::Partial => self.read(plan).await,
            InputResult::Last => {
                self.writing.conclude()?;
                self.writing.flush().await?;
                Ok(NextStep::Close)
            }
            InputResult::Reply(begun) => self.reply(plan, begun).await,
            InputResult::Ask(ask) => self.ask(plan, ask).await,
            InputResult::Refuse(refusal, memo) => Box::pin(self.refuse(plan, refusal, (None, memo))).await,
            InputResult::Http2 => Ok(NextStep::Http2),
        }
    }

    /// Sends the content of a reply from memory that is too large for the buffer.
    async fn reply(&mut self, plan: &Plan, mut begun: Box<ReplyStart>) -> io::Result<NextStep> {
        let from = self.writing.sent + begun.before as u64;
        let sent = send_stored(&mut Direct::new(&mut self.writing, false), &begun.reply).await;
        let bytes = self.writing.sent + self.writing.out.len() as u64 - from;
        self.worker.witness.replied(plan, &begun.reply, bytes, begun.memo.take());
        self.worker.times.served(begun.reply.outcome.kind, begun.since.elapsed());
        self.conclude(sent, &begun.reply, &begun.framing).await
    }

    /// Waits for the rest of a head, and parses it again only when it may be complete.
    async fn read(&mut self, plan: &Plan) -> io::Result<NextStep> {
        self.writing.flush().await?;
        let mut looking = HeadSearch::after(self.reading.input.unread());
        loop {
            match self.reading.more().await {
                Ok(1..) => {
                    let unread = self.reading.input.unread();
                    if looking.is_worth_it(unread, plan.settings.limits.head_bytes) {
                        return Ok(NextStep::Look);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    let reason = "request head too slow";
                    let refusal = Refusal { status: StatusCode::REQUEST_TIMEOUT, reason };
                    return Box::pin(self.refuse(plan, refusal, (None, None))).await;
                }
                Ok(0) => return Ok(NextStep::Close),
                Err(error) => {
                    self.writing.send_alert(&error);
                    return Ok(NextStep::Close);
                }
            }
        }
    }

    async fn ask(&mut self, plan: &Arc<Plan>, ask: Box<FlowRequest>) -> io::Result<NextStep> {
        self.writing.flush().await?;
        self.release_buffers();
        let FlowRequest { pending, mut framing, since } = *ask;
        let PendingRequest { mut request, delimited, expects, memo, permit, .. } = pending;
        let (most, timeouts) = (request.max_body(plan), request.timeouts(plan));
        let link = Link::new(framing.http11);
        let receiver = Receiver::new(&mut self.reading, delimited);
        let (source, content) = match content::split(receiver, delimited, &link, most, &timeouts) {
            Ok(ends) => ends,
            Err(refusal) => return Box::pin(self.refuse(plan, refusal, (Some(&request), memo))).await,
        };
        let (source, unread) = match source {
            Ok(source) => (Some(source), Unread::new(None)),
            Err(receiver) => (None, Unread::new(Some(receiver.reading))),
        };
        link.expects(expects && source.is_some());
        request.content = content;
        request.link = Some(link.clone());
        let before = self.writing.sent;
        if let Cow::Owned(own) = &timeouts {
            self.writing.limit(own);
        }
        let talked = {
            let watch = Watch::new(&unread);
            let answer = answer(&self.worker, plan, request, &mut self.writing, (link, watch), &mut framing);
            content::talk(pin!(answer), source, |receiver| *unread.lock() = Some(receiver.reading)).await
        };
        // If the answer was sent before all content arrived, the connection cannot be reused: the rest could not be
        // distinguished from a next request.
        let ((mut reply, sent), pumped) = match talked {
            Ok(talked) => talked,
            Err(refusal) if self.writing.sent == before => {
                return Box::pin(self.refuse(plan, refusal, (None, memo))).await;
            }
            Err(_) => return Ok(NextStep::Reset),
        };
        if let Cow::Owned(_) = timeouts {
            self.writing.limit(&plan.settings.timeouts);
        }
        let bytes = self.writing.sent + self.writing.out.len() as u64 - before;
        self.worker.times.served(reply.outcome.kind, since.elapsed());
        if sent.is_ok()
            && let Content::Tunnel(_) = reply.content
            && let Content::Tunnel(tunnel) = std::mem::replace(&mut reply.content, Content::None)
        {
            return Ok(NextStep::Tunnel(
                tunnel,
                Box::new(TunnelStart { reply, bytes, memo, permit, limit: timeouts.tunnel }),
            ));
        }
        self.worker.witness.replied(plan, &reply, bytes, memo);
        framing.keep_alive &= pumped == ContentResult::Whole;
        self.conclude(sent, &reply, &framing).await
    }

    async fn conclude(
        &mut self,
        sent: Result<(), SendError>,
        reply: &Reply,
        framing: &Framing,
    ) -> io::Result<NextStep> {
        match sent {
            Ok(()) if framing.keep_alive => return Ok(NextStep::Look),
            Ok(()) => self.writing.flush().await?,
            Err(SendError::Client(error)) => return Err(error),
            Err(error @ SendError::Truncated(_)) => {
                tracing::debug!(client = %self.client.address, "{error}");
                self.writing.flush().await?;
                // A client that reads until the end of the connection must not take this for the end. To others,
                // the framing tells it, and a reset would take bytes from those that have not read them yet.
                if reply.ends_with_connection(framing) {
                    return Ok(NextStep::Reset);
                }
            }
        }
        Box::pin(linger::linger(&mut self.reading, &mut self.writing)).await;
        Ok(NextStep::Close)
    }

    /// Answers a request that is malformed or beyond a limit, and closes the connection.
    async fn refuse(
        &mut self,
        plan: &Plan,
        refusal: Refusal,
        (request, memo): (Option<&Request>, Option<Box<RequestRecord>>),
    ) -> io::Result<NextStep> {
        let mut reply = serve::refusal_of(&self.worker, plan, request, refusal);
        let framing = Framing { http11: true, keep_alive: false, head_only: false };
        let memo = memo.or_else(|| self.worker.witness.note_unread(plan, self.client.address));
        let status = refusal.status.as_u16();
        tracing::debug!(client = %self.client.address, "refused with {status}: {}", refusal.reason);
        let before = self.writing.sent;
        let _ = send(&mut self.writing, &mut reply, &framing, &plan.banner).await;
        let bytes = self.writing.sent + self.writing.out.len() as u64 - before;
        self.worker.witness.replied(plan, &reply, bytes, memo);
        self.writing.flush().await?;
        linger::linger(&mut self.reading, &mut self.writing).await;
        Ok(NextStep::Close)
    }

    async fn http2(self) {
        let Self { worker, client, reading, writing, permit, .. } = self;
        http2::Connection::new(&worker, client, (reading, writing), permit).serve().await;
    }

    async fn tunnel(self, tunnel: Tunnel, opened: TunnelStart, plan: &Plan) {
        let Self { worker, reading, writing, permit: _permit, .. } = self;
        let TunnelStart { mut reply, bytes, memo, permit: _of_tunnel, limit } = opened;
        let uninterceptable = tunnel.uninterceptable();
        let sent = tunnel::run(reading, writing, tunnel, limit).await;
        uninterceptable.iter().filter_map(|why| why.get()).for_each(|why| reply.outcome.why = *why);
        worker.witness.replied(plan, &reply, bytes + sent, memo);
    }
}
