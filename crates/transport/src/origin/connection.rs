//! A connection to an origin that speaks HTTP/1.1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::Method;
use larder_semantics::fields::members;

use super::careless::Suspects;
use super::connect::OpenConnection;
use super::failure::Failure;
use super::parent::Parent;
use super::resolve::Resolver;
use super::sending::ContentSender;
use crate::base::networks::{bare, host_of};
use crate::http::response::{self, Head};
use crate::net::deadline::Deadline;
use crate::net::input::{HeadSearch, Input};
use crate::net::stream::{State, Stream};

/// Maximum idle time of a connection, in milliseconds.
const PATIENCE: u64 = 30_000;
/// The time before the end of the origin's patience from which on a connection gets no further request, which could meet
/// its end, in milliseconds.
const MARGIN: u64 = 1_000;

/// A connection to an origin, idle or with a request in flight.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    pub(super) input: Input,
    pub(super) deadline: Deadline,
    /// The content of the request that is still to be sent.
    pub(super) sending: ContentSender,
    looking: HeadSearch,
    /// Whether the response permits another request on the connection.
    pub(super) keep_alive: bool,
    /// How long the connection may be idle, in milliseconds.
    pub(super) patience: u64,
    /// The requests that it has carried since the first one.
    pub(super) suspects: Suspects,
    https: bool,
    authority: Box<str>,
    /// The address of the origin, if the authority is a name and not an address.
    found: Option<SocketAddr>,
    /// The parent proxy at the other end.
    parent: Option<Arc<Parent>>,
}

impl Connection {
    pub(super) fn new(opened: OpenConnection, https: bool, authority: &str) -> Self {
        Self {
            found: opened.found(authority),
            stream: opened.stream,
            parent: opened.parent,
            input: Input::default(),
            deadline: Deadline::new(Duration::ZERO),
            sending: ContentSender::default(),
            looking: HeadSearch::default(),
            keep_alive: false,
            patience: PATIENCE,
            suspects: Suspects::default(),
            https,
            authority: authority.into(),
        }
    }

    /// Returns the parent proxy that reads its requests, and so needs them in the form for proxies.
    pub(super) fn proxy(&self) -> Option<&Arc<Parent>> {
        self.parent.as_ref().filter(|parent| !self.https && parent.reads_http())
    }

    /// Returns the origin: whether over TLS, and the authority.
    pub(super) fn target(&self) -> (bool, &str) {
        (self.https, &self.authority)
    }

    /// Whether the connection's address is no longer an address of its name.
    pub(super) fn has_left(&self, resolver: &Resolver) -> bool {
        self.found.is_some_and(|address| resolver.has_left(bare(host_of(&self.authority)), address))
    }

    /// Whether something may have arrived on the idle connection. If not, `waker` is woken when it does.
    pub(super) fn has_stirred(&self, waker: &Waker) -> bool {
        self.stream.poll_arrival(&mut Context::from_waker(waker)).is_ready()
    }

    /// Returns the state of the idle connection.
    pub(super) fn state(&mut self) -> State {
        self.stream.state()
    }

    /// Returns the stream for another protocol, and the unread bytes.
    pub(super) fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.input.unread().to_vec())
    }

    /// Sends all of `bytes`; `sent` counts the sent ones.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<Result<(), Failure>> {
        while *sent < bytes.len() {
            match self.stream.poll_write(cx, &bytes[*sent..])? {
                Poll::Ready(0) => return Poll::Ready(Err(Failure::Closed)),
                Poll::Ready(count) => *sent += count,
                Poll::Pending => return self.poll_overdue(cx),
            }
        }
        self.stream.poll_flush(cx).map_err(Failure::from)
    }

    /// Reads at least one byte; [`Failure::Closed`] at the end of the stream.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<(), Failure>> {
        match self.stream.poll_read(cx, (&mut self.input, room))? {
            Poll::Ready(0) => Poll::Ready(Err(Failure::Closed)),
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => {
                self.input.release_buffers();
                self.poll_overdue(cx)
            }
        }
    }

    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>, method: &Method) -> Poll<Result<Head, Failure>> {
        loop {
            self.skip_empty_lines();
            let unread = self.input.unread();
            if self.looking.is_worth_it(unread, response::LONGEST)
                && let Some((head, used)) = response::parse(unread, method).map_err(Failure::Malformed)?
            {
                self.input.consume(used);
                self.looking = HeadSearch::default();
                return Poll::Ready(Ok(head));
            }
            self.poll_sending(cx)?;
            ready!(self.poll_more(cx, 0))?;
        }
    }

    /// Skips empty lines before a response, which some origins send.
    fn skip_empty_lines(&mut self) {
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let count = self.input.unread().iter().take_while(is_end).count();
        self.input.consume(count);
    }

    /// Sends as much of the request's content as possible without waiting. The response may arrive meanwhile.
    pub(super) fn poll_sending(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.sending.poll(cx, &mut self.stream, &mut self.deadline)
    }

    /// Notes what the response says about the use of the connection for another request.
    pub(super) fn answered(&mut self, head: &Head) {
        self.keep_alive = head.keep_alive;
        self.patience = PATIENCE;
        let seconds = members(&*head.fields, "keep-alive").find_map(|parameter| {
            let (name, value) = parameter.split_at_checked("timeout=".len())?;
            let is_timeout = name.eq_ignore_ascii_case(b"timeout=");
            str::from_utf8(value).ok().filter(|_| is_timeout)?.parse::<u64>().ok()
        });
        if let Some(seconds) = seconds {
            let promised = seconds.saturating_mul(1_000);
            self.patience = PATIENCE.min(promised.saturating_sub(MARGIN).max(promised / 2));
        }
    }

    fn poll_overdue<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        self.deadline.poll(cx).map(|()| Err(Failure::TimedOut))
    }
}
