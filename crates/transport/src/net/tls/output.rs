//! Sealed records that a connection has yet to send.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::fault::Fault;
use super::halves::Sealer;
use super::record::MOST;
use super::records::Records;
use crate::base::clock;
use crate::net::content::ContentFile;

/// Content bytes of a record that fits into one packet, headers of all layers included.
const PACKET: usize = 1369;
/// Bytes of long content that are sent in such short records first, so that a client can process them before more has
/// arrived.
const FIRST: u64 = 4 << 10;
/// The pause after which a connection starts with short records again, in milliseconds.
const PAUSE: u64 = 1_000;

/// Seals content into records and keeps them until they are sent.
#[derive(Debug)]
pub struct Output {
    sealer: Sealer,
    records: Records,
    /// Content bytes since the last pause.
    burst: u64,
    /// The time at which long content was last started, in `clock::millis`.
    last: u64,
}

/// The result of sealing a part of a file.
pub struct SealResult {
    /// The number of bytes of the file.
    pub read: u64,
    /// Content bytes in the new records.
    pub content: u64,
}

impl Output {
    /// Maximum of content bytes that are sealed before they are sent.
    pub const BATCH: usize = 4 * MOST;

    /// Creates the output of a connection. Its first bytes are `sealed` records.
    #[inline]
    pub fn new(sealer: Sealer, sealed: Vec<u8>) -> Self {
        Self { sealer, records: Records::new(sealed), burst: 0, last: 0 }
    }

    /// Seals and clears `out`, then seals `bytes`. Returns the number of content bytes. Fails when no further record
    /// may be sealed with the key.
    pub fn seal(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<u64, Fault> {
        let content = out.len() + bytes.len();
        let is_long = !bytes.is_empty() && content > MOST;
        if is_long {
            self.begin();
        }
        let mut rest = bytes;
        if !out.is_empty() {
            let most = if is_long { self.most() } else { MOST };
            // The last record of `out` is filled with the first of `bytes`.
            let room = (most - out.len() % most) % most;
            let (piece, after) = rest.split_at(rest.len().min(room));
            out.extend_from_slice(piece);
            self.sealer.seal(&mut self.records, out, most)?;
            self.burst += out.len() as u64;
            out.clear();
            rest = after;
        }
        while !rest.is_empty() {
            let most = if is_long { self.most() } else { MOST };
            let (piece, after) = rest.split_at(rest.len().min(most));
            self.sealer.seal(&mut self.records, piece, MOST)?;
            self.burst += piece.len() as u64;
            rest = after;
        }
        Ok(content as u64)
    }

    /// Seals and removes the bytes in `out`, then seals some bytes of `file` in `range`. Errors: the kernel's error;
    /// `UnexpectedEof` when the file is shorter. A [`Fault`] when no further record may be sealed with the key.
    pub(crate) fn seal_file(
        &mut self,
        out: &mut Vec<u8>,
        file: &File,
        range: Range<u64>,
    ) -> io::Result<SealResult> {
        self.begin();
        let (mut at, mut content) = (range.start, out.len() as u64);
        while at < range.end && at - range.start < Self::BATCH as u64 {
            let most = self.most();
            // The bytes in `out` share a record with the first bytes of the file.
            let ahead = out.len().min(most);
            let length = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(most - ahead);
            let front = &out[..ahead];
            self.sealer.seal_with(&mut self.records, ahead + length, |room| {
                let (head, rest) = room.split_at_mut(ahead);
                head.copy_from_slice(front);
                file.read_exact_at(rest, at)
            })?;
            out.drain(..ahead);
            at += length as u64;
            content += length as u64;
            self.burst += (ahead + length) as u64;
        }
        Ok(SealResult { read: at - range.start, content: content - out.len() as u64 })
    }

    /// Seals and removes the bytes in `out`, then seals some bytes of `content` in `range`, in at most `frames` frames.
    /// `header` returns the bytes in front of a frame's content of the given length. Errors: as for
    /// [`seal_file`](Self::seal_file); a frame that cannot be read is not begun.
    pub(crate) fn seal_frames<const N: usize>(
        &mut self,
        out: &mut Vec<u8>,
        content: ContentFile<'_>,
        range: Range<u64>,
        frames: usize,
        header: impl FnMut(usize) -> [u8; N],
    ) -> io::Result<SealResult> {
        self.begin();
        match content.mapped(range.clone()) {
            Some(bytes) => Ok(self.seal_mapped_frames(out, bytes, frames, header)?),
            None => {
                let (file, range) = content.in_file(range);
                self.seal_read_frames(out, file, range, frames, header)
            }
        }
    }

    /// The same for mapped content. The header of a frame is sealed in the record of the frame before, and that of the
    /// first frame in a record with the bytes in `out`, so that content is sealed from the mapping without a copy.
    fn seal_mapped_frames<const N: usize>(
        &mut self,
        out: &mut Vec<u8>,
        bytes: &[u8],
        frames: usize,
        mut header: impl FnMut(usize) -> [u8; N],
    ) -> Result<SealResult, Fault> {
        if bytes.is_empty() || frames == 0 || !self.has_room() {
            return Ok(SealResult { read: 0, content: 0 });
        }
        let (mut piece, mut rest) = bytes.split_at(bytes.len().min(self.most() - N));
        out.extend_from_slice(&header(piece.len()));
        let mut content = self.seal(out, &[])?;
        for left in (0..frames).rev() {
            self.burst += piece.len() as u64;
            content += piece.len() as u64;
            let has_room = left > 0 && self.records.end() + MOST < Self::BATCH;
            let next = if has_room { rest.len().min(self.most() - N) } else { 0 };
            if next == 0 {
                self.sealer.seal_with_tail(&mut self.records, piece, &[])?;
                break;
            }
            self.sealer.seal_with_tail(&mut self.records, piece, &header(next))?;
            content += N as u64;
            (piece, rest) = rest.split_at(next);
        }
        Ok(SealResult { read: (bytes.len() - rest.len()) as u64, content })
    }

    /// The same for a file that is read. A frame ends with its record.
    fn seal_read_frames<const N: usize>(
        &mut self,
        out: &mut Vec<u8>,
        file: &File,
        range: Range<u64>,
        frames: usize,
        mut header: impl FnMut(usize) -> [u8; N],
    ) -> io::Result<SealResult> {
        let (mut at, mut content) = (range.start, 0);
        for _ in 0..frames {
            if at == range.end || !self.has_room() {
                break;
            }
            let most = self.most();
            // The bytes in `out` share a record with the first frame, unless they would make it short.
            if out.len() + N > most / 2 {
                content += self.seal(out, &[])?;
            }
            let ahead = out.len() + N;
            let length = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(most - ahead);
            self.sealer.seal_with(&mut self.records, ahead + length, |room| {
                let (front, frame) = room.split_at_mut(out.len());
                file.read_exact_at(&mut frame[N..], at)?;
                front.copy_from_slice(out);
                frame[..N].copy_from_slice(&header(length));
                Ok(())
            })?;
            out.clear();
            at += length as u64;
            content += (ahead + length) as u64;
            self.burst += (ahead + length) as u64;
        }
        Ok(SealResult { read: at - range.start, content })
    }

    /// Whether there is room for another record before the ready ones are sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.records.end() < Self::BATCH
    }

    /// Returns the number of bytes that are ready to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.records.len()
    }

    /// Drops the expanded key until the next record. Sends records that wait for a reply, as far as possible.
    #[inline]
    pub fn shrink(&mut self, stream: &TcpStream) {
        // On an error, the next read fails, too.
        let _ = self.try_send(stream);
        self.records.release_buffers();
        self.sealer.shrink();
    }

    /// Seals the `close_notify` alert.
    #[inline]
    pub fn close(&mut self) {
        self.sealer.close(&mut self.records);
    }

    /// Seals the alert for `fault`.
    #[inline]
    pub fn fail(&mut self, fault: Fault) {
        self.sealer.fail(&mut self.records, fault);
    }

    /// Returns the records that are ready to be sent.
    #[inline]
    pub fn records(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Sends the ready records as far as possible without waiting. Returns false when some bytes are left.
    pub fn try_send(&mut self, stream: &TcpStream) -> io::Result<bool> {
        let records = &mut self.records;
        if records.is_empty() {
            return Ok(true);
        }
        let send = || Ok(rustix::net::send(stream, records.ready(), SendFlags::NOSIGNAL)?);
        match stream.try_io(Interest::WRITABLE, send) {
            Ok(count) => {
                records.sent(count);
                Ok(records.is_empty())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes that long content starts.
    fn begin(&mut self) {
        let now = clock::millis();
        if now.saturating_sub(self.last) >= PAUSE {
            self.burst = 0;
        }
        self.last = now;
    }

    /// Returns the maximum of content bytes of the next record.
    fn most(&self) -> usize {
        if self.burst < FIRST { PACKET } else { MOST }
    }
}
