//! What the nodes of a cluster share of certificates, on the engine: the certificates and their keys, the account, the answers to
//! challenges, and which orders have failed; and the lease by which one node at a time orders for a name.
//!
//! Everything but the lease is a field of one hash, encrypted ([`cipher`](super::cipher)). Each change raises a number, which nodes
//! look at every second, and each node notes the number whose changes are in force there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Cmd;

use super::cipher::Cipher;
use crate::cluster::{Cluster, EngineError};

/// How long other nodes have to put a change in force before it is relied on.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(100);
/// How long a lease holds: longer than an order takes. One whose node has died ends so.
const LEASE: Duration = Duration::from_secs(360);

/// How long a node that has just started lets others join: those that it does not know could not answer its challenge.
const SETTLING: Duration = Duration::from_secs(5);

/// Writes a field, and answers the number of that change.
///
/// Keys: the hash, the number. Values: the field, its value.
const PUT: &str = "\
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('INCR', KEYS[2])";

/// The same for a field that goes.
const REMOVE: &str = "\
redis.call('HDEL', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])";

/// Ends a lease, if it is still this process's.
///
/// Keys: the lease. Values: the process.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1";

/// What nodes share.
pub(super) struct Shared {
    cluster: Arc<Cluster>,
    cipher: Cipher,
    /// The number whose changes are in force here.
    known: AtomicU64,
    is_said: AtomicBool,
    began: Instant,
}

/// The right to order for a name, until this is dropped.
pub(super) struct Lease {
    cluster: Arc<Cluster>,
    key: String,
}

impl Shared {
    /// That of `cluster`; `None` if it has no token, and so nothing to encrypt with.
    pub(super) fn new(cluster: &Arc<Cluster>) -> Option<Self> {
        let settings = &cluster.settings;
        let cipher = Cipher::new(settings.token.as_ref()?.secret(), &settings.prefix)?;
        let cluster = Arc::clone(cluster);
        let (known, is_said) = (AtomicU64::new(0), AtomicBool::new(false));
        Some(Self { cluster, cipher, known, is_said, began: Instant::now() })
    }

    /// Whether this node can know by now which others there are.
    pub(super) fn is_settled(&self) -> bool {
        self.began.elapsed() >= SETTLING
    }

    /// Writes a field; the number of the change.
    ///
    /// # Errors
    /// Why the engine does not have it.
    pub(super) async fn put(&self, field: &str, value: &[u8]) -> Result<u64, EngineError> {
        let sealed = self.cipher.seal(field, value);
        let sealed = sealed.map_err(|_| EngineError::Refused("the system has no random numbers".into()))?;
        let mut command = self.change(PUT, field);
        command.arg(sealed);
        self.cluster.engine.command(&command).await
    }

    /// Removes a field.
    ///
    /// # Errors
    /// Why the engine may still have it.
    pub(super) async fn remove(&self, field: &str) -> Result<(), EngineError> {
        self.cluster.engine.command::<u64>(&self.change(REMOVE, field)).await.map(drop)
    }

    /// The same from where nothing can wait.
    pub(super) fn remove_later(self: &Arc<Self>, field: &str) {
        let (this, field) = (Arc::clone(self), field.to_owned());
        self.cluster.spawn(async move {
            if let Err(error) = this.remove(&field).await {
                tracing::debug!("'{field}' stays on the engine: {error}");
            }
        });
    }

    fn change(&self, script: &str, field: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg("EVAL").arg(script).arg(2).arg(self.key("")).arg(self.key(":changes")).arg(field);
        command
    }

    /// A field.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn get(&self, field: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.key("")).arg(field);
        let sealed: Option<Vec<u8>> = self.cluster.engine.command(&command).await?;
        Ok(sealed.and_then(|sealed| self.open(field, &sealed)))
    }

    /// All fields, and the number of their last change, if that is not in force here; then it has to be [noted](Self::note).
    ///
    /// # Errors
    /// Why they cannot be read.
    pub(super) async fn news(&self) -> Result<Option<(u64, BTreeMap<String, Vec<u8>>)>, EngineError> {
        let mut command = redis::cmd("GET");
        command.arg(self.key(":changes"));
        let number = self.cluster.engine.command::<Option<u64>>(&command).await?.unwrap_or(0);
        if number == self.known.load(Ordering::Acquire) && number > 0 {
            return Ok(None);
        }
        let mut command = redis::cmd("HGETALL");
        command.arg(self.key(""));
        let sealed: BTreeMap<String, Vec<u8>> = self.cluster.engine.command(&command).await?;
        let open =
            |(field, sealed): (String, Vec<u8>)| self.open(&field, &sealed).map(|value| (field, value));
        // Changes since it was read have a higher number, and are read with the next look.
        Ok(Some((number, sealed.into_iter().filter_map(open).collect())))
    }

    /// Lets other nodes know that the changes up to `number` are in force here.
    ///
    /// # Errors
    /// Why they do not know.
    pub(super) async fn note(&self, number: u64) -> Result<(), EngineError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key(":seen")).arg(&self.cluster.settings.node).arg(number);
        self.cluster.engine.command::<i64>(&command).await?;
        self.known.store(number, Ordering::Release);
        Ok(())
    }

    /// Waits until the change of this number is in force on all nodes, though not for long.
    pub(super) async fn wait_for_others(&self, number: u64) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let mut command = redis::cmd("HGETALL");
            command.arg(self.key(":seen"));
            let seen =
                self.cluster.engine.command::<BTreeMap<String, u64>>(&command).await.unwrap_or_default();
            let view = self.cluster.members.view();
            let others = view.nodes.iter().filter(|node| node.id != self.cluster.id);
            if others.into_iter().all(|node| seen.get(&node.name).is_some_and(|seen| *seen >= number)) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
        tracing::warn!("not all nodes of the cluster answer the authority's challenge");
    }

    /// The lease of `what`; `None` if another process has it.
    ///
    /// # Errors
    /// Why the engine grants none.
    pub(super) async fn lease(&self, what: &str) -> Result<Option<Lease>, EngineError> {
        let key = self.key(&format!(":lease:{what}"));
        let mut command = redis::cmd("SET");
        command.arg(&key).arg(&self.cluster.id).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        let granted: Option<String> = self.cluster.engine.command(&command).await?;
        Ok(granted.map(|_| Lease { cluster: Arc::clone(&self.cluster), key }))
    }

    fn open(&self, field: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let value = self.cipher.open(field, sealed);
        if value.is_none() && !self.is_said.swap(true, Ordering::Relaxed) {
            let field = field.escape_debug();
            tracing::warn!("'{field}' on the engine was ignored: no node with this cluster's token wrote it");
        }
        value
    }

    fn key(&self, what: &str) -> String {
        self.cluster.key(&format!("acme{what}"))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (cluster, key) = (Arc::clone(&self.cluster), std::mem::take(&mut self.key));
        self.cluster.spawn(async move {
            let mut command = Cmd::new();
            command.arg("EVAL").arg(RELEASE).arg(1).arg(key).arg(&cluster.id);
            // It ends by itself otherwise.
            let _ = cluster.engine.command::<i64>(&command).await;
        });
    }
}
