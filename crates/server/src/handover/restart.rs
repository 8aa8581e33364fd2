//! Keeps the memory tier over a restart by the service manager (`systemctl restart`), in the file descriptor store of systemd.
//!
//! A process that ends writes the same parts as for a successor into a memory file. That file and those of the responses wait in
//! the queue of a Unix socket, as descriptors beside a message. So the service manager keeps a single descriptor: the listening
//! end, which it passes to the next process.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use super::control::is_allowed;
use super::frame::{Carrier, Reader, Source, Writer};
use super::memory::{Import, Offer, PartResult};
use super::sockets::{SocketReader, SocketWriter};
use super::{IDENTITY, Identity, content, go_on_from, say};
use crate::base::error::cause;
use crate::base::notify;
use crate::flow::worker::ProcessState;

/// The name of the descriptor, and the beginning of that of the socket.
const NAME: &str = "larder-memory";
/// The time for a message that has been sent already.
const PATIENCE: Duration = Duration::from_secs(1);

/// A memory file with parts, and the descriptors that they name.
struct Parts {
    file: File,
    descriptors: Vec<Option<OwnedFd>>,
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Carrier for Parts {
    fn attach(&mut self, descriptor: OwnedFd) -> io::Result<()> {
        self.descriptors.push(Some(descriptor));
        Ok(())
    }
}

impl Read for Parts {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl Source for Parts {
    fn detach(&mut self, number: u32) -> Option<OwnedFd> {
        self.descriptors.get_mut(number as usize)?.take()
    }
}

/// Whether `socket` is the one that [`keep`] has given to the service manager.
pub(crate) fn is_it(socket: &UnixListener) -> bool {
    let address = socket.local_addr();
    address.is_ok_and(|at| at.as_abstract_name().is_some_and(|name| name.starts_with(NAME.as_bytes())))
}

/// Leaves everything in memory to the next process. `position` is this node's in the stream of purges, from before its disks were
/// written down. To be called when no request is in progress and none can come. Errors: the error of the operating
/// system. Then the next process starts empty.
pub(crate) fn keep(shared: &Arc<ProcessState>, position: Option<(String, String)>) -> io::Result<()> {
    let file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC)?);
    let mut writer = Writer::new(Parts { file, descriptors: Vec::new() })?;
    say(&mut writer, IDENTITY, &Identity { position, ..Identity::default() })?;
    let mut offer = Offer::new(shared);
    offer.send(&mut writer)?;
    offer.cut(&mut writer)?;
    let name = format!("{NAME}/{:016x}", fastrand::u64(..));
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    let mut queue = SocketWriter::new(UnixStream::connect_addr(&address)?);
    let Parts { file, descriptors } = writer.into_carrier();
    let descriptors: Vec<_> = [Some(file.into())].into_iter().chain(descriptors).flatten().collect();
    let message = vec![0; descriptors.len()];
    descriptors.into_iter().try_for_each(|descriptor| queue.attach(descriptor))?;
    queue.write_all(&message)?;
    notify::keep(NAME, listener.as_fd())
}

/// Takes over what the process before this one has left in `socket`. To be called before the disks are opened.
pub(crate) fn take(socket: &UnixListener, shared: &Arc<ProcessState>) {
    // After a crash, it would be outdated.
    notify::drop_kept(NAME);
    match received(socket).and_then(|parts| restore(parts, shared)) {
        Ok((objects, bytes)) => {
            tracing::info!("kept over the restart: {objects} objects, {bytes} bytes");
        }
        Err(error) => {
            shared.cache.fills.purge_all();
            tracing::warn!("memory was not kept over the restart: {}", cause(&error));
        }
    }
}

fn received(socket: &UnixListener) -> io::Result<Parts> {
    socket.set_nonblocking(true)?;
    let stream = loop {
        // Any user of the machine may have connected, too.
        match socket.accept()?.0 {
            stream if is_allowed(&stream)? => break stream,
            _ => {}
        }
    };
    let mut incoming = SocketReader::new(stream);
    incoming.until(Some(Instant::now() + PATIENCE));
    let count = io::copy(&mut incoming, &mut io::sink())?;
    let mut file = File::from(incoming.detach(0).ok_or(ErrorKind::UnexpectedEof)?);
    file.rewind()?;
    let descriptors = (1..count as u32).map(|number| incoming.detach(number)).collect();
    Ok(Parts { file, descriptors })
}

/// Returns the number of objects, and their bytes.
fn restore(parts: Parts, shared: &Arc<ProcessState>) -> io::Result<(u64, u64)> {
    let mut reader = Reader::new(parts)?;
    let identity: Identity = content(&reader.next()?.ok_or(ErrorKind::UnexpectedEof)?)?;
    go_on_from(identity.position, shared);
    let mut import = Import::new(shared);
    while let Some(part) = reader.next()? {
        match import.part(&part, &mut |number| reader.take(number)) {
            PartResult::Taken => {}
            PartResult::Unknown => tracing::warn!("not kept: {}: this program does not know it", part.name),
            PartResult::Refused(why) => tracing::warn!("not kept: {}: {why}", part.name),
        }
    }
    let (taken, _) = import.complete();
    let store = import.predecessor_ended();
    // Without a thread, small contents stay in memory files.
    let _ = thread::Builder::new().name("unpack".to_owned()).spawn(move || store.memory.unpack());
    Ok((taken.objects, taken.bytes))
}
