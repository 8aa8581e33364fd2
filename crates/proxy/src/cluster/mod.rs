//! Several nodes that serve as one cache: who they are ([`members`]), and the engine by which they know
//! ([`engine`]). All that talks to the engine runs on a thread of its own, so that no request waits for it.
//! Which node owns what is decided in `larder-cluster`, which knows no sockets.

pub(crate) mod acknowledge;
pub(crate) mod change;
pub(crate) mod engine;
pub(crate) mod follow;
mod heartbeat;
mod hot;
pub(crate) mod invalidations;
pub(crate) mod lease;
pub(crate) mod members;
pub(crate) mod peer_request;
pub(crate) mod peers;
mod pending;
pub(crate) mod probe;
pub(crate) mod proof;
pub(crate) mod publish;
mod report;
mod sealed;
pub(crate) mod session;
mod stream;
mod stream_position;
pub(crate) mod tier;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_cluster::Seal;
use larder_evict::Capacity;
use larder_store::Store;
use larder_store::fill::Kept;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

pub(crate) use self::engine::{Engine, EngineError};
use self::hot::Hot;
use self::invalidations::Invalidations;
pub(crate) use self::members::Members;
use self::members::{Member, Standing};
use self::peers::Figures;
pub(crate) use self::report::ClusterReport;
use self::sealed::Forged;
use self::tier::Tier;
use crate::base::error::Error;
use crate::base::settings::cluster::Settings;
use crate::base::settings::{NodeTls, Token};
use crate::net::tls::accept::{Secured, Unsecured};
use crate::net::tls::nodes::{Fault, Nodes};

/// How long the end of a process waits until others know of it.
const FAREWELL: Duration = Duration::from_secs(2);

/// The cluster, as one of its nodes sees it. One per process.
pub(crate) struct Cluster {
    pub(crate) settings: Settings,
    /// What tells this process from others that claim its name.
    pub(crate) id: String,
    pub(crate) engine: Engine,
    pub(crate) members: Members,
    /// Tells what nodes wrote from what others did.
    pub(crate) seal: Seal,
    /// How connections between nodes are encrypted, if they are.
    pub(crate) tls: Option<Nodes>,
    /// It was said that a node does not encrypt.
    told_of_clear: AtomicBool,
    /// What others wrote, and was ignored.
    pub(crate) forged: Forged,
    /// Where other nodes reach this one, once it has told them.
    pub(crate) reached_at: Mutex<String>,
    /// What came of asking other nodes.
    pub(crate) figures: Figures,
    /// Which of what they own is kept here as well.
    pub(crate) hot: Hot,
    /// What was purged, here and elsewhere.
    pub(crate) invalidations: Invalidations,
    /// What the engine keeps of responses, if it does.
    pub(crate) tier: Option<Tier>,
    /// Where what talks to the engine runs.
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    leaving: Notify,
    left: Notify,
}

impl Cluster {
    /// A node that is not yet started, and has this capacity of `memory`.
    ///
    /// # Errors
    /// When the system has no room for it, or its certificate cannot be used.
    pub(crate) fn new(settings: &Settings, memory: Capacity) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new("cannot start the cluster", error))?;
        let handle = runtime.handle().clone();
        Ok(Self {
            settings: settings.clone(),
            id: format!("{:016x}", fastrand::u64(..)),
            engine: Engine::new(settings.engine.clone(), settings.engine_tls.clone(), handle.clone()),
            members: Members::new(),
            seal: Seal::new(settings.token.as_ref().map(Token::secret), &settings.prefix),
            tls: tls(settings)
                .map_err(|fault| Error::new("cannot encrypt connections between nodes", fault))?,
            told_of_clear: AtomicBool::new(false),
            forged: Forged::default(),
            reached_at: Mutex::default(),
            figures: Figures::default(),
            hot: Hot::new(memory, settings.hot),
            invalidations: Invalidations::new(settings),
            tier: settings.tier.as_ref().map(Tier::new),
            handle,
            runtime: Mutex::new(Some(runtime)),
            leaving: Notify::new(),
            left: Notify::new(),
        })
    }

    /// Begins to take part, as a node that others reach at `address`.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start(self: &Arc<Self>, address: SocketAddr) -> Result<(), Error> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(runtime) = runtime else { return Ok(()) };
        let beating = heartbeat::run(Arc::clone(self), address);
        let thread = std::thread::Builder::new().name("cluster".to_owned());
        let thread = thread.spawn(move || runtime.block_on(beating));
        thread.map(drop).map_err(|error| Error::new("cannot start the cluster", error))
    }

    /// Lets the others know that this node ends, so that they need not find out. Waits for that, though not long.
    pub(crate) async fn leave(&self) {
        self.leaving.notify_one();
        // If they cannot be told, they find out.
        let _ = tokio::time::timeout(FAREWELL, self.left.notified()).await;
    }

    /// Whether requests go to `node`: where connections are encrypted, only to nodes that encrypt theirs.
    pub(super) fn may_ask(&self, node: &Member) -> bool {
        self.tls.is_none() || node.advertise.https
    }

    /// Says once that a node of `nodes` does not encrypt its connections.
    fn warn_of_clear(&self, nodes: &[Member]) {
        let Some(node) = nodes.iter().find(|node| !self.may_ask(node)) else { return };
        if !self.told_of_clear.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "node {} is reached at {}, without TLS: no request is sent to it, and those for its keys go to their origins",
                node.name,
                node.advertise
            );
        }
    }

    /// Whether clients may be sent here: it is a member that does not drain, or the engine is gone and it serves by
    /// itself.
    pub(crate) fn is_ready(&self) -> bool {
        let view = self.members.view();
        let drains = view.nodes.iter().any(|node| node.id == self.id && node.draining);
        matches!(view.standing, Standing::Member | Standing::Alone) && !drains
    }

    /// Takes the keys from the node called `name`, or gives it keys again.
    ///
    /// # Errors
    /// Why the engine has not heard it.
    pub(crate) async fn drain(&self, name: &str, drains: bool) -> Result<(), EngineError> {
        let mut command = redis::cmd(if drains { "SADD" } else { "SREM" });
        command.arg(self.key("draining")).arg(self.sealed_name(name));
        self.engine.command::<i64>(&command).await.map(drop)
    }

    /// Where an answer to `key` with content of so many bytes, which another node owns, is kept besides: in memory if
    /// it is asked for often, where it may make older copies go.
    pub(crate) fn kept(&self, store: &Store, key: &[u8], length: Option<u64>) -> Kept {
        let hash = store.memory.hash(key);
        self.hot.count(hash);
        // While its length is not known, it is on its way from the origin to its owner: the next one is soon enough.
        let Some(gone) = length.and_then(|length| self.hot.admit(key, hash, length)) else {
            return Kept::Nowhere;
        };
        for key in gone {
            store.memory.remove(&key);
        }
        Kept::InMemory
    }

    /// Runs `work` on the cluster's thread, beside its heartbeat.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(work));
    }

    /// Makes the handshake with who connects as a node. Those that are none are counted.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) async fn secure(
        &self,
        stream: TcpStream,
        node: SocketAddr,
        limit: Duration,
    ) -> Result<Secured, Unsecured> {
        let Some(tls) = &self.tls else { return Err(Unsecured::Plain) };
        let secured = tls.accept(stream, node, limit).await;
        if let Err(Unsecured::Tls(_) | Unsecured::Plain) = secured {
            Forged::count(&self.forged.connections, "a connection to the listener for nodes");
        }
        secured
    }

    /// The name of a key in the engine. What stands in braces decides the slot, so that all keys are of one.
    pub(crate) fn key(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.settings.prefix)
    }
}

/// How connections between nodes are encrypted by `settings`.
fn tls(settings: &Settings) -> Result<Option<Nodes>, Fault> {
    match (&settings.tls, &settings.token) {
        (None, _) => Ok(None),
        (Some(NodeTls::Token), Some(token)) => {
            Nodes::by_token(token.secret().as_bytes(), &settings.prefix).map(Some)
        }
        (Some(NodeTls::Token), None) => Err(Fault::Other("there is no token".to_owned())),
        (Some(NodeTls::Files(files)), _) => Nodes::by_files(files).map(Some),
    }
}
