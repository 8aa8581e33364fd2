//! Sockets and threads: binds the sockets, starts one worker per thread, and stops the workers gracefully.
//!
//! Every worker has its own accept queue for every address (`SO_REUSEPORT`). So workers share no state while they
//! accept, and a connection stays on one core for its lifetime.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use larder_store::Store;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::admin;
use crate::base::error::Error;
use crate::base::settings::{Listener, Role, Settings};
use crate::cluster::{follow, ticket_keys};
use crate::exchange::arrival::Arrival;
use crate::features::maintenance::{ScheduleCounts, Upkeep};
use crate::flow::worker::{ProcessState, Worker};
use crate::net::own::OwnListeners;
use crate::net::tls;
use crate::net::tls::admin::Acceptor;
use crate::observe::contents;
use crate::observe::ledger::Ledger;
use crate::observe::trace::Tracer;
use crate::rpc::{self, Registration};
use crate::server::accept::{ConnectionContext, work};
use crate::server::bind::{self, SocketFile, datagram_socket, explain, socket};
use crate::server::front::{Front, Sockets};
use crate::server::{health, names};

/// Maximum time that the end of a process waits until purges are sent to other nodes. Longer than the pause between two
/// attempts to reach the engine.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Maximum time for the last lines of the access log.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Time between two checks of the certificate files.
const CERTIFICATES: Duration = Duration::from_secs(2);

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
}

/// A command to a running proxy.
#[derive(Debug)]
pub enum Control {
    /// Use these settings from now on.
    Reload(Box<Settings>),
    /// Reopen the access log.
    Reopen,
    /// Accept no more connections, finish the requests in flight, then end.
    Drain,
    /// End at once.
    Stop,
}

impl Server {
    /// Binds every address, and opens the disk tier and the statistics database.
    ///
    /// # Errors
    /// The address, directory or database that is unavailable, and the reason.
    pub fn bind(settings: Settings) -> Result<Self, Error> {
        let mut sockets: Vec<_> = (0..settings.threads.max(1)).map(|_| Sockets::default()).collect();
        let mut addresses = Vec::new();
        let arrival = |listener: &Listener| Arrival { role: listener.role, tls: listener.tls };
        let http = settings.listen.iter().map(|listener| (Front::Http(arrival(listener)), &listener.address));
        let rpc = settings.doors.listen.iter().map(|(door, address)| {
            (Front::Door { door: *door, tls: settings.doors.speaks_tls(*door) }, address)
        });
        let peers = settings
            .cluster
            .iter()
            .map(|cluster| (Front::Peer { tls: cluster.tls.is_some() }, &cluster.listen));
        for (front, address) in http.chain(rpc).chain(peers) {
            let busy = |error| Error::new(format!("cannot listen on {address}"), explain(error));
            // With SO_REUSEPORT, a second process could share the address unnoticed, so the first socket tests the
            // address without it. A port that the kernel has chosen is free, and its socket stays open so that no other
            // process gets the port.
            let is_chosen = address.port() == 0;
            let first = socket(*address, is_chosen).map_err(busy)?;
            let address = first.local_addr().map_err(busy)?;
            let mut first = is_chosen.then_some(first);
            for worker in &mut sockets {
                let socket = first.take().map_or_else(|| socket(address, true), Ok);
                worker.streams.push((front, socket.map_err(busy)?));
            }
            if front.is_onc() && settings.doors.takes_datagrams(address.ip()) {
                sockets[0].datagrams.push(datagram_socket(address).map_err(busy)?);
            }
            addresses.push((front, address));
        }
        let files = bind_files(&settings, &mut sockets)?;
        let admin = settings.admin.map(|address| {
            let busy = |error| Error::new(format!("cannot listen on {address} (--admin)"), explain(error));
            socket(address, false).map_err(busy)
        });
        let admin = admin.transpose()?;
        let at_admin = admin.as_ref().and_then(|listener| listener.local_addr().ok());
        let own = OwnListeners::new(addresses.iter().map(|(_, address)| *address).chain(at_admin));
        let for_sites = Front::Http(Arrival { role: Role::Reverse, tls: true });
        let port = addresses.iter().find(|(front, _)| *front == for_sites).map(|(_, address)| address.port());
        let tls = tls::server::Server::new(&settings, port)?;
        let admin_tls = settings.admin_tls.as_ref().filter(|_| settings.admin.is_some());
        let admin_tls =
            admin_tls.map(|admin| tls::server::Server::for_admin(admin, tls.as_deref()).map(Arc::new));
        let admin_tls = admin_tls.transpose()?;
        let shared = ProcessState::new(settings, own, tls)?;
        let (rpc, done) = (Arc::default(), Arc::default());
        let upkeep = Upkeep::start(&shared, &done)?;
        contents::start(
            shared.observers.ledger.clone(),
            Arc::clone(&shared.cache.store),
            &shared.plan().settings.statistics,
        )?;
        let peers = addresses.iter().find(|(front, _)| matches!(front, Front::Peer { .. }));
        if let (Some(cluster), Some((_, address))) = (&shared.cluster, peers) {
            cluster.start(*address)?;
            follow::start(cluster, &shared.cache);
            if let Some(tls) = &shared.listener_tls {
                ticket_keys::share(cluster, &tls.tickets);
            }
        }
        Ok(Self { admin, admin_tls, upkeep, done, rpc, shared, sockets, addresses, files })
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

    /// Returns the location of the statistics database, without its password; `None` if there is none, or it is not
    /// open yet.
    pub fn statistics(&self) -> Option<&str> {
        self.shared.observers.ledger.as_deref().and_then(Ledger::place)
    }

    /// Serves until a command ends it.
    ///
    /// # Errors
    /// When a thread or a runtime cannot be created.
    pub fn run(self, mut control: UnboundedReceiver<Control>) -> Result<(), Error> {
        let Self { shared, rpc, upkeep, done, sockets, admin, admin_tls, addresses, files } = self;
        for (number, sockets) in sockets.into_iter().enumerate() {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Error::new("cannot start a worker", error))?;
            let (worker, rpc) = (Worker::new(&shared), Arc::clone(&rpc));
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            let work = move || {
                runtime.block_on(work(ConnectionContext { worker, idle: Arc::default(), rpc }, sockets))
            };
            thread.spawn(work).map_err(|error| Error::new("cannot start a worker", error))?;
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new("cannot start", error))?;
        let is_onc = |(front, _): &&(Front, SocketAddr)| front.is_onc();
        let settings = shared.plan().settings.doors.clone();
        let carried = |address: SocketAddr| (address, settings.takes_datagrams(address.ip()));
        let onc: Vec<_> = addresses.iter().filter(is_onc).map(|(_, address)| carried(*address)).collect();
        let admin =
            admin.map(|listener| (listener, admin::State::new(Arc::clone(&shared), rpc, done, admin_tls)));
        runtime.block_on(async {
            if supervise(&shared, admin, &onc, files, &mut control).await {
                if shared.connections.load(Ordering::Acquire) == 0 {
                    shared.cache.gateways.ended();
                }
                upkeep.finish();
                end_traces(&shared).await;
                close_ledger(&shared, &mut control).await;
            }
            flush_access_log(&shared).await;
        });
        // Disk flushes must not delay the shutdown.
        runtime.shutdown_background();
        Ok(())
    }
}

/// Binds the Unix sockets of the settings; all workers accept from each socket.
fn bind_files(settings: &Settings, sockets: &mut [Sockets]) -> Result<Vec<SocketFile>, Error> {
    let front = Front::Http(Arrival { role: Role::Reverse, tls: false });
    let bind = |path: &PathBuf| {
        let failed = |why| Error::new(format!("cannot listen on unix:{}", path.display()), why);
        let (listener, file) = bind::unix_socket(path, settings.sockets.mode).map_err(failed)?;
        for worker in sockets.iter_mut() {
            let listener = listener.try_clone().map_err(|error| failed(error.to_string()))?;
            worker.unix.push((front, listener));
        }
        Ok(file)
    };
    settings.sockets.paths.iter().map(bind).collect()
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
    let closer = Arc::clone(&ledger);
    let mut closing = tokio::task::spawn_blocking(move || closer.close());
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

/// Waits for the command to end at once.
async fn stopped(control: &mut UnboundedReceiver<Control>) {
    while !matches!(control.recv().await, Some(Control::Stop) | None) {}
}

/// Serves until a command ends it. Returns whether there is time for an orderly shutdown.
async fn supervise(
    shared: &Arc<ProcessState>,
    admin: Option<(StdListener, admin::State)>,
    onc: &[(SocketAddr, bool)],
    files: Vec<SocketFile>,
    control: &mut UnboundedReceiver<Control>,
) -> bool {
    if let Some((listener, state)) = admin
        && let Ok(listener) = TcpListener::from_std(listener)
    {
        tokio::spawn(admin::serve(Arc::new(state), listener));
    }
    let of_nodes = shared.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref());
    if shared.listener_tls.is_some() || of_nodes.is_some_and(|nodes| !nodes.is_by_token()) {
        tokio::spawn(watch_certificates(Arc::clone(shared)));
    }
    if let Some(acme) = &shared.acme {
        tokio::spawn(Arc::clone(acme).run());
    }
    let registration = Registration::make(shared.plan().settings.doors.rpcbind.as_deref(), onc).await;
    let drains = until_told(shared, control).await;
    // From now on this process accepts no connections, and a new process finds no socket file.
    drop(files);
    if drains {
        if let Some(cluster) = &shared.cluster {
            cluster.leave().await;
        }
        shared.drain();
    }
    if let Some(registration) = registration {
        registration.withdraw().await;
    }
    if !drains {
        return false;
    }
    let limit = shared.plan().settings.timeouts.drain;
    let begun = Instant::now();
    while shared.connections.load(Ordering::Relaxed) > 0 && begun.elapsed() < limit {
        if tokio::time::timeout(Duration::from_millis(20), stopped(control)).await.is_ok() {
            return false;
        }
    }
    let Some(cluster) = &shared.cluster else { return true };
    tokio::select! {
        () = cluster.finish_telling(limit.min(LAST_WORDS)) => true,
        () = stopped(control) => false,
    }
}

/// Reads certificates again when their files have changed.
async fn watch_certificates(shared: Arc<ProcessState>) {
    loop {
        tokio::time::sleep(CERTIFICATES).await;
        let shared = Arc::clone(&shared);
        let look = move || {
            if let Some(tls) = &shared.listener_tls {
                tls.look(&shared.plan().settings.certificates);
            }
            if let Some(nodes) = shared.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref()) {
                nodes.look();
            }
        };
        // The thread has logged its panic itself.
        let _ = tokio::task::spawn_blocking(look).await;
    }
}

/// Applies reloads until a command ends the process. Returns true for a drain.
async fn until_told(shared: &Arc<ProcessState>, control: &mut UnboundedReceiver<Control>) -> bool {
    let mut tasks = (health::start(shared), names::start(shared));
    loop {
        match control.recv().await {
            Some(Control::Reload(settings)) => {
                shared.reload(*settings);
                tracing::info!("config reloaded");
                drop(std::mem::replace(&mut tasks, (health::start(shared), names::start(shared))));
            }
            Some(Control::Reopen) => shared.reopen(),
            Some(Control::Drain) => return true,
            Some(Control::Stop) | None => return false,
        }
    }
}
