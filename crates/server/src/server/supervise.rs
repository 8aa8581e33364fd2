//! The life of a process that serves: its tasks beside the workers, its commands, and its end.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::AbortHandle;

use super::bind::SocketFile;
use super::control::Control;
use super::{health, names};
use crate::admin;
use crate::flow::worker::ProcessState;
use crate::handover::control;
use crate::handover::parent::{Handover, Order, TIMEOUT};
use crate::rpc::Registration;

/// Maximum time that the end of a process waits until purges are sent to other nodes. Longer than the pause between two
/// attempts to reach the engine.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Time between the signal for an upgrade and the start of a successor. `systemctl kill` sends the signal to the main
/// process first, and then to all processes that the unit has: a successor would end by it.
const ALL_SIGNALLED: Duration = Duration::from_millis(100);

/// Time between two checks of the certificate files.
const CERTIFICATES: Duration = Duration::from_secs(2);

/// The parts of a process that have to be ended.
pub(super) struct Supervisor {
    pub(super) shared: Arc<ProcessState>,
    pub(super) handover: Arc<Handover>,
    /// The files of Unix sockets.
    pub(super) files: Vec<SocketFile>,
    /// The addresses of ONC RPC, and whether each takes datagrams.
    pub(super) onc: Vec<(SocketAddr, bool)>,
}

/// The listeners of operators.
pub(super) struct Operators {
    pub(super) admin: Option<StdListener>,
    pub(super) state: Arc<admin::State>,
    pub(super) control: Option<StdUnixListener>,
}

/// The reason why a process accepts no more connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It finishes the requests in flight.
    Drain,
    /// It ends at once.
    Stop,
    /// A successor serves.
    HandedOver,
}

impl Supervisor {
    /// Serves until a command ends it. Returns whether there is time for an orderly shutdown.
    pub(super) async fn run(self, operators: Operators, control: &mut UnboundedReceiver<Control>) -> bool {
        let Self { shared, handover, files, onc } = self;
        let accepting = accept_operators(operators, &handover);
        let of_nodes = shared.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref());
        if shared.listener_tls.is_some() || of_nodes.is_some_and(|nodes| !nodes.is_by_token()) {
            tokio::spawn(watch_certificates(Arc::clone(&shared)));
        }
        if let Some(acme) = &shared.acme {
            tokio::spawn(Arc::clone(acme).run());
        }
        let registration = Registration::make(shared.plan().settings.doors.rpcbind.as_deref(), &onc).await;
        let end = until_told(&shared, &handover, control).await;
        if end == End::HandedOver {
            accepting.iter().for_each(AbortHandle::abort);
            files.into_iter().for_each(SocketFile::keep);
        } else {
            // From now on this process accepts no connections, and a new process finds no socket file.
            drop(files);
            handover.cancel();
            if end == End::Drain {
                if let Some(cluster) = &shared.cluster {
                    cluster.leave().await;
                }
                shared.drain();
            }
            if let Some(registration) = registration {
                registration.withdraw().await;
            }
            if end == End::Stop {
                return false;
            }
        }
        last_requests(&shared, control).await
    }
}

/// Accepts connections of operators, and sends metrics. The result ends that.
fn accept_operators(operators: Operators, handover: &Arc<Handover>) -> Vec<AbortHandle> {
    let state = operators.state;
    let mut tasks = vec![tokio::spawn(admin::send_metrics(Arc::clone(&state))).abort_handle()];
    if let Some(listener) = operators.admin
        && let Ok(listener) = TcpListener::from_std(listener)
    {
        tasks.push(tokio::spawn(admin::serve(state, listener)).abort_handle());
    }
    if let Some(listener) = operators.control {
        tasks.push(tokio::spawn(control::serve(listener, Arc::clone(handover))).abort_handle());
    }
    tasks
}

/// Waits for the last requests, and until other nodes know of all purges. Returns false to end at once.
async fn last_requests(shared: &Arc<ProcessState>, control: &mut UnboundedReceiver<Control>) -> bool {
    let limit = shared.plan().settings.timeouts.drain;
    let begun = Instant::now();
    while shared.has_clients() && begun.elapsed() < limit {
        match tokio::time::timeout(Duration::from_millis(20), control.recv()).await {
            Ok(Some(Control::Stop) | None) => return false,
            // A process with a successor was waiting for the next requests of its clients.
            Ok(Some(Control::Drain)) => shared.drain(),
            Ok(Some(Control::Reload(_) | Control::Reopen | Control::Upgrade)) | Err(_) => {}
        }
    }
    let Some(cluster) = &shared.cluster else { return true };
    tokio::select! {
        () = cluster.finish_telling(limit.min(LAST_WORDS)) => true,
        () = stopped(control) => false,
    }
}

/// Waits for the command to end at once.
pub(super) async fn stopped(control: &mut UnboundedReceiver<Control>) {
    while !matches!(control.recv().await, Some(Control::Stop) | None) {}
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

/// Obeys commands until one ends the process, or a successor serves.
async fn until_told(
    shared: &Arc<ProcessState>,
    handover: &Arc<Handover>,
    control: &mut UnboundedReceiver<Control>,
) -> End {
    let mut tasks = (health::start(shared), names::start(shared));
    loop {
        let told = tokio::select! {
            told = control.recv() => told,
            () = shared.phases.handed_over() => return End::HandedOver,
        };
        match told {
            Some(Control::Reload(settings)) => {
                shared.reload(*settings);
                tracing::info!("config reloaded");
                drop(std::mem::replace(&mut tasks, (health::start(shared), names::start(shared))));
            }
            Some(Control::Reopen) => shared.reopen(),
            Some(Control::Upgrade) => {
                let handover = Arc::clone(handover);
                tokio::spawn(async move {
                    tokio::time::sleep(ALL_SIGNALLED).await;
                    handover.begin(Order { binary: None, timeout: TIMEOUT, answer: Box::new(|_| ()) });
                });
            }
            Some(Control::Drain) => return End::Drain,
            Some(Control::Stop) | None => return End::Stop,
        }
    }
}
