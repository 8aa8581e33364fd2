//! The state of certificates that the nodes of a cluster share on the engine: the certificates and their keys, the
//! account, the challenge responses, and the failures of orders; and the lease that lets only one node at a time order
//! for a name.
//!
//! Everything except the lease is a field of one hash, encrypted ([`cipher`](crate::cluster::cipher)). Each change increments a
//! change number, which nodes read every second, and each node stores the number up to which it has applied the
//! changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Cmd;

use crate::cluster::cipher::{Cipher, no_numbers};
use crate::cluster::{Cluster, EngineError};

/// Maximum time to wait until other nodes have applied a change.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between checks during that wait.
const LOOK: Duration = Duration::from_millis(100);
/// Duration of a lease: longer than an order takes. The lease of a node that has died expires.
const LEASE: Duration = Duration::from_secs(360);

/// Time for which a node waits for others to join after its start: nodes that it does not know could not serve its
/// challenge responses.
const SETTLING: Duration = Duration::from_secs(5);

/// Writes a field, and returns the change number.
///
/// Keys: the hash, the number. Values: the field, its value.
const PUT: &str = "\
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('INCR', KEYS[2])";

/// Removes a field, and returns the change number.
const REMOVE: &str = "\
redis.call('HDEL', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])";

/// Releases a lease, if this process still holds it.
///
/// Keys: the lease. Values: the process.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1";

pub(super) struct SharedState {
    cluster: Arc<Cluster>,
    cipher: Cipher,
    /// The number up to which this node has applied the changes.
    known: AtomicU64,
    is_said: AtomicBool,
    began: Instant,
}

/// The right to order for a name, until this is dropped.
pub(super) struct Lease {
    cluster: Arc<Cluster>,
    key: String,
}

impl SharedState {
    /// Creates the shared state of `cluster`; `None` if it has no token to derive the encryption key from.
    pub(super) fn new(cluster: &Arc<Cluster>) -> Option<Self> {
        let cipher = cluster.cipher.clone()?;
        let cluster = Arc::clone(cluster);
        let (known, is_said) = (AtomicU64::new(0), AtomicBool::new(false));
        Some(Self { cluster, cipher, known, is_said, began: Instant::now() })
    }

    /// Whether enough time has passed since the start to know the other nodes.
    pub(super) fn is_settled(&self) -> bool {
        self.began.elapsed() >= SETTLING
    }

    /// Writes a field. Returns the change number. The error is the reason why the field was not written.
    pub(super) async fn put(&self, field: &str, value: &[u8]) -> Result<u64, EngineError> {
        let sealed = self.cipher.seal(field, value).map_err(no_numbers)?;
        let mut command = self.change(PUT, field);
        command.arg(sealed);
        self.cluster.engine.command(&command).await
    }

    /// Removes a field. The error is the reason why the field may still exist.
    pub(super) async fn remove(&self, field: &str) -> Result<(), EngineError> {
        self.cluster.engine.command::<u64>(&self.change(REMOVE, field)).await.map(drop)
    }

    /// Removes a field in the background, for callers that cannot wait.
    pub(super) fn remove_later(self: &Arc<Self>, field: &str) {
        let (this, field) = (Arc::clone(self), field.to_owned());
        self.cluster.spawn(async move {
            if let Err(error) = this.remove(&field).await {
                tracing::debug!("'{field}' stays on the engine: {error}");
            }
        });
    }

    fn change(&self, script: &str, field: &str) -> Cmd {
        let mut command = self.cluster.script(script, &["acme", "acme:changes"]);
        command.arg(field);
        command
    }

    /// Reads a field; `None` if it does not exist or is not authentic.
    pub(super) async fn get(&self, field: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.key("")).arg(field);
        let sealed: Option<Vec<u8>> = self.cluster.engine.command(&command).await?;
        Ok(sealed.and_then(|sealed| self.open(field, &sealed)))
    }

    /// Reads all fields and the current change number; `None` if this node has applied all changes. The caller has to
    /// [note](Self::note) the number after applying them. The error is the reason why they cannot be read.
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
        // Changes after the number was read have a higher number, and the next call returns them.
        Ok(Some((number, sealed.into_iter().filter_map(open).collect())))
    }

    /// Stores for other nodes that this node has applied the changes up to `number`. The error is the reason why it was
    /// not stored.
    pub(super) async fn note(&self, number: u64) -> Result<(), EngineError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key(":seen")).arg(&self.cluster.settings.node).arg(number);
        self.cluster.engine.command::<i64>(&command).await?;
        self.known.store(number, Ordering::Release);
        Ok(())
    }

    /// Lets the next synchronisation compare all fields: one that should be on the engine is not.
    pub(super) fn compare_again(&self) {
        self.known.store(0, Ordering::Release);
    }

    /// Waits until all nodes have applied the change of this number, for a limited time.
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

    /// Takes the lease of `what`; `None` if another process holds it. The error is the reason why the engine did not
    /// grant it.
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
            // If this fails, the lease expires.
            let _ = cluster.engine.command::<i64>(&command).await;
        });
    }
}
