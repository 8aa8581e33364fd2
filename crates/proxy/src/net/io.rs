//! The two halves of a client's connection: bytes in, bytes out, each with a deadline.
//!
//! Deadlines cost nothing while bytes flow: each half has one timer, armed when it first has to
//! wait and only looked at when it fires; a request that is served from memory never touches it.
//! An idle connection holds no buffer.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fs::sendfile;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, Sleep};

use super::input::{Input, borrow_buffer, give_buffer};
use crate::base::clock;
use crate::base::settings::Timeouts;

/// How long a client may go on sending after its last answer before the connection is closed hard; closing at
/// once would reset it, and the client would not see the answer.
const LINGER: Duration = Duration::from_secs(2);

/// A deadline that costs nothing until something has to be waited for, and then one look at the
/// clock: the timer is armed once, and re-armed only when it fires too early.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    /// In `clock::millis`; `None` until the first wait.
    due: Option<u64>,
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// Whom it wakes.
    waker: Waker,
    /// When, in `clock::millis`.
    at: u64,
}

impl Timer {
    fn will_wake_by(&self, due: u64, cx: &Context<'_>) -> bool {
        self.at <= due && !self.sleep.is_elapsed() && self.waker.will_wake(cx.waker())
    }
}

impl Deadline {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, due: None, timer: None }
    }

    /// Restarts: `limit` from the next wait on.
    pub(crate) fn set(&mut self, limit: Duration) {
        (self.limit, self.due) = (limit, None);
    }

    /// Lets go of the timer until there is something to wait for again.
    fn disarm(&mut self) {
        self.timer = None;
    }

    /// Restarts with the same limit.
    pub(crate) fn restart(&mut self) {
        self.due = None;
    }

    /// Ready once the deadline has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::millis();
        let due = *self.due.get_or_insert(now + self.limit.as_millis() as u64);
        if due <= now {
            return Poll::Ready(());
        }
        match &self.timer {
            // It will wake us in time; then it is either due, or armed again.
            Some(timer) if timer.will_wake_by(due, cx) => {}
            _ => self.arm(cx, now, due),
        }
        Poll::Pending
    }

    fn arm(&mut self, cx: &mut Context<'_>, now: u64, due: u64) {
        let left = Duration::from_millis(due - now);
        let mut sleep = match self.timer.take() {
            Some(mut timer) => {
                timer.sleep.as_mut().reset(Instant::now() + left);
                timer.sleep
            }
            None => Box::pin(tokio::time::sleep(left)),
        };
        if sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.timer = Some(Timer { sleep, waker: cx.waker().clone(), at: due });
    }
}

/// Reads from a client.
#[derive(Debug)]
pub(crate) struct Reading {
    half: OwnedReadHalf,
    /// What has been read and not yet been consumed.
    pub(crate) input: Input,
    deadline: Deadline,
}

impl Reading {
    pub(crate) fn new(half: OwnedReadHalf) -> Self {
        Self { half, input: Input::default(), deadline: Deadline::new(Duration::ZERO) }
    }

    /// Sets the deadline of the reads that follow.
    pub(crate) fn within(&mut self, limit: Duration) {
        self.deadline.set(limit);
    }

    /// Reads some bytes into `input`: how many, 0 at the end of the stream.
    ///
    /// # Errors
    /// `TimedOut` at the deadline, or the kernel's.
    pub(crate) async fn more(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_more(cx)).await
    }

    /// The same, for who waits for something else as well.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.poll_receive(cx) {
            Poll::Pending => self.deadline.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
            received => received,
        }
    }

    /// The same without a deadline.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.half.as_ref();
        loop {
            if stream.poll_read_ready(cx)?.is_pending() {
                return Poll::Pending;
            }
            match receive(stream, self.input.make_room()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return Poll::Ready(received),
            }
        }
    }

    /// Lets go of buffer and timer while the connection has nothing to read.
    pub(crate) fn rest(&mut self) {
        self.input.rest();
        self.deadline.disarm();
    }

    /// Ready when there may be more to receive; otherwise `cx` is woken once there is.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let stream: &TcpStream = self.half.as_ref();
        stream.poll_read_ready(cx).map(drop)
    }

    pub(crate) fn into_half(self) -> (OwnedReadHalf, Input) {
        (self.half, self.input)
    }
}

/// Receives into the spare capacity of `buffer`. When it was not filled the socket is empty, which
/// is what `WouldBlock` tells the runtime; so the next read waits instead of trying in vain.
pub(crate) fn receive(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut received = None;
    let tried = stream.try_io(Interest::READABLE, || {
        let room = buffer.capacity() - buffer.len();
        let (count, _) = rustix::net::recv(stream, spare_capacity(buffer), RecvFlags::empty())?;
        received = Some(count);
        if 0 < count && count < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    });
    received.map_or(tried, Ok)
}

/// How fast a client takes what is sent, whenever it makes us wait.
#[derive(Debug)]
struct Pace {
    /// Bytes a second that it has to take.
    least: u64,
    /// Interval in milliseconds after which that is judged, repeatedly.
    window: u64,
    waited: u64,
    taken: u64,
    /// Since when we wait, in `clock::millis`.
    since: Option<u64>,
}

impl Pace {
    fn new(least: u64, window: Duration) -> Self {
        Self { least, window: window.as_millis() as u64, waited: 0, taken: 0, since: None }
    }

    fn wait(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    /// The client has taken `bytes`: whether that was fast enough. `now` is asked only after a wait.
    fn took(&mut self, bytes: u64, now: impl FnOnce() -> u64) -> bool {
        self.taken += bytes;
        let Some(since) = self.since.take() else { return true };
        self.waited += now().saturating_sub(since);
        if self.waited < self.window {
            return true;
        }
        let due = self.waited.saturating_mul(self.least) / 1_000;
        self.waited = 0;
        std::mem::take(&mut self.taken) >= due
    }
}

/// Writes to a client.
#[derive(Debug)]
pub(crate) struct Writing {
    half: OwnedWriteHalf,
    /// What is ready to leave.
    pub(crate) out: Vec<u8>,
    deadline: Deadline,
    pace: Pace,
    /// Bytes of replies that left so far.
    pub(crate) sent: u64,
}

impl Writing {
    /// `stall` is how long a client may take nothing at all, and after which `min_rate` counts.
    pub(crate) fn new(half: OwnedWriteHalf, timeouts: &Timeouts) -> Self {
        let (deadline, pace) = (Deadline::new(timeouts.stall), Pace::new(timeouts.min_rate, timeouts.stall));
        Self { half, out: Vec::new(), deadline, pace, sent: 0 }
    }

    /// Sends what is in `out`.
    ///
    /// # Errors
    /// `TimedOut` when the client takes nothing for too long or too little, or the kernel's.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let result = self.write(&out).await;
        self.out = out;
        self.out.clear();
        result
    }

    /// Sends what is in `out` if the client takes it all at once: false when some of it is left.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn try_flush(&mut self) -> io::Result<bool> {
        if self.out.is_empty() {
            return Ok(true);
        }
        let stream: &TcpStream = self.half.as_ref();
        let send = || Ok(rustix::net::send(stream, &self.out, SendFlags::NOSIGNAL)?);
        match stream.try_io(Interest::WRITABLE, send) {
            Ok(sent) => {
                self.sent += sent as u64;
                if sent == self.out.len() {
                    self.out.clear();
                    return Ok(true);
                }
                self.out.drain(..sent);
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets go of buffer and timer while the connection has nothing to say.
    pub(crate) fn rest(&mut self) {
        self.deadline.disarm();
        if self.out.capacity() > 0 {
            give_buffer(std::mem::take(&mut self.out));
        }
    }

    /// Makes sure of a buffer to write to.
    pub(crate) fn wake(&mut self) {
        if self.out.capacity() == 0 {
            self.out = borrow_buffer();
        }
    }

    /// Sends `bytes`, past what is in `out`.
    ///
    /// # Errors
    /// As [`Writing::flush`].
    pub(crate) async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.deadline.restart();
        while !bytes.is_empty() {
            let wrote = poll_fn(|cx| match Pin::new(&mut self.half).poll_write(cx, bytes) {
                Poll::Pending => self.poll_wait(cx),
                ready => ready,
            });
            let wrote = wrote.await?;
            if wrote == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[wrote..];
            self.took(wrote)?;
        }
        Ok(())
    }

    /// Waits for the client to take something.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.pace.wait(clock::millis());
        self.deadline.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn took(&mut self, count: usize) -> io::Result<()> {
        self.sent += count as u64;
        self.deadline.restart();
        match self.pace.took(count as u64, clock::millis) {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends what is in `out`, and says to the kernel that more follows at once.
    ///
    /// # Errors
    /// As [`Writing::flush`].
    pub(crate) async fn flush_with_more(&mut self) -> io::Result<()> {
        let stream: &TcpStream = self.half.as_ref();
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let sent = stream.try_io(Interest::WRITABLE, || Ok(rustix::net::send(stream, &self.out, flags)?));
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.sent += sent as u64;
        self.out.drain(..sent);
        self.flush().await
    }

    /// Sends `len` bytes of `file` from `offset` without copying them.
    ///
    /// # Errors
    /// As [`Writing::flush`]; `UnexpectedEof` when the file has fewer bytes.
    pub(crate) async fn send_file(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let (mut at, end) = (offset, offset + len);
        self.deadline.restart();
        while at < end {
            let sent = poll_fn(|cx| self.poll_send_file(cx, file, &mut at, end)).await?;
            if sent == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.took(sent)?;
        }
        Ok(())
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        at: &mut u64,
        end: u64,
    ) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.half.as_ref();
        loop {
            if stream.poll_write_ready(cx)?.is_pending() {
                return self.poll_wait(cx);
            }
            let left = usize::try_from(end - *at).unwrap_or(usize::MAX);
            match stream.try_io(Interest::WRITABLE, || Ok(sendfile(stream, file, Some(at), left)?)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Says that nothing more follows.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.half.shutdown().await
    }

    /// Lets the end of the connection, once the other half is gone too, reach the client as an error.
    pub(crate) fn reset(self) {
        let stream: &TcpStream = self.half.as_ref();
        let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        // Dropped, it would say first that all has been said.
        self.half.forget();
    }

    pub(crate) fn into_half(self) -> OwnedWriteHalf {
        self.half
    }
}

/// Lets the client read the last answer before the connection goes.
pub(crate) async fn linger(reading: &mut Reading, writing: &mut Writing) {
    if writing.finish().await.is_err() {
        return;
    }
    let end = clock::millis() + LINGER.as_millis() as u64;
    reading.within(LINGER);
    while clock::millis() < end {
        match reading.more().await {
            Ok(1..) => reading.input.clear(),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_to_keep_pace_only_while_it_makes_us_wait() {
        // Each step: how long we waited for the client (ms), and what it took then (bytes).
        let cases: [(&[(u64, u64)], bool); 6] = [
            (&[(0, 1), (0, 1), (0, 1)], true),
            (&[(999, 0)], true),
            (&[(1_000, 100)], true),
            (&[(1_000, 99)], false),
            (&[(600, 1), (600, 118)], false),
            // What was taken before does not count for ever.
            (&[(0, 1_000_000), (1_000, 0), (1_000, 99)], false),
        ];
        for (steps, expected) in cases {
            let (mut pace, mut now) = (Pace::new(100, Duration::from_secs(1)), 0);
            let kept = steps.iter().all(|&(waited, taken)| {
                if waited > 0 {
                    pace.wait(now);
                }
                now += waited;
                pace.took(taken, || now)
            });
            assert_eq!(kept, expected, "{steps:?}");
        }
    }
}
