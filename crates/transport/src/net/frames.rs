//! Sends frames that several tasks write to one connection.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::sendfile;
use rustix::net::{SendFlags, Shutdown, shutdown};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use super::content::ContentFile;
use super::input::borrow_large_buffer;
use super::io::WriteHalf;
use super::tls::record::MOST;

/// The most bytes of frames that wait in clear before they are sent.
const ROOM: usize = 64 << 10;

impl WriteHalf {
    /// Ensures that `out` has a buffer for the frames of many streams.
    pub fn wake_for_frames(&mut self) {
        if self.out.capacity() == 0 {
            self.out = borrow_large_buffer();
        }
    }

    /// Returns the number of bytes that have been written and not sent yet.
    pub fn unsent(&self) -> usize {
        self.out.len() + self.tls.as_ref().map_or(0, |tls| tls.unsent())
    }

    /// Returns the number of bytes that have been written so far.
    pub fn written(&self) -> u64 {
        self.sent + self.out.len() as u64
    }

    /// Whether a frame of content may be written before those that were written are sent.
    pub fn has_room(&self) -> bool {
        !self.is_full && self.out.len() < ROOM && self.tls.as_ref().is_none_or(|tls| tls.has_room())
    }

    /// Writes some bytes of `content` in `range`, in at most `frames` frames: each has `header` of the length of its content
    /// in front, and is at most as long as a TLS record. Returns the number of bytes of the file. Errors: the kernel's
    /// error; `UnexpectedEof` if the file is shorter.
    pub fn write_frames<const N: usize>(
        &mut self,
        content: ContentFile<'_>,
        range: Range<u64>,
        frames: usize,
        mut header: impl FnMut(usize) -> [u8; N],
    ) -> io::Result<u64> {
        if let Some(tls) = &mut self.tls {
            let sealed = tls.seal_frames(&mut self.out, content, range.clone(), frames, header)?;
            self.sent += sealed.content;
            return Ok(sealed.read);
        }
        let (file, range) = content.in_file(range);
        let mut at = range.start;
        for _ in 0..frames {
            if at == range.end || !self.has_room() {
                break;
            }
            let length = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(MOST - N);
            self.out.extend_from_slice(&header(length));
            let end = at + length as u64;
            if let Err(error) = self.send_range(file, at..end) {
                // The frame has begun, so that no other one may follow.
                self.shut();
                return Err(error);
            }
            at = end;
        }
        Ok(at - range.start)
    }

    /// Sends the bytes in `out` and those of `file` in `range`. Bytes that the socket does not take are copied to `out`.
    fn send_range(&mut self, file: &File, range: Range<u64>) -> io::Result<()> {
        let stream: &TcpStream = self.half.as_ref();
        let (mut at, flags) = (range.start, SendFlags::MORE | SendFlags::NOSIGNAL);
        let mut send = || {
            let sent = rustix::net::send(stream, &self.out, flags)?;
            self.sent += sent as u64;
            self.out.drain(..sent);
            while self.out.is_empty() && at < range.end {
                let left = (range.end - at) as usize;
                let sent = sendfile(stream, file, Some(&mut at), left)?;
                self.sent += sent as u64;
                if sent == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if at < range.end { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        match stream.try_io(Interest::WRITABLE, &mut send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => return sent,
        }
        self.wait_for_room();
        let behind = self.out.len();
        self.out.resize(behind + (range.end - at) as usize, 0);
        file.read_exact_at(&mut self.out[behind..], at)
    }

    /// Sends all written bytes as far as the socket takes them now. Returns false if some are left for
    /// [`poll_flush`](Self::poll_flush).
    pub fn send_now(&mut self) -> io::Result<bool> {
        let is_done = !self.is_full && self.try_flush()?;
        if !is_done {
            self.wait_for_room();
        }
        Ok(is_done)
    }

    /// Sends all written bytes. Their number may grow meanwhile. Errors: `TimedOut` when the client accepts no bytes
    /// for too long or is too slow, or the kernel's error.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_send(cx)?.is_pending() {
            self.wait_for_room();
            return self.poll_wait(cx).map_ok(drop);
        }
        self.is_full = false;
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(tls) = &mut self.tls {
                if tls.has_room() {
                    self.sent += tls.seal(&mut self.out, &[])?;
                }
                ready!(self.poll_send_sealed(cx))?;
            } else if !self.out.is_empty() {
                let sent = ready!(Pin::new(&mut self.half).poll_write(cx, &self.out))?;
                self.sent += sent as u64;
                self.out.drain(..sent);
                self.took(sent)?;
            }
            if self.out.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Ends the connection in both directions.
    pub fn shut(&self) {
        let stream: &TcpStream = self.half.as_ref();
        let _ = shutdown(stream, Shutdown::Both);
    }

    fn wait_for_room(&mut self) {
        if !std::mem::replace(&mut self.is_full, true) {
            self.deadline.restart();
        }
    }
}
