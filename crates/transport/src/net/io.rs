//! The two halves of a client's connection, for reading and for writing, each with a deadline.
//!
//! Deadlines cost nothing while bytes flow: each half has one timer, which is armed at the first wait and checked only
//! when it fires. A request that is served from memory uses no timer. An idle connection holds no buffer.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::sendfile;
use rustix::net::SendFlags;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::content::ContentFile;
use super::deadline::Deadline;
use super::input::{Input, borrow_buffer, give_buffer, receive};
use super::pace::Pace;
use super::tls::accept::TlsConnection;
use super::tls::fault::Fault;
use super::tls::halves::Opener;
use super::tls::output::Output;
use crate::base::clock;
use crate::base::settings::Timeouts;

/// The half that reads from a client.
#[derive(Debug)]
pub struct ReadHalf {
    half: OwnedReadHalf,
    /// Opens received records, under TLS.
    opener: Option<Box<Opener>>,
    /// Received bytes that are not consumed yet.
    pub input: Input,
    deadline: Deadline,
}

/// Splits a client's connection into its two halves.
#[inline]
pub fn halves(stream: TcpStream, timeouts: &Timeouts) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (ReadHalf::new(read, None), WriteHalf::new(write, None, timeouts))
}

/// Splits a client's connection under TLS into its two halves.
pub fn secured_halves(secured: TlsConnection, timeouts: &Timeouts) -> (ReadHalf, WriteHalf) {
    let TlsConnection { stream, opener, sealer, tickets, .. } = secured;
    let (read, write) = stream.into_split();
    (
        ReadHalf::new(read, Some(Box::new(opener))),
        WriteHalf::new(write, Some(Box::new(Output::new(sealer, tickets))), timeouts),
    )
}

impl ReadHalf {
    fn new(half: OwnedReadHalf, opener: Option<Box<Opener>>) -> Self {
        Self { half, opener, input: Input::default(), deadline: Deadline::new(Duration::ZERO) }
    }

    /// Sets the deadline of the following reads.
    #[inline]
    pub fn within(&mut self, limit: Duration) {
        self.deadline.set(limit);
    }

    /// Reads some bytes into `input`. Returns their number, 0 at the end of the stream. Errors: `TimedOut` at the
    /// deadline, or the kernel's error.
    pub async fn more(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_more(cx)).await
    }

    /// The same as [`more`](Self::more), for callers that also wait for other events.
    #[inline]
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.poll_receive(cx) {
            Poll::Pending => self.deadline.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
            received => received,
        }
    }

    /// The same as [`poll_more`](Self::poll_more) without a deadline.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.opener.is_some() {
            return self.poll_open(cx);
        }
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

    /// The same under TLS: waits until a whole record is available.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(opener) = &mut self.opener else { return Poll::Ready(Ok(0)) };
        let stream: &TcpStream = self.half.as_ref();
        loop {
            if opener.holds_bytes() {
                let input = self.input.make_room();
                let before = input.len();
                opener.open(input)?;
                if input.len() > before {
                    return Poll::Ready(Ok(input.len() - before));
                }
            }
            if opener.is_over() {
                return Poll::Ready(Ok(0));
            }
            if stream.poll_read_ready(cx)?.is_pending() {
                self.input.release_buffers();
                return Poll::Pending;
            }
            match receive(stream, opener.make_room()) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                ended => return Poll::Ready(ended),
            }
        }
    }

    /// Releases the buffers and the timer while no bytes are expected.
    pub fn release_buffers(&mut self) {
        self.input.release_buffers();
        if let Some(opener) = &mut self.opener {
            opener.release_buffers();
        }
        self.deadline.disarm();
    }

    /// Releases state that an idle connection does not need and can rebuild.
    #[inline]
    pub fn shrink(&mut self) {
        if let Some(opener) = &mut self.opener {
            opener.shrink();
        }
    }

    /// Whether a part of the client's next record has arrived, and the rest has not.
    #[inline]
    pub fn is_amid_record(&self) -> bool {
        self.opener.as_ref().is_some_and(|opener| opener.holds_bytes())
    }

    /// Whether the client has ended its stream with a `close_notify` alert; always true without TLS.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.opener.as_ref().is_none_or(|opener| opener.is_over())
    }

    /// Whether the socket takes no more bytes to send, since its client does not read. Then `cx` is woken when it does.
    pub fn is_full(&self, cx: &mut Context<'_>) -> bool {
        let stream: &TcpStream = self.half.as_ref();
        stream.poll_write_ready(cx).is_pending()
    }

    /// Ready when there may be more bytes to receive. Otherwise, `cx` is woken once there are.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.opener.as_ref().is_some_and(|opener| opener.is_over()) {
            return Poll::Ready(());
        }
        let stream: &TcpStream = self.half.as_ref();
        stream.poll_read_ready(cx).map(drop)
    }
}

/// The half that writes to a client.
#[derive(Debug)]
pub struct WriteHalf {
    pub(super) half: OwnedWriteHalf,
    /// Seals sent bytes, under TLS.
    pub(super) tls: Option<Box<Output>>,
    /// Bytes that are ready to be sent.
    pub out: Vec<u8>,
    /// Whether the socket has taken no more bytes, so that the next ones wait for a flush.
    pub(super) is_full: bool,
    pub(super) deadline: Deadline,
    pace: Pace,
    /// Bytes of responses sent so far.
    pub sent: u64,
}

impl WriteHalf {
    /// `timeouts.stall` is the maximum time without any progress, and the interval at which `min_rate` is checked.
    fn new(half: OwnedWriteHalf, tls: Option<Box<Output>>, timeouts: &Timeouts) -> Self {
        let (deadline, pace) = (Deadline::new(timeouts.stall), Pace::new(timeouts.min_rate, timeouts.stall));
        Self { half, tls, out: Vec::new(), is_full: false, deadline, pace, sent: 0 }
    }

    /// Sets other time limits for the next bytes.
    #[inline]
    pub fn limit(&mut self, timeouts: &Timeouts) {
        self.deadline.set(timeouts.stall);
        self.pace = Pace::new(timeouts.min_rate, timeouts.stall);
    }

    /// Sends the bytes in `out`. Errors: `TimedOut` when the client accepts no bytes for too long or is too slow, or
    /// the kernel's error.
    pub async fn flush(&mut self) -> io::Result<()> {
        if self.tls.is_some() {
            return self.seal_and_send(&[]).await;
        }
        let (before, is_whole) = (self.sent, self.try_flush()?);
        self.took((self.sent - before) as usize)?;
        if is_whole {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let result = self.write(&out).await;
        self.out = out;
        self.out.clear();
        result
    }

    /// Sends the bytes in `out` as far as possible without waiting. Returns false when some are left.
    pub fn try_flush(&mut self) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            self.sent += tls.seal(&mut self.out, &[])?;
            return tls.try_send(self.half.as_ref());
        }
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

    /// Releases the buffer and the timer while there is nothing to send.
    pub fn release_buffers(&mut self) {
        self.deadline.disarm();
        give_buffer(std::mem::take(&mut self.out));
        if let Some(tls) = &mut self.tls {
            tls.records().release_buffers();
        }
    }

    /// Releases state that an idle connection does not need and can rebuild. Sends records that wait for a reply.
    #[inline]
    pub fn shrink(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.shrink(self.half.as_ref());
        }
    }

    /// Ensures that `out` has a buffer.
    #[inline]
    pub fn wake(&mut self) {
        if self.out.capacity() == 0 {
            self.out = borrow_buffer();
        }
    }

    /// Sends `bytes` directly, without a copy in `out`.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_some() {
            return self.seal_and_send(bytes).await;
        }
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
            self.sent += wrote as u64;
            self.took(wrote)?;
        }
        Ok(())
    }

    /// Seals and sends the bytes in `out`, and then `bytes`.
    async fn seal_and_send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.deadline.restart();
        loop {
            let (piece, rest) = bytes.split_at(bytes.len().min(Output::BATCH));
            let Some(tls) = &mut self.tls else { return Ok(()) };
            self.sent += tls.seal(&mut self.out, piece)?;
            self.send_sealed().await?;
            bytes = rest;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends the records that are ready.
    async fn send_sealed(&mut self) -> io::Result<()> {
        poll_fn(|cx| match self.poll_send_sealed(cx) {
            Poll::Pending => self.poll_wait(cx).map_ok(drop),
            sent => sent,
        })
        .await
    }

    /// The same without a deadline.
    pub fn poll_send_sealed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(tls) = &mut self.tls
            && !tls.records().is_empty()
        {
            let count = ready!(Pin::new(&mut self.half).poll_write(cx, tls.records().ready()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            tls.records().sent(count);
            self.took(count)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends some of `bytes`, or seals some once all previous records are sent. Returns their number.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_send_sealed(cx))?;
        let Some(tls) = &mut self.tls else { return Pin::new(&mut self.half).poll_write(cx, bytes) };
        let piece = &bytes[..bytes.len().min(Output::BATCH)];
        self.sent += tls.seal(&mut self.out, piece)?;
        // The next call sends the rest before it seals more.
        let _ = tls.try_send(self.half.as_ref())?;
        Poll::Ready(Ok(piece.len()))
    }

    /// Ends the stream, with a `close_notify` alert under TLS.
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            tls.close();
        }
        ready!(self.poll_send_sealed(cx))?;
        Pin::new(&mut self.half).poll_shutdown(cx)
    }

    /// Waits until the client accepts bytes.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.pace.wait(clock::millis());
        self.deadline.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    pub(super) fn took(&mut self, count: usize) -> io::Result<()> {
        self.deadline.restart();
        if self.pace.took(count as u64, clock::millis) { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Sends the bytes in `out`, and tells the kernel that more bytes follow at once.
    pub async fn flush_with_more(&mut self) -> io::Result<()> {
        // Under TLS, these bytes are sent in one record with the first bytes that follow.
        if self.tls.is_some() || self.out.is_empty() {
            return Ok(());
        }
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

    /// Sends the bytes of `content` in `range` without copying them to user space, except under TLS.
    pub async fn send_file(&mut self, content: ContentFile<'_>, range: Range<u64>) -> io::Result<()> {
        if self.tls.is_some()
            && let Some(bytes) = content.mapped(range.clone())
        {
            return self.seal_and_send(bytes).await;
        }
        let (file, Range { start: mut at, end }) = content.in_file(range);
        self.deadline.restart();
        while at < end {
            if let Some(tls) = &mut self.tls {
                let sealed = tls.seal_file(&mut self.out, file, at..end)?;
                (at, self.sent) = (at + sealed.read, self.sent + sealed.content);
                self.send_sealed().await?;
                continue;
            }
            let sent = poll_fn(|cx| self.poll_send_file(cx, file, &mut at, end)).await?;
            if sent == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.sent += sent as u64;
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

    /// Ends the stream, with a `close_notify` alert under TLS. Errors: the kernel's error, or `TimedOut`.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_finish_in_time(cx)).await
    }

    /// The same, for callers that poll.
    #[inline]
    pub fn poll_finish_in_time(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_finish(cx) {
            Poll::Pending => self.poll_wait(cx).map_ok(drop),
            finished => finished,
        }
    }

    /// Seals the bytes in `out` and the `close_notify` alert behind them, under TLS, so that the next flush sends both
    /// at once. Fails when no further record may be sealed with the key.
    pub fn conclude(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            self.sent += tls.seal(&mut self.out, &[])?;
            tls.close();
        }
        Ok(())
    }

    /// Sends a `close_notify` alert as far as possible without waiting, under TLS.
    pub fn notify(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close();
            // A client that does not read does not receive it.
            let _ = tls.try_send(self.half.as_ref());
        }
    }

    /// Sends `close_notify`, and leaves it to the other half to close the socket.
    #[inline]
    pub fn close(mut self) {
        self.notify();
        // Otherwise, a system call would end the stream just before another one closes the socket.
        self.half.forget();
    }

    /// Sends the TLS alert for `error`, if the client's records caused it, before the connection is closed.
    pub fn send_alert(&mut self, error: &io::Error) {
        let fault = error.get_ref().and_then(|error| error.downcast_ref::<Fault>());
        if let (Some(tls), Some(fault)) = (&mut self.tls, fault) {
            tls.fail(*fault);
            let _ = tls.try_send(self.half.as_ref());
        }
    }

    /// Makes the kernel reset the connection once the other half is dropped too, so that the client sees an error.
    #[inline]
    pub fn reset(self) {
        let stream: &TcpStream = self.half.as_ref();
        let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        // Dropping the half would send a FIN first.
        self.half.forget();
    }
}
