//! A connection of an RPC client: reads calls and sends the replies in their order.
//!
//! The loop is the same for all protocols; a codec finds the end of a call and encodes the replies. Between calls the
//! connection holds no buffer.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use larder_rpc::{Call, CallRequest, ReplyEncoder, ServerProtocol, line, onc, thrift};

use super::deliver::Delivery;
use super::page::{self, Page, undelivered};
use super::{State, Visitor, limits, statistics};
use crate::base::settings::Door;
use crate::exchange::route::SiteNumber;
use crate::exchange::sink::{GATHER, SendError};
use crate::flow::drain::{ConnectionPermit, Drain};
use crate::flow::worker::Worker;
use crate::net::io::{ReadHalf, WriteHalf};
use crate::net::linger::linger;
use crate::observe::memo::RequestResult;

/// The connection of a client.
struct Connection {
    visitor: Visitor,
    reading: ReadHalf,
    writing: WriteHalf,
    /// Received bytes that are not yet a whole call.
    buffer: BytesMut,
    /// Whether a call has begun to arrive.
    begun: bool,
    drain: Drain,
    _permit: ConnectionPermit,
}

/// The result of waiting for bytes.
enum ReadResult {
    /// Bytes arrived.
    More,
    /// The client ended its bytes within a call.
    End,
    /// The rest of a call did not arrive in time.
    Late,
    /// No bytes arrive: the connection has to end.
    Nothing,
}

/// The way in which a connection ends.
enum ConnectionEnd {
    /// Without a call in progress.
    Silent,
    /// After a reply that the client should receive.
    Answered,
    /// With a reset, since the protocol has no other way to report the failure.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallResult {
    /// The requested reply was sent.
    Well,
    /// A failure was sent.
    Failed,
}

/// Starts to serve a client until it leaves.
pub(crate) fn welcome(
    (worker, doors): (&Arc<Worker>, &Arc<State>),
    door: Door,
    (reading, writing): (ReadHalf, WriteHalf),
    client: SocketAddr,
    permit: ConnectionPermit,
) {
    let connection = Connection {
        reading,
        writing,
        buffer: BytesMut::new(),
        begun: false,
        drain: Drain::new(worker),
        visitor: Visitor { worker: Arc::clone(worker), doors: Arc::clone(doors), door, client },
        _permit: permit,
    };
    tokio::spawn(connection.run());
}

impl Connection {
    async fn run(mut self) {
        let plan = self.visitor.worker.plan();
        let (limits, form) = (limits(&plan), plan.settings.doors.line_form);
        drop(plan);
        let ended = match self.visitor.door {
            Door::Thrift => self.converse(thrift::Server::new(limits)).await,
            Door::Onc => self.converse(onc::Server::new(limits)).await,
            Door::Line => self.converse(line::Server::new(form, limits)).await,
        };
        match ended {
            Ok(ConnectionEnd::Silent) => self.writing.close(),
            Ok(ConnectionEnd::Answered) => linger(&mut self.reading, &mut self.writing).await,
            Ok(ConnectionEnd::Failed) => self.writing.reset(),
            Err(error) => {
                tracing::debug!(client = %self.visitor.client, "{error}");
                self.writing.reset();
            }
        }
    }

    async fn converse<A: ServerProtocol>(&mut self, mut codec: A) -> Result<ConnectionEnd, SendError> {
        loop {
            let mut decoded = codec.decode(&mut self.buffer);
            if matches!(decoded, Ok(None)) {
                self.writing.flush().await?;
                match self.receive().await {
                    ReadResult::More => continue,
                    ReadResult::Nothing => return Ok(ConnectionEnd::Silent),
                    ReadResult::End => match codec.end(&mut self.buffer) {
                        Ok(None) => return Ok(ConnectionEnd::Silent),
                        last => decoded = last,
                    },
                    ReadResult::Late => {}
                }
            }
            let (closes, answered) = match decoded {
                Ok(None) => {
                    self.writing.wake();
                    self.writing.out.extend_from_slice(&codec.late());
                    (true, CallResult::Failed)
                }
                Ok(Some(asked)) => (asked.reply.closes(), self.answer(asked).await?),
                Err(rejected) => {
                    tracing::debug!(client = %self.visitor.client, "rejected: {}", rejected.why);
                    self.writing.wake();
                    self.writing.out.extend_from_slice(&rejected.reply);
                    (rejected.close, CallResult::Failed)
                }
            };
            self.begun = false;
            if answered == CallResult::Failed && codec.fails_by_reset() {
                return Ok(ConnectionEnd::Failed);
            }
            // Replies to a client that does not read must not accumulate here.
            if self.writing.out.len() >= GATHER {
                self.writing.flush().await?;
            }
            if closes {
                self.writing.flush().await?;
                return Ok(ConnectionEnd::Answered);
            }
        }
    }

    async fn receive(&mut self) -> ReadResult {
        let plan = self.visitor.worker.plan();
        if !self.begun && !self.buffer.is_empty() {
            self.begin(plan.settings.timeouts.head);
        }
        if !self.begun {
            self.release_buffers();
            self.reading.within(plan.settings.doors.idle);
        }
        let (reading, drain, begun) = (&mut self.reading, &mut self.drain, self.begun);
        let received = std::future::poll_fn(|cx| match reading.poll_more(cx) {
            Poll::Pending if !begun && drain.poll(cx) => Poll::Ready(Ok(0)),
            received => received,
        });
        match received.await {
            Ok(1..) => {}
            Err(error) if begun && error.kind() == ErrorKind::TimedOut => return ReadResult::Late,
            Ok(0) if begun => return ReadResult::End,
            Ok(0) | Err(_) => return ReadResult::Nothing,
        }
        if !self.begun {
            self.begin(plan.settings.timeouts.head);
        }
        self.buffer.extend_from_slice(self.reading.input.unread());
        self.reading.input.clear();
        ReadResult::More
    }

    /// Notes that a call has begun, and that all of it has to arrive within `limit`.
    fn begin(&mut self, limit: std::time::Duration) {
        self.begun = true;
        self.reading.within(limit);
    }

    fn release_buffers(&mut self) {
        self.buffer = BytesMut::new();
        self.reading.release_buffers();
        self.writing.release_buffers();
    }

    async fn answer<R: ReplyEncoder>(&mut self, asked: CallRequest<R>) -> Result<CallResult, SendError> {
        let CallRequest { call, reply } = asked;
        let answer = match call {
            // Boxed: the future is large, and a waiting connection should not hold its memory.
            Call::Fetch { url } => return Box::pin(self.fetch(&url, &reply)).await,
            Call::Ping => reply.done(),
            Call::Statistics => reply.statistics(&statistics(&self.visitor)),
            Call::Reset => {
                self.visitor.doors.figures.of(self.visitor.door).reset();
                reply.done()
            }
        };
        self.writing.wake();
        self.writing.out.extend_from_slice(&answer);
        Ok(CallResult::Well)
    }

    async fn fetch<R: ReplyEncoder>(&mut self, url: &str, encoder: &R) -> Result<CallResult, SendError> {
        let begun = Instant::now();
        let plan = self.visitor.worker.plan();
        let memo = self.visitor.note(&plan, url);
        let before = self.writing.sent + self.writing.out.len() as u64;
        let page =
            match page::look(&self.visitor, &plan, url, memo.as_ref().and_then(|memo| memo.trace.clone())) {
                Ok(look) => {
                    if look.waits() {
                        // Before the wait for the origin, earlier replies are sent and the buffer is released.
                        self.writing.flush().await?;
                        self.writing.release_buffers();
                    }
                    page::follow(&self.visitor, &plan, url, look).await
                }
                Err(failure) => Page { found: Err(failure), outcome: page::refusal() },
            };
        self.writing.wake();
        let (outcome, age) = (page.outcome, page.age());
        let (status, outcome, sent) = match page.found {
            Ok(mut reply) => {
                let delivery = Delivery { visitor: &self.visitor, plan: &plan, url, encoder };
                // For a page that was not delivered, the log has the status that the client received.
                match delivery.send(&mut self.writing, &mut reply).await {
                    Ok(Ok(())) => (reply.status.as_u16(), outcome, Ok(CallResult::Well)),
                    Ok(Err(failure)) => (failure.status, undelivered(outcome), Ok(CallResult::Failed)),
                    Err(error @ SendError::Truncated(_)) => (502, undelivered(outcome), Err(error)),
                    Err(error) => (reply.status.as_u16(), outcome, Err(error)),
                }
            }
            Err(failure) => {
                tracing::debug!(client = %self.visitor.client, url, "{}", failure.why);
                self.writing.out.extend_from_slice(&encoder.failure(&failure));
                (failure.status, outcome, Ok(CallResult::Failed))
            }
        };
        let bytes = (self.writing.sent + self.writing.out.len() as u64).saturating_sub(before);
        let ended =
            RequestResult { status, site: SiteNumber::FORWARD, hash: 0, outcome, age, bytes, saved: None };
        self.visitor.record(&plan, begun, &ended, memo);
        sent
    }
}
