//! The Unix socket pair between a process and its successor: bytes, and file descriptors beside them (`SCM_RIGHTS`).

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::frame::{Carrier, Source};

/// The most descriptors of one message; the kernel allows 253.
const MOST: usize = 250;

/// Writes to the other process.
pub(crate) struct SocketWriter {
    stream: UnixStream,
    /// Descriptors that are sent with the next bytes.
    waiting: VecDeque<OwnedFd>,
}

/// Reads from the other process.
pub(crate) struct SocketReader {
    stream: UnixStream,
    /// The moment after which reads fail.
    deadline: Option<Instant>,
    /// All descriptors that have arrived; `None` for those that were taken.
    arrived: Vec<Option<OwnedFd>>,
}

impl SocketWriter {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, waiting: VecDeque::new() }
    }

    /// Makes writes fail that the other process does not read within `limit`.
    pub(crate) fn within(&mut self, limit: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(limit))
    }
}

impl Write for SocketWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Descriptors beyond one message travel with the next bytes, so that each message has at least one.
        let (count, is_more) = (self.waiting.len().min(MOST), self.waiting.len() > MOST);
        let bytes = if is_more { &bytes[..bytes.len().min(1)] } else { bytes };
        let descriptors: Vec<_> = self.waiting.iter().take(count).map(OwnedFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)?;
        drop(self.waiting.drain(..count));
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Carrier for SocketWriter {
    fn attach(&mut self, descriptor: OwnedFd) -> io::Result<()> {
        self.waiting.push_back(descriptor);
        Ok(())
    }
}

impl SocketReader {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, deadline: None, arrived: Vec::new() }
    }

    /// Makes reads fail after `deadline`; without one, they wait.
    pub(crate) fn until(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}

impl Read for SocketReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&self.stream, &mut [IoSliceMut::new(into)], &mut beside, RecvFlags::CMSG_CLOEXEC);
        let received = received.map_err(|error| match io::Error::from(error) {
            error if error.kind() == ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            error => error,
        })?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.arrived.extend(descriptors.map(Some));
            }
        }
        Ok(received.bytes)
    }
}

impl Source for SocketReader {
    fn detach(&mut self, number: u32) -> Option<OwnedFd> {
        self.arrived.get_mut(number as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::handover::frame::{Reader, Sink, Writer};

    #[test]
    fn more_descriptors_arrive_in_order_than_one_message_carries() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut writer = Writer::new(SocketWriter::new(here)).unwrap();
        for number in 0..2 * MOST as u32 + 1 {
            assert_eq!(writer.descriptor(file.try_clone().unwrap().into()).unwrap(), number);
        }
        let other = tempfile::tempfile().unwrap();
        other.set_len(7).unwrap();
        let last = writer.descriptor(other.into()).unwrap();
        writer.part("files", 1, |out| out.write_all(b"content")).unwrap();
        let mut reader = Reader::new(SocketReader::new(there)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().content, Ok(b"content".to_vec()));
        let length = |file: OwnedFd| File::from(file).metadata().unwrap().len();
        assert_eq!(length(reader.take(0).unwrap()), 0);
        assert_eq!(length(reader.take(last).unwrap()), 7);
        assert!(reader.take(last).is_none() && reader.take(last + 1).is_none());
    }

    #[test]
    fn a_silent_process_is_waited_for_until_the_deadline() {
        let (_here, there) = UnixStream::pair().unwrap();
        let mut incoming = SocketReader::new(there);
        incoming.until(Some(Instant::now() + Duration::from_millis(20)));
        assert_eq!(incoming.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
