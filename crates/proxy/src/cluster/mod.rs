//! Several nodes that serve as one cache: their membership ([`members`]), and the engine by which they find each
//! other ([`engine`]). All communication with the engine runs on a separate thread, so that no request waits for it.
//! `larder-cluster`, which uses no sockets, decides which node owns which key.

pub(crate) mod acknowledge;
pub(crate) mod change;
pub(crate) mod cipher;
pub(crate) mod engine;
pub mod follow;
mod heartbeat;
mod hot;
pub mod invalidations;
pub(crate) mod lease;
pub mod members;
mod order_queue;
mod peer;
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
pub mod ticket_keys;
pub mod tier;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use larder_cluster::Seal;
use larder_evict::Capacity;
use larder_store::Store;
use larder_store::fill::StoragePlace;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

use self::cipher::Cipher;
pub(crate) use self::engine::{Engine, EngineError};
use self::hot::HotCopies;
use self::invalidations::Invalidations;
pub(crate) use self::members::Members;
use self::members::{Member, MemberState};
use self::peers::Figures;
pub use self::report::ClusterReport;
use self::sealed::ForgeryCounts;
use self::tier::EngineTier;
use crate::base::error::Error;
use crate::base::settings::cluster::Settings;
use crate::base::settings::{ClusterKey, NodeTls};
use crate::net::tls::accept::{HandshakeError, TlsConnection};
use crate::net::tls::nodes::{Fault, Nodes};

/// How long the end of a process waits until the other nodes know of it.
const FAREWELL: Duration = Duration::from_secs(2);

/// The cluster from the view of one of its nodes. There is one per process.
pub struct Cluster {
    /// The settings.
    pub settings: Settings,
    /// Distinguishes this process from others with the same name.
    pub id: String,
    pub(crate) engine: Engine,
    /// The members.
    pub members: Members,
    /// Distinguishes data of nodes from forged data.
    pub(crate) seal: Seal,
    /// Encrypts secrets on the engine; `None` without a token.
    pub(crate) cipher: Option<Cipher>,
    /// The encryption of connections between nodes, if they are encrypted.
    pub tls: Option<Nodes>,
    /// Whether the log has warned that a node does not encrypt.
    told_of_clear: AtomicBool,
    /// Counts forged data that was ignored.
    pub(crate) forged: ForgeryCounts,
    /// The address at which other nodes reach this one, once it has been announced.
    pub(crate) reached_at: Mutex<String>,
    /// Counters of requests to other nodes.
    pub(crate) figures: Figures,
    /// Copies of responses that other nodes own.
    pub(crate) hot: HotCopies,
    /// The purges of this node and of the others.
    pub invalidations: Invalidations,
    /// The second tier, if the engine keeps responses.
    pub(crate) tier: Option<EngineTier>,
    /// The runtime of the tasks that talk to the engine.
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    /// Whether this process gives up its keys, since it is about to end.
    leaves: AtomicBool,
    leaving: Notify,
    left: Notify,
}

impl Cluster {
    /// Creates a node that is not started yet. Its memory has the capacity `memory`. It has the `id` of the process before
    /// it, if that has handed over to this one. Errors: the system has no resources for it, or its certificate cannot
    /// be used.
    pub(crate) fn new(settings: &Settings, memory: Capacity, id: Option<String>) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new("cannot start the cluster", error))?;
        let handle = runtime.handle().clone();
        let key = settings.token.as_ref().map(|token| token.stretched(&settings.prefix)).transpose();
        let key = key.map_err(|error| Error::new("cannot derive a key from cluster.token", error))?;
        Ok(Self {
            settings: settings.clone(),
            id: id.unwrap_or_else(|| format!("{:016x}", fastrand::u64(..))),
            engine: Engine::new(settings.engine.clone(), settings.engine_tls.clone(), handle.clone()),
            members: Members::new(),
            seal: Seal::new(key.as_ref().map(|key| &key[..]), &settings.prefix),
            cipher: key.as_ref().and_then(|key| Cipher::new(key, &settings.prefix)),
            tls: tls(settings, key.as_ref())
                .map_err(|fault| Error::new("cannot encrypt connections between nodes", fault))?,
            told_of_clear: AtomicBool::new(false),
            forged: ForgeryCounts::default(),
            reached_at: Mutex::default(),
            figures: Figures::default(),
            hot: HotCopies::new(memory, settings.hot),
            invalidations: Invalidations::new(settings),
            tier: settings.tier.as_ref().map(EngineTier::new),
            handle,
            runtime: Mutex::new(Some(runtime)),
            leaves: AtomicBool::new(false),
            leaving: Notify::new(),
            left: Notify::new(),
        })
    }

    /// Joins the cluster, as a node that others reach at `address`. Errors: the thread cannot be started.
    pub fn start(self: &Arc<Self>, address: SocketAddr) -> Result<(), Error> {
        let runtime = self.runtime.lock().take();
        let Some(runtime) = runtime else { return Ok(()) };
        let beating = heartbeat::run(Arc::clone(self), address);
        let thread = std::thread::Builder::new().name("cluster".to_owned());
        let thread = thread.spawn(move || runtime.block_on(beating));
        thread.map(drop).map_err(|error| Error::new("cannot start the cluster", error))
    }

    /// Waits until this node has tried to join, or until `deadline`. Before that, it knows no other node, and asks the origin
    /// for their keys.
    pub fn wait_for_members(&self, deadline: Instant) {
        let mut changes = self.members.changes();
        let tried = async { changes.wait_for(|changes| *changes > 0).await.is_ok() };
        // An engine that does not answer must not keep this node from serving.
        let _ = self.handle.block_on(async { tokio::time::timeout_at(deadline.into(), tried).await });
    }

    /// Announces to the other nodes that this node ends, and waits for a short time until they know.
    pub async fn leave(&self) {
        self.leaving.notify_one();
        // Without the announcement, they notice it themselves.
        let _ = tokio::time::timeout(FAREWELL, self.left.notified()).await;
    }

    /// Whether requests go to `node`: if connections are encrypted, only to nodes that encrypt theirs.
    pub(super) fn may_ask(&self, node: &Member) -> bool {
        self.tls.is_none() || node.advertise.https
    }

    /// Logs once that a node of `nodes` does not encrypt its connections.
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

    /// Whether clients may be sent here: the node is a member that does not drain, or the engine is down and the node
    /// serves alone.
    pub fn is_ready(&self) -> bool {
        let view = self.members.view();
        let drains = view.nodes.iter().any(|node| node.id == self.id && node.draining);
        matches!(view.standing, MemberState::Member | MemberState::Alone) && !drains
    }

    /// Gives up the keys of this node until it ends or is resumed, and waits until the others know.
    pub(crate) async fn give_up_keys(&self) {
        self.leaves.store(true, Ordering::Release);
        let mut changes = self.members.changes();
        while self.members.view().standing == MemberState::Member && self.is_ready() {
            // The sender lives as long as the cluster.
            let _ = changes.changed().await;
        }
        // The others read it with their next heartbeat.
        tokio::time::sleep(self.settings.heartbeat).await;
    }

    /// Takes the keys from the node called `name`, or returns keys to it. Returns whether that changed anything on the
    /// engine. The error is the reason why the engine has not stored the change.
    pub async fn drain(&self, name: &str, drains: bool) -> Result<bool, EngineError> {
        let left = !drains && name == self.settings.node && self.leaves.swap(false, Ordering::AcqRel);
        let mut command = redis::cmd(if drains { "SADD" } else { "SREM" });
        command.arg(self.key("draining")).arg(self.sealed_name(name));
        self.engine.command::<i64>(&command).await.map(|changed| left || changed > 0)
    }

    /// Decides where an answer to `key` by another node is kept: everywhere if this node owns the key by now, else in
    /// memory if the key is requested often. It may evict older copies from there. `length` is that of the content, in bytes.
    pub(crate) fn kept(&self, store: &Store, key: &[u8], length: Option<u64>) -> StoragePlace {
        if self.members.view().owner(key).is_some_and(|owner| owner.id == self.id) {
            return StoragePlace::Everywhere;
        }
        let hash = store.memory.hash(key);
        self.hot.count(hash);
        // While its length is not known, the answer is in flight from the origin to its owner. A later request may
        // copy it.
        let Some(gone) = length.and_then(|length| self.hot.admit(key, hash, length)) else {
            return StoragePlace::Nowhere;
        };
        for key in gone {
            store.memory.remove(&key);
        }
        StoragePlace::InMemory
    }

    /// Runs `work` on the cluster's thread, beside its heartbeat.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(work));
    }

    /// Makes the TLS handshake with a client of the listener for nodes. Counts clients that are not nodes.
    pub(crate) async fn secure(
        &self,
        stream: TcpStream,
        node: SocketAddr,
        limit: Duration,
    ) -> Result<TlsConnection, HandshakeError> {
        let Some(tls) = &self.tls else { return Err(HandshakeError::Plain) };
        let secured = tls.accept(stream, node, limit).await;
        if let Err(HandshakeError::Tls(_) | HandshakeError::Plain) = secured {
            ForgeryCounts::count(&self.forged.connections, "a connection to the listener for nodes");
        }
        secured
    }

    /// Returns the command that runs `script` with these keys of the cluster.
    pub(crate) fn script(&self, script: &str, keys: &[&str]) -> redis::Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len());
        keys.iter().for_each(|key| _ = command.arg(self.key(key)));
        command
    }

    /// Returns the name of a key in the engine. The part in braces decides the slot, so that all keys are in one
    /// slot.
    pub(crate) fn key(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.settings.prefix)
    }
}

/// Returns the encryption of connections between nodes that `settings` require.
fn tls(settings: &Settings, key: Option<&ClusterKey>) -> Result<Option<Nodes>, Fault> {
    match (&settings.tls, key) {
        (None, _) => Ok(None),
        (Some(NodeTls::Token), Some(key)) => Nodes::by_token(key, &settings.prefix).map(Some),
        (Some(NodeTls::Token), None) => Err(Fault::Other("there is no token".to_owned())),
        (Some(NodeTls::Files(files)), _) => Nodes::by_files(files).map(Some),
    }
}
