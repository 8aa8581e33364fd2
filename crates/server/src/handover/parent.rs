//! The old process's side of a handover.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use super::frame::{Part, Reader, Sink, Writer};
use super::listeners::Listeners;
use super::memory::{self, Offer};
use super::program::{Program, why_not};
use super::sockets::{SocketReader, SocketWriter};
use super::{
    COPIED, DISKS, GO, HELLO, IDENTITY, Identity, PREDECESSOR, PURGES, READY, SERVING, STREAMS, Streams,
    SuccessorReport, content, position, say,
};
use crate::base::error::cause;
use crate::features::maintenance::Upkeep;
use crate::flow::worker::ProcessState;

/// The id of the first process of a container, which ends with it.
const INIT: u32 = 1;
/// How long a process may take to end that is about to.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The time limit of an upgrade by a signal.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Takes the result of an upgrade for the command that asked for it: a line about what serves now, or the reason why nothing
/// has changed.
pub(crate) type Answer = Box<dyn FnOnce(&Result<String, String>) + Send>;

/// An order to start a successor.
pub(crate) struct Order {
    /// Its program; `None` for the file of the running one.
    pub(crate) binary: Option<PathBuf>,
    /// The time until it has to serve.
    pub(crate) timeout: Duration,
    pub(crate) answer: Answer,
}

/// What a process hands to its successor, and the state of that.
pub(crate) struct Handover {
    shared: Arc<ProcessState>,
    program: Program,
    /// Copies of the listening sockets; empty once the process ends.
    listeners: Mutex<Listeners>,
    upkeep: Mutex<Option<Upkeep>>,
    /// Whether the process before this one has not ended yet.
    predecessor_drains: Arc<AtomicBool>,
    is_running: AtomicBool,
    /// The connection to a successor that may still fail.
    conversation: Mutex<Option<UnixStream>>,
    /// The connection to the successor that serves. It is closed by the end of this process.
    successor: Mutex<Option<Successor>>,
    handed_over: Mutex<Option<OnHandedOver>>,
    /// The thread of the last upgrade.
    thread: Mutex<Option<JoinHandle<()>>>,
    ends: AtomicBool,
}

/// Receives the id of the successor that serves.
type OnHandedOver = Box<dyn FnOnce(u32) + Send>;

impl Handover {
    /// `handed_over` is called with the id of the successor that serves.
    pub(crate) fn new(
        shared: &Arc<ProcessState>,
        (program, listeners): (Program, Listeners),
        upkeep: Upkeep,
        predecessor_drains: Arc<AtomicBool>,
        handed_over: impl FnOnce(u32) + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            program,
            listeners: Mutex::new(listeners),
            upkeep: Mutex::new(Some(upkeep)),
            predecessor_drains,
            is_running: AtomicBool::new(false),
            conversation: Mutex::default(),
            successor: Mutex::default(),
            handed_over: Mutex::new(Some(Box::new(handed_over))),
            thread: Mutex::default(),
            ends: AtomicBool::new(false),
        })
    }

    /// Obeys `order` on a thread of its own.
    pub(crate) fn begin(self: &Arc<Self>, order: Order) {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return (order.answer)(&Err("another upgrade is in progress".to_owned()));
        }
        let this = Arc::clone(self);
        let thread = thread::Builder::new().name("handover".to_owned());
        match thread.spawn(move || this.run(order)) {
            Ok(thread) => *self.thread.lock() = Some(thread),
            Err(error) => {
                tracing::error!("no upgrade: {}", cause(&error));
                self.is_running.store(false, Ordering::Release);
            }
        }
    }

    /// Ends an upgrade that may still fail, and closes the listening sockets: this process ends.
    pub(crate) fn cancel(&self) {
        self.ends.store(true, Ordering::Release);
        *self.listeners.lock() = Listeners::default();
        if let Some(stream) = &*self.conversation.lock() {
            // If it is closed already, the upgrade has failed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether a successor serves.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.successor.lock().is_some()
    }

    /// Waits until an upgrade has succeeded or failed, and until all is written to the disks.
    pub(crate) fn finish(&self) {
        let thread = self.thread.lock().take();
        // The thread has reported a panic itself.
        thread.into_iter().for_each(|thread| drop(thread.join()));
        self.follow();
        let upkeep = self.upkeep.lock().take();
        upkeep.into_iter().for_each(Upkeep::finish);
    }

    fn run(self: &Arc<Self>, Order { binary, timeout, answer }: Order) {
        let result = self.attempt(binary.as_deref(), timeout);
        *self.conversation.lock() = None;
        let line = match result {
            Ok(serving) => {
                let line = self.describe(&serving);
                tracing::info!("{line}");
                if let Some(handed_over) = self.handed_over.lock().take() {
                    handed_over(serving.process);
                }
                Ok(line)
            }
            Err(why) => {
                tracing::error!("no upgrade, this process goes on: {why}");
                self.is_running.store(false, Ordering::Release);
                Err(why)
            }
        };
        answer(&line);
        match line {
            Ok(_) => {
                self.go_along();
                self.leave_disks();
            }
            Err(_) => self.shared.cache.store.memory.unpack(),
        }
    }

    /// Exchanges with the successor what the requests of both processes purge, until this process ends.
    fn go_along(self: &Arc<Self>) {
        let incoming = self.successor.lock().as_mut().and_then(|successor| successor.incoming.take());
        let (this, shared) = (Arc::clone(self), Arc::clone(&self.shared));
        let tell = move || {
            while this.follow() {
                thread::sleep(PURGES);
            }
        };
        let obey = move || {
            let Some(mut incoming) = incoming else { return };
            incoming.source().until(None);
            while let Ok(Some(part)) = incoming.next() {
                memory::obey(&shared, &part);
            }
            shared.cache.twin.leave();
        };
        let spawn =
            |work: Box<dyn FnOnce() + Send>| thread::Builder::new().name("purges".to_owned()).spawn(work);
        for result in [spawn(Box::new(tell)), spawn(Box::new(obey))] {
            if let Err(error) = result {
                tracing::error!("purges are not exchanged with the successor: {}", cause(&error));
            }
        }
    }

    /// Sends the successor what has changed in this process. Returns false if there is none any more.
    fn follow(&self) -> bool {
        match &mut *self.successor.lock() {
            Some(Successor { offer: Some(offer), outgoing, .. }) => offer.follow(outgoing).is_ok(),
            _ => false,
        }
    }

    /// Lets the successor open the disks, once all is written.
    fn leave_disks(&self) {
        let upkeep = self.upkeep.lock().take();
        upkeep.into_iter().for_each(Upkeep::finish);
        if let Err(error) = self.shared.cache.store.disks.release() {
            tracing::warn!("the disk cache was not written down before the upgrade: {}", cause(&error));
        }
        if let Some(successor) = &mut *self.successor.lock() {
            // If it has ended, its own successor reads the disks.
            let _ = successor.say(DISKS, &());
        }
    }

    fn describe(&self, serving: &SuccessorReport) -> String {
        let SuccessorReport { process, version, objects, bytes, refused } = serving;
        let connections = self.shared.connections.count();
        let plural = if *objects == 1 { "" } else { "s" };
        let mut line = format!(
            "process {process} (larder {version}) serves now; kept: {objects} object{plural}, {bytes} bytes; connections that \
             process {} drains: {connections}",
            std::process::id()
        );
        if !refused.is_empty() {
            line.push_str(&format!("; not kept: {}", refused.join(", ")));
        }
        line
    }

    /// Starts a successor and hands over to it. Errors: a line with the reason. Then this process serves as before, and
    /// the successor has ended.
    fn attempt(&self, binary: Option<&Path>, timeout: Duration) -> Result<SuccessorReport, String> {
        if std::process::id() == INIT {
            return Err(
                "this process has the id 1, and its container ends with it: replace the container".to_owned()
            );
        }
        self.wait_for_predecessor()?;
        let file = binary.unwrap_or(&self.program.file);
        let cannot = |error: io::Error| format!("cannot start {}: {}", file.display(), why_not(file, &error));
        let mut successor = Successor::start(file, &self.program, timeout).map_err(cannot)?;
        *self.conversation.lock() = Some(successor.stream.try_clone().map_err(cannot)?);
        let ends = || "this process ends".to_owned();
        if self.ends.load(Ordering::Acquire) {
            return Err(ends());
        }
        let mut offer = Offer::new(&self.shared);
        let prepared = self.prepare(&mut successor, &mut offer);
        prepared.map_err(|error| successor.fault(&error))?;
        if !self.shared.hand_over() {
            return Err(ends());
        }
        let cut = offer.cut(&mut successor.outgoing).and_then(|()| successor.say(GO, &()));
        match cut.and_then(|()| content(&successor.expect(SERVING)?)) {
            Ok(serving) => {
                // If this process was told to end meanwhile, it ends, and the successor serves.
                self.shared.handed_over();
                successor.serves = true;
                successor.offer = Some(offer);
                *self.listeners.lock() = Listeners::default();
                *self.successor.lock() = Some(successor);
                Ok(serving)
            }
            Err(error) => {
                let why = successor.fault(&error);
                offer.take_back();
                self.shared.take_back();
                Err(why)
            }
        }
    }

    /// Waits for a moment until the process before this one has ended: what it has stored belongs to both until then.
    fn wait_for_predecessor(&self) -> Result<(), String> {
        let begun = Instant::now();
        while self.predecessor_drains.load(Ordering::Acquire) {
            if begun.elapsed() > LAST_WORDS {
                return Err(
                    "the process before this one has not ended yet: its last connections drain".to_owned()
                );
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Brings a successor to the point where only the threads are missing that accept connections.
    fn prepare(&self, successor: &mut Successor, offer: &mut Offer) -> io::Result<()> {
        successor.expect(HELLO)?;
        self.listeners.lock().send(&mut successor.outgoing)?;
        self.send_identity(successor)?;
        offer.send(&mut successor.outgoing)?;
        successor.say(COPIED, &())?;
        successor.expect(READY).map(drop)
    }

    fn send_identity(&self, successor: &mut Successor) -> io::Result<()> {
        let ledger = self.shared.observers.ledger.as_ref();
        let lock = ledger.map(|ledger| ledger.lock()).transpose()?.flatten();
        let applied = self.shared.applied_policy();
        let identity = Identity {
            node: self.shared.cluster.as_ref().map(|cluster| cluster.id.clone()),
            position: position(&self.shared),
            tickets: self.shared.listener_tls.as_ref().map(|tls| tls.tickets.secrets()),
            statistics: lock.map(|lock| successor.outgoing.descriptor(lock.into())).transpose()?,
            policy: applied.map(|applied| (applied.policy.to_string(), applied.of_config.to_string())),
        };
        successor.say(IDENTITY, &identity)
    }
}

/// A process that was started in order to succeed this one. Dropping it kills it, unless it serves.
struct Successor {
    process: Child,
    stream: UnixStream,
    /// `None` until it has said something, and once it serves.
    incoming: Option<Reader<SocketReader>>,
    outgoing: Writer<SocketWriter>,
    /// Its last line of errors arrives when it has closed them.
    last_line: Receiver<String>,
    timeout: Duration,
    deadline: Instant,
    serves: bool,
    /// What it has from this process, once it serves.
    offer: Option<Offer>,
}

impl Successor {
    fn start(file: &Path, program: &Program, timeout: Duration) -> io::Result<Self> {
        let (stream, other) = UnixStream::pair()?;
        let mut outgoing = SocketWriter::new(stream.try_clone()?);
        outgoing.within(timeout)?;
        let mut outgoing = Writer::new(outgoing)?;
        let streams = Streams {
            input: outgoing.descriptor(io::stdin().as_fd().try_clone_to_owned()?)?,
            errors: outgoing.descriptor(io::stderr().as_fd().try_clone_to_owned()?)?,
        };
        say(&mut outgoing, STREAMS, &streams)?;
        let mut command = Command::new(file);
        command.args(&program.arguments).env(PREDECESSOR, std::process::id().to_string());
        command.stdin(Stdio::from(OwnedFd::from(other))).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let (sender, last_line) = channel();
        if let Some(errors) = process.stderr.take() {
            // Without the thread, the reason of a failure is unknown.
            let relay = thread::Builder::new().name("successor".to_owned());
            let _ = relay.spawn(move || drop(sender.send(relay_lines(errors))));
        }
        let deadline = Instant::now() + timeout;
        let (incoming, serves, offer) = (None, false, None);
        Ok(Self { process, stream, incoming, outgoing, last_line, timeout, deadline, serves, offer })
    }

    fn say(&mut self, name: &str, content: &impl Serialize) -> io::Result<()> {
        say(&mut self.outgoing, name, content)
    }

    /// Waits for the part with this name.
    fn expect(&mut self, name: &str) -> io::Result<Part> {
        let incoming = match &mut self.incoming {
            Some(incoming) => incoming,
            None => {
                let mut incoming = SocketReader::new(self.stream.try_clone()?);
                incoming.until(Some(self.deadline));
                self.incoming.insert(Reader::new(incoming)?)
            }
        };
        match incoming.next()? {
            Some(part) if part.name == name => Ok(part),
            Some(part) => {
                let why = format!("it has said {} in place of {name}", part.name);
                Err(io::Error::new(ErrorKind::InvalidData, why))
            }
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Ends the process after `error`, and returns the reason, if possible in its own words.
    fn fault(&mut self, error: &io::Error) -> String {
        if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) {
            self.end(Duration::ZERO);
            return format!("the new process did not serve within {:?}", self.timeout);
        }
        let status = self.end(LAST_WORDS);
        let line = self.last_line.recv_timeout(LAST_WORDS).unwrap_or_default();
        let is_error = status.is_some_and(|status| status.code().is_some_and(|code| code != 0));
        match (error.kind(), status) {
            (_, Some(status)) if is_error && !line.is_empty() => match line.strip_prefix("larder: ") {
                Some(reason) => reason.to_owned(),
                // Of another program, of a loader, or of a panic.
                None => format!("the new process ended before it served ({status}): {line}"),
            },
            (ErrorKind::InvalidData, _) => format!("the new process cannot be understood: {}", cause(error)),
            (_, Some(status)) => format!("the new process ended before it served ({status})"),
            (_, None) => format!("the new process failed: {}", cause(error)),
        }
    }

    /// Waits for the end of the process, and kills it after `patience`.
    fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < patience && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        // It may have ended already.
        let _ = self.process.kill();
        self.process.wait().ok()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.serves {
            self.end(Duration::ZERO);
        }
    }
}

/// Copies lines to the standard error of this process, until the successor has its own. Returns the last one.
fn relay_lines(errors: ChildStderr) -> String {
    let (mut errors, mut line, mut last) = (BufReader::new(errors), Vec::new(), Vec::new());
    while errors.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // Without standard error, nobody reads the line.
        let _ = io::stderr().write_all(&line);
        if !line.trim_ascii().is_empty() {
            last = line.trim_ascii().to_owned();
        }
        line.clear();
    }
    String::from_utf8_lossy(&last).into_owned()
}
