//! What a connection sends under TLS: records that are sealed and not sent yet.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::record::{Fault, MOST, Sealer};
use super::records::Records;
use crate::base::clock;

/// The content of a record that fits into one packet, headers of all layers included.
const PACKET: usize = 1369;
/// Bytes of long content that go in such records first, so that a client can begin with them before more has arrived.
const FIRST: u64 = 4 << 10;
/// The pause after which a connection begins again with short records, in milliseconds.
const PAUSE: u64 = 1_000;

/// Seals what is sent.
#[derive(Debug)]
pub(crate) struct Output {
    sealer: Sealer,
    records: Records,
    /// Bytes of content since the last pause.
    burst: u64,
    /// When long content was last begun, in `clock::millis`.
    last: u64,
}

/// How far a file was sealed.
pub(crate) struct Sealed {
    /// Up to here it was read.
    pub(crate) read_to: u64,
    /// Bytes of content in the new records.
    pub(crate) content: u64,
}

impl Output {
    /// Bytes of content that are sealed before they are sent.
    pub(crate) const BATCH: usize = 8 * MOST;

    pub(crate) fn new(sealer: Sealer) -> Self {
        Self { sealer, records: Records::default(), burst: 0, last: 0 }
    }

    /// Seals all of `out`, which is empty then, and `bytes` behind it: how many bytes of content these are.
    ///
    /// # Errors
    /// When no further record may be sealed.
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<u64, Fault> {
        let content = out.len() + bytes.len();
        let is_long = !bytes.is_empty() && content > MOST;
        if is_long {
            self.begin();
        }
        let mut rest = bytes;
        if !out.is_empty() {
            let most = if is_long { self.most() } else { MOST };
            // It fills its last record together with the first bytes of what follows.
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

    /// Seals all of `out`, which is empty then, and some bytes of `file` in `range` behind it.
    ///
    /// # Errors
    /// The kernel's; `UnexpectedEof` when the file has fewer bytes. When no further record may be sealed.
    pub(crate) fn seal_file(
        &mut self,
        out: &mut Vec<u8>,
        file: &File,
        range: Range<u64>,
    ) -> io::Result<Sealed> {
        self.begin();
        let (mut at, mut content) = (range.start, out.len() as u64);
        while at < range.end && at - range.start < Self::BATCH as u64 {
            let most = self.most();
            // What is in front fills a record together with the first bytes of the file.
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
        Ok(Sealed { read_to: at, content: content - out.len() as u64 })
    }

    /// Lets go of what is made again when something is next sealed.
    pub(crate) fn doze(&mut self) {
        self.sealer.doze();
    }

    /// Seals the alert that says that nothing more follows.
    pub(crate) fn close(&mut self) {
        self.sealer.close(&mut self.records);
    }

    /// Seals the alert that says what was wrong with what came.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.sealer.fail(&mut self.records, fault);
    }

    /// The records that are ready to be sent.
    pub(crate) fn records(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Sends what is ready if the client takes it all at once: false when some is left.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn try_send(&mut self, stream: &TcpStream) -> io::Result<bool> {
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

    /// Begins with long content.
    fn begin(&mut self) {
        let now = clock::millis();
        if now.saturating_sub(self.last) >= PAUSE {
            self.burst = 0;
        }
        self.last = now;
    }

    /// The longest content of the next record.
    fn most(&self) -> usize {
        if self.burst < FIRST { PACKET } else { MOST }
    }
}
