//! Sockets and threads: binds the sockets, starts one worker per thread, and stops the workers gracefully.
//!
//! Every worker has its own accept queue for every address (`SO_REUSEPORT`). So workers share no state while they
//! accept, and a connection stays on one core for its lifetime.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use larder_store::Store;
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::accept;
use crate::accept::front::{Front, Sockets};
use crate::admin::{self, config::ConfigFile};
use crate::base::error::{Error, cause};
use crate::base::notify;
use crate::base::settings::{Role, Settings};
use crate::cluster::{follow, ticket_keys};
use crate::exchange::arrival::Arrival;
use crate::features::advice;
use crate::features::maintenance::{ScheduleCounts, Upkeep};
use crate::flow::worker::ProcessState;
use crate::handover::child::Predecessor;
use crate::handover::listeners::Listeners;
use crate::handover::parent::Handover;
use crate::handover::program::Program;
use crate::handover::{self, restart};
use crate::net::own::OwnListeners;
use crate::net::tls;
use crate::net::tls::admin::Acceptor;
use crate::observe::contents;
use crate::observe::ledger::Ledger;
use crate::observe::trace::Tracer;
use crate::rpc;
use crate::server::bind::SocketFile;
use crate::server::binding::Binding;
use crate::server::control::Control;

use crate::server::given::GivenSockets;
use crate::server::liveness::Liveness;
use crate::server::supervise::{Operators, Supervisor, stopped};

/// Maximum time for the last lines of the access log.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long a start waits for the other nodes and for the purges that it missed.
const JOINS: Duration = Duration::from_secs(2);
/// The same in an upgrade, where clients wait meanwhile.
const JOINS_IN_UPGRADE: Duration = Duration::from_millis(250);

/// A proxy that is bound to its addresses.
pub struct Server {
    shared: Arc<ProcessState>,
    rpc: Arc<rpc::State>,
    upkeep: Upkeep,
    done: Arc<ScheduleCounts>,
    /// One set of sockets for each worker.
    sockets: Vec<Sockets>,
    addresses: Vec<(Front, SocketAddr)>,
    files: Vec<SocketFile>,
    admin: Option<StdListener>,
    admin_tls: Option<Arc<Acceptor>>,
    control: Option<StdUnixListener>,
    /// What a successor needs: the program, and copies of the sockets.
    program: Program,
    copies: Listeners,
    /// The process that hands over to this one, and the message to the upkeep that its disks are free.
    predecessor: Option<(Predecessor, Sender<()>)>,
    liveness: Liveness,
    config: Option<ConfigFile>,
}

impl Server {
    /// Binds every address, and opens the disk tier and the statistics database. Takes over what `predecessor` hands
    /// over: its sockets, and what it has stored. The sockets of `predecessor` and the `given` ones take the place of new ones.
    ///
    /// # Errors
    /// The address, directory or database that is unavailable, and the reason.
    pub fn bind(
        settings: Settings,
        mut predecessor: Option<Predecessor>,
        mut given: GivenSockets,
    ) -> Result<Self, Error> {
        let (program, memory) = (Program::of_this_process(), given.memory());
        let inherited = predecessor.as_mut().map(Predecessor::inherit).transpose()?;
        let (inherited, inheritance) = inherited.unwrap_or_default();
        let Binding { workers: sockets, addresses, files, admin, control, copies, .. } =
            Binding::new(&settings, inherited, given)?;
        let at_admin = admin.as_ref().and_then(|listener| listener.local_addr().ok());
        let own = OwnListeners::new(addresses.iter().map(|(_, address)| *address).chain(at_admin));
        let for_sites = Front::Http(Arrival { role: Role::Reverse, tls: true });
        let port = addresses.iter().find(|(front, _)| *front == for_sites).map(|(_, address)| address.port());
        let tls = tls::server::Server::new(&settings, port)?;
        let admin_tls = settings.admin_tls.as_ref().filter(|_| settings.admin.is_some());
        let admin_tls =
            admin_tls.map(|admin| tls::server::Server::for_admin(admin, tls.as_deref()).map(Arc::new));
        let admin_tls = admin_tls.transpose()?;
        let shared = ProcessState::new(settings, own, tls, inheritance)?;
        memory.iter().for_each(|socket| restart::take(socket, &shared));
        let (rpc, done) = (Arc::default(), Arc::default());
        let (disks, turn) = channel();
        let predecessor = predecessor.map(|predecessor| (predecessor, disks));
        let upkeep = Upkeep::start(&shared, &done, predecessor.is_some().then_some(turn))?;
        advice::start(&shared)
            .map_err(|error| Error::new("cannot start the thread of shadow caches", error))?;
        contents::start(
            shared.observers.ledger.clone(),
            Arc::clone(&shared.cache.store),
            &shared.plan().settings.statistics,
        )?;
        let mut server = Self {
            shared,
            rpc,
            upkeep,
            done,
            sockets,
            addresses,
            files,
            admin,
            admin_tls,
            control,
            program,
            copies,
            predecessor,
            liveness: Liveness::default(),
            config: None,
        };
        match &mut server.predecessor {
            Some((predecessor, _)) => predecessor.give(&server.shared)?,
            None => server.join_cluster(JOINS)?,
        }
        Ok(server)
    }

    /// Joins the cluster, if there is one. Waits for its members and purges, for as long as `patience` at most.
    fn join_cluster(&self, patience: Duration) -> Result<(), Error> {
        let peers = self.addresses.iter().find(|(front, _)| matches!(front, Front::Peer { .. }));
        if let (Some(cluster), Some((_, address))) = (&self.shared.cluster, peers) {
            cluster.start(*address)?;
            let deadline = Instant::now() + patience;
            follow::start(cluster, &self.shared.cache, deadline);
            cluster.wait_for_members(deadline);
            if let Some(tls) = &self.shared.listener_tls {
                ticket_keys::share(cluster, &tls.tickets);
            }
        }
        Ok(())
    }

    /// Makes the admin listener compare the config in force with `file`.
    pub fn compare_with(&mut self, file: ConfigFile) {
        self.config = Some(file);
    }

    /// Returns the addresses for clients.
    pub fn addresses(&self) -> Vec<(Front, SocketAddr)> {
        self.addresses.clone()
    }

    /// Returns the Unix sockets for clients of the sites.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(SocketFile::path)
    }

    /// Returns the address of the admin listener.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Returns the store of responses.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.cache.store
    }

    /// Returns what counts the contents so far that were refused, since their digest is another one.
    pub fn refused_contents(&self) -> impl Fn() -> u64 + use<> {
        let packages = Arc::clone(&self.shared.plan().packages);
        move || packages.counts().refused
    }

    /// Returns the location of the statistics database, without its password; `None` if there is none, or it is not
    /// open yet.
    pub fn statistics(&self) -> Option<&str> {
        self.shared.observers.ledger.as_deref().and_then(Ledger::place)
    }

    /// Returns what tells whether all threads still serve, from the start of [`run`](Self::run).
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Serves until a command ends it. If a successor serves, `handed_over` is called with its process id.
    ///
    /// # Errors
    /// When a thread or a runtime cannot be created, or a predecessor has ended before it has handed over.
    pub fn run(
        mut self,
        mut control: UnboundedReceiver<Control>,
        handed_over: impl FnOnce(u32) + Send + 'static,
    ) -> Result<(), Error> {
        if let Some((predecessor, _)) = &mut self.predecessor {
            predecessor.take_over()?;
            // A node that has not read the stream trusts no stored response: each would be validated at the origin.
            self.join_cluster(JOINS_IN_UPGRADE)?;
        }
        self.start_workers()?;
        let mut predecessor_drains = Arc::default();
        if let Some((predecessor, disks)) = self.predecessor.take() {
            predecessor_drains = predecessor.leave(disks)?;
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new("cannot start", error))?;
        self.liveness.watch(&runtime);
        let Self {
            shared,
            rpc,
            upkeep,
            done,
            admin,
            admin_tls,
            addresses,
            files,
            program,
            copies,
            config,
            ..
        } = self;
        let handover = Handover::new(&shared, (program, copies), upkeep, predecessor_drains, handed_over);
        let is_onc = |(front, _): &&(Front, SocketAddr)| front.is_onc();
        let settings = shared.plan().settings.doors.clone();
        let carried = |address: SocketAddr| (address, settings.takes_datagrams(address.ip()));
        let onc: Vec<_> = addresses.iter().filter(is_onc).map(|(_, address)| carried(*address)).collect();
        let state = Arc::new(admin::State::new(Arc::clone(&shared), rpc, done, admin_tls, config));
        let operators = Operators { admin, state, control: self.control };
        let supervisor =
            Supervisor { shared: Arc::clone(&shared), handover: Arc::clone(&handover), files, onc };
        let left = runtime.block_on(async {
            let mut left = None;
            if supervisor.run(operators, &mut control).await {
                if shared.connections.count() == 0 {
                    shared.cache.gateways.ended();
                    left = Some(handover::position(&shared)).filter(|_| !handover.is_succeeded());
                }
                handover.finish();
                end_traces(&shared).await;
                close_ledger(&shared, &mut control).await;
            }
            flush_access_log(&shared).await;
            left
        });
        // From here on, no operator's purge is obeyed.
        if let Some(position) = left.filter(|_| notify::keeps())
            && let Err(error) = restart::keep(&shared, position)
        {
            tracing::warn!("memory is not kept for the next process: {}", cause(&error));
        }
        // Disk flushes must not delay the shutdown.
        runtime.shutdown_background();
        Ok(())
    }

    /// Starts the threads that accept connections.
    fn start_workers(&mut self) -> Result<(), Error> {
        let runtime = || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            self.liveness.watch(&runtime);
            Ok(runtime)
        };
        let started = accept::start(&self.shared, &self.rpc, std::mem::take(&mut self.sockets), runtime);
        started.map_err(|error| Error::new("cannot start a worker", error))
    }
}

/// Waits a short while for the export of the last spans.
async fn end_traces(shared: &Arc<ProcessState>) {
    if shared.observers.tracer.is_some() {
        let shared = Arc::clone(shared);
        let finish = move || shared.observers.tracer.as_ref().map(Tracer::finish);
        // The thread has logged its panic itself.
        let _ = tokio::task::spawn_blocking(finish).await;
    }
}

/// Waits until the statistics are written, or until the process has to end at once.
async fn close_ledger(shared: &Arc<ProcessState>, control: &mut UnboundedReceiver<Control>) {
    let Some(ledger) = shared.observers.ledger.clone() else { return };
    let (closer, shared) = (Arc::clone(&ledger), Arc::clone(shared));
    let mut closing = tokio::task::spawn_blocking(move || {
        shared.advisor.iter().for_each(|advisor| advisor.record());
        closer.close();
    });
    tokio::select! {
        // The thread has logged its panic itself.
        _ = &mut closing => {}
        () = stopped(control) => {
            ledger.hurry();
            let _ = closing.await;
        }
    }
}

/// Writes the last lines of the access log. A program that does not read standard output must not keep the process.
async fn flush_access_log(shared: &Arc<ProcessState>) {
    let shared = Arc::clone(shared);
    let flush = tokio::task::spawn_blocking(move || shared.observers.access.flush());
    // The thread has logged its panic itself.
    let _ = tokio::time::timeout(LAST_LINES, flush).await;
}
