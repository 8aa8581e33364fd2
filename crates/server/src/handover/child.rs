//! The new process's side of a handover.

use std::env;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;

use larder_evict::Spec;
use rustix::net::sockopt::socket_peercred;
use rustix::process::getpid;
use rustix::stdio::{dup2_stderr, dup2_stdin};
use serde::Serialize;

use super::frame::{Part, Reader, Writer};
use super::listeners::Listeners;
use super::memory::{Import, LatePurges, PartResult};
use super::sockets::{SocketReader, SocketWriter};
use super::{
    COPIED, DISKS, GO, HELLO, IDENTITY, Identity, LISTENERS, PREDECESSOR, PURGES, READY, SERVING, STREAMS,
    Streams, SuccessorReport, content, go_on_from, say,
};
use crate::base::error::{Error, cause};
use crate::base::inheritance::Inheritance;
use crate::flow::worker::ProcessState;

/// The process that has started this one in order to hand over to it.
pub struct Predecessor {
    incoming: Reader<SocketReader>,
    outgoing: Writer<SocketWriter>,
    /// The standard error of the old process. Until this process serves, the old one reads its errors.
    errors: OwnedFd,
    identity: Identity,
    import: Option<Import>,
    /// What this process purges, for the other one. `None` until this process has taken over.
    late: Option<LatePurges>,
    kept: SuccessorReport,
}

impl Predecessor {
    /// Returns the process that hands over to this one, if there is one. Call it before anything reads the standard
    /// input, which is the connection to that process until then.
    ///
    /// # Errors
    /// The other process has ended, or cannot be understood.
    pub fn meet() -> Result<Option<Self>, Error> {
        let Some(process) = env::var(PREDECESSOR).ok().and_then(|process| process.parse::<i32>().ok()) else {
            return Ok(None);
        };
        let input = io::stdin();
        // The variable is also in the environment of programs that this process starts.
        match socket_peercred(&input) {
            Ok(other) if other.pid.as_raw_nonzero().get() == process => {}
            _ => return Ok(None),
        }
        Self::over(input.as_fd()).map(Some).map_err(lost)
    }

    fn over(input: impl AsFd) -> io::Result<Self> {
        let stream = UnixStream::from(input.as_fd().try_clone_to_owned()?);
        let mut incoming = Reader::new(SocketReader::new(stream.try_clone()?))?;
        let streams = next(&mut incoming, STREAMS)?;
        let Streams { input, errors } = content(&streams)?;
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "a standard stream is missing");
        dup2_stdin(incoming.take(input).ok_or_else(missing)?)?;
        let errors = incoming.take(errors).ok_or_else(missing)?;
        let outgoing = Writer::new(SocketWriter::new(stream))?;
        Ok(Self {
            incoming,
            outgoing,
            errors,
            identity: Identity::default(),
            import: None,
            late: None,
            kept: SuccessorReport::default(),
        })
    }

    /// Says that the config is read, and returns what this process needs in order to be made. Errors: the other process
    /// has ended, or cannot be understood.
    pub(crate) fn inherit(&mut self) -> Result<(Listeners, Inheritance), Error> {
        self.try_inherit().map_err(lost)
    }

    fn try_inherit(&mut self) -> io::Result<(Listeners, Inheritance)> {
        self.say(HELLO, &())?;
        let part = next(&mut self.incoming, LISTENERS)?;
        let listeners = Listeners::receive(&part, |number| self.incoming.take(number))?;
        self.identity = content(&next(&mut self.incoming, IDENTITY)?)?;
        let statistics = self.identity.statistics.and_then(|number| self.incoming.take(number));
        let node = self.identity.node.take();
        Ok((listeners, Inheritance { node, statistics: statistics.map(Into::into) }))
    }

    /// Gives the other process's secrets, place and stored responses to this one. Errors: the other process has ended.
    pub(crate) fn give(&mut self, shared: &Arc<ProcessState>) -> Result<(), Error> {
        if let (Some((secrets, age)), Some(tls)) = (self.identity.tickets.take(), &shared.listener_tls) {
            tls.tickets.inherit(secrets, age);
        }
        go_on_from(self.identity.position.take(), shared);
        if let Some((policy, of_config)) = self.identity.policy.take()
            && of_config == shared.plan().settings.memory.policy.to_string()
            && let Ok(policy) = Spec::parse(&policy)
        {
            shared.run_policy(policy);
        }
        self.import = Some(Import::new(shared));
        self.store_until(COPIED).map_err(lost)
    }

    /// Says that this process is ready, and returns once it has to accept connections. Errors: the other process has
    /// ended, and goes on if it has not.
    pub(crate) fn take_over(&mut self) -> Result<(), Error> {
        self.say(READY, &()).map_err(lost)?;
        self.store_until(GO).map_err(lost)?;
        if let Some(import) = &mut self.import {
            let (taken, late) = import.complete();
            (self.kept.objects, self.kept.bytes) = (taken.objects, taken.bytes);
            self.late = Some(late);
        }
        Ok(())
    }

    /// Says that this process serves. `disks` learns when it may open its disks, and the result whether the other
    /// process has not ended yet. Errors: the system has no resources for a thread.
    pub(crate) fn leave(mut self, disks: Sender<()>) -> Result<Arc<AtomicBool>, Error> {
        // If it cannot be told, it has ended.
        let serving = SuccessorReport {
            process: getpid().as_raw_nonzero().get().unsigned_abs(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..std::mem::take(&mut self.kept)
        };
        if let Err(error) = self.say(SERVING, &serving).and_then(|()| Ok(dup2_stderr(&self.errors)?)) {
            tracing::warn!(
                "the process before this one has not heard that it is succeeded: {}",
                cause(&error)
            );
        }
        let Self { mut incoming, mut outgoing, mut import, late, .. } = self;
        let drains = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&drains);
        let listen = move || {
            while let Ok(Some(part)) = incoming.next() {
                match part.name.as_str() {
                    DISKS => _ = disks.send(()),
                    _ => _ = store(&part, &mut import, &mut incoming),
                }
            }
            tracing::info!("the process before this one has ended");
            let store = import.map(Import::predecessor_ended);
            seen.store(false, Ordering::Release);
            store.into_iter().for_each(|store| store.memory.unpack());
        };
        let seen = Arc::clone(&drains);
        let tell = move || {
            let Some(mut late) = late else { return };
            while seen.load(Ordering::Acquire) && late.send_back(&mut outgoing).is_ok() {
                thread::sleep(PURGES);
            }
        };
        for (name, work) in
            [("predecessor", Box::new(listen) as Box<dyn FnOnce() + Send>), ("purges", Box::new(tell))]
        {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|error| Error::new("cannot follow the process before this one", error))?;
        }
        Ok(drains)
    }

    /// Stores parts up to the one called `last`.
    fn store_until(&mut self, last: &str) -> io::Result<()> {
        loop {
            let part = self.incoming.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if part.name == last {
                return Ok(());
            }
            let why = store(&part, &mut self.import, &mut self.incoming);
            self.kept.refused.extend(why.filter(|why| !self.kept.refused.contains(why)));
        }
    }

    fn say(&mut self, name: &str, content: &impl Serialize) -> io::Result<()> {
        say(&mut self.outgoing, name, content)
    }
}

/// Takes a part of what the other process has stored. What is not taken starts empty; then the part and the reason are
/// returned.
fn store(part: &Part, import: &mut Option<Import>, incoming: &mut Reader<SocketReader>) -> Option<String> {
    let mut take = |number| incoming.take(number);
    let result = import.as_mut().map_or(PartResult::Unknown, |import| import.part(part, &mut take));
    let why = match result {
        PartResult::Taken => return None,
        PartResult::Unknown => "this program does not know it".to_owned(),
        PartResult::Refused(why) => why,
    };
    tracing::warn!("not taken from the process before this one: {}: {why}", part.name);
    Some(format!("{} ({why})", part.name))
}

/// Returns the next part, which has to have this name.
fn next(incoming: &mut Reader<SocketReader>, name: &str) -> io::Result<Part> {
    match incoming.next()? {
        Some(part) if part.name == name => Ok(part),
        Some(part) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has sent {} in place of {name}", part.name),
        )),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn lost(error: io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => "it has ended".to_owned(),
        _ => cause(&error),
    };
    Error::new("cannot take over from the process before this one", why)
}
