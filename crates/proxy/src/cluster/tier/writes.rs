//! Writes fetched responses to the second tier: after the requests, from a queue with a limit, on the cluster's
//! thread.
//!
//! Chunks are written first and the record that names them last, so that no record lacks its content. If a response
//! cannot be written, the older one that it was to replace is removed, since that is out of date.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use larder_cluster::Position;
use larder_cluster::record::{CHUNK, Content, INLINE, Piece, Record, Response, chunks, sum};
use larder_cluster::seal::MessageKind;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::stored_head::StoredHead;
use larder_store::tier::Stamp;
use larder_store::{Entry, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{EngineTier, chunk};
use crate::base::clock;
use crate::cluster::Cluster;
use crate::cluster::engine::EngineError;

/// The most bytes of content that wait.
const WAITING: u64 = 32 << 20;
/// The most jobs that wait: responses to be written, and keys to be removed.
const JOBS: usize = 4_096;
/// How much longer than their record chunks are kept.
const LONGER: Duration = Duration::from_secs(10);
/// Content below this is not worth compressing.
const SMALL: usize = 256;
/// Content of up to this many bytes is compressed in place; more, on another thread.
const QUICK: usize = 32 << 10;
/// The level of Zstandard: the fastest.
const LEVEL: i32 = 1;

/// The queue of waiting jobs.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    more: Notify,
}

#[derive(Default)]
struct Jobs {
    jobs: VecDeque<Job>,
    bytes: u64,
}

enum Job {
    /// Writes a response. The stamp has the position in the stream of purges where its fetch began.
    Keep(Entry, Stamp),
    /// Removes the response of this key and signature, which is out of date.
    Forget(Box<[u8]>, Vec<u8>),
}

impl Queue {
    pub(super) fn waiting(&self) -> usize {
        self.jobs.lock().jobs.len()
    }

    fn push(&self, job: Job) -> Result<(), Job> {
        let mut jobs = self.jobs.lock();
        let bytes = job.bytes();
        if jobs.jobs.len() >= JOBS || jobs.bytes + bytes > WAITING {
            return Err(job);
        }
        jobs.bytes += bytes;
        jobs.jobs.push_back(job);
        drop(jobs);
        self.more.notify_one();
        Ok(())
    }

    async fn pop(&self) -> Job {
        loop {
            let job = {
                let mut jobs = self.jobs.lock();
                let job = jobs.jobs.pop_front();
                jobs.bytes -= job.as_ref().map_or(0, Job::bytes);
                job
            };
            match job {
                Some(job) => return job,
                None => self.more.notified().await,
            }
        }
    }
}

impl Job {
    fn bytes(&self) -> u64 {
        match self {
            Self::Keep(entry, _) => entry.body().len(),
            Self::Forget(..) => 0,
        }
    }
}

impl EngineTier {
    /// Queues a response that was fetched from an origin, with the position in the stream of purges where the fetch
    /// began. If the response is not for this tier, the stored one is removed.
    pub(super) fn offer(&self, entry: &Entry, since: &Stamp) {
        if !self.takes(entry) {
            return self.forget(entry.key(), entry.signature());
        }
        if self.queue.push(Job::Keep(entry.clone(), since.clone())).is_err() {
            self.figures.lock().dropped += 1;
            self.forget(entry.key(), entry.signature());
        }
    }

    /// Removes the stored response of `key` with this signature.
    pub(super) fn forget(&self, key: &[u8], signature: &[u8]) {
        // If the job does not fit into the queue, the response remains until it expires.
        let _ = self.queue.push(Job::Forget(key.into(), signature.to_vec()));
    }

    /// Whether the response is fresh, whole, and not for one client only.
    fn takes(&self, entry: &Entry) -> bool {
        entry.status() != StatusCode::PARTIAL_CONTENT
            && entry.freshness().is_fresh(clock::now())
            && entry.body().len() <= self.settings.object
            && !entry.fields().contains("set-cookie")
    }
}

/// Writes the queued responses to the engine, in an endless loop.
pub(crate) async fn run(cluster: Arc<Cluster>, store: Arc<Store>) {
    let Some(tier) = &cluster.tier else { return };
    loop {
        let job = tier.queue.pop().await;
        let is_lost = u64::from(matches!(job, Job::Keep(..)));
        if !tier.writes.admits() {
            tier.figures.lock().dropped += is_lost;
            continue;
        }
        let writing = TierWrite { cluster: &cluster, tier };
        let written = match &job {
            // A response that was purged meanwhile would be useless in the tier.
            Job::Keep(entry, _) if store.reach(entry).is_some() => {
                writing.forget(entry.key(), entry.signature()).await
            }
            Job::Keep(entry, since) => writing.keep(entry, since).await,
            Job::Forget(key, signature) => writing.forget(key, signature).await,
        };
        tier.writes.went(written.as_ref());
        if let Err(error) = written {
            tier.figures.lock().dropped += is_lost;
            tracing::debug!("the second tier has not taken a response: {error}");
        }
    }
}

struct TierWrite<'w> {
    cluster: &'w Cluster,
    tier: &'w EngineTier,
}

impl TierWrite<'_> {
    async fn forget(&self, key: &[u8], signature: &[u8]) -> Result<(), EngineError> {
        let mut commands = redis::pipe();
        commands.cmd("DEL").arg(self.cluster.record(key, signature)).ignore();
        self.tier.writes.ask(&self.cluster.engine, &commands).await
    }

    async fn keep(&self, entry: &Entry, since: &Stamp) -> Result<(), EngineError> {
        let name = self.cluster.record(entry.key(), entry.signature());
        let (mut written, beside) = (0, entry.body().len() >= INLINE);
        let inline;
        let content = match beside {
            true => self.chunks(entry, &name, &mut written).await?,
            false => match entry.body().load(0, INLINE as usize).await {
                Ok(bytes) => {
                    let len = bytes.len() as u64;
                    inline = self.packed(bytes.to_vec()).await;
                    Some(Content::Inline(len, &inline))
                }
                Err(_) => None,
            },
        };
        let expires = self.time(entry);
        let own = entry.fields().own();
        let response = content.and_then(|content| response(entry, since, expires, &own, content));
        let Some(response) = response.filter(|_| !expires.is_zero()) else { return Ok(()) };
        let value = Record::Response(Box::new(response)).encode();
        if !entry.signature().is_empty() {
            let varies = Record::Varies(StoredHead { shared: &[], ..entry.stored_head(&[]) }).encode();
            let of_key = self.cluster.record(entry.key(), &[]);
            self.set(MessageKind::Record, &of_key, varies, self.tier.settings.lifetime).await?;
        }
        written += self.set(MessageKind::Record, &name, value, expires).await?;
        let mut figures = self.tier.figures.lock();
        figures.written += 1;
        figures.written_bytes += written;
        Ok(())
    }

    /// Writes the content as chunks of the record called `name`, and adds their bytes to `written`. Returns `None` if
    /// the content cannot be read.
    async fn chunks(
        &self,
        entry: &Entry,
        name: &str,
        written: &mut u64,
    ) -> Result<Option<Content<'static>>, EngineError> {
        let (len, number, mut sums) = (entry.body().len(), fastrand::u64(..), Vec::new());
        for at in 0..chunks(len) {
            let Ok(bytes) = entry.body().load(at * CHUNK, CHUNK as usize).await else { return Ok(None) };
            sums.push(sum(&bytes));
            let value = self.packed(bytes.to_vec()).await;
            let time = self.time(entry) + LONGER;
            *written += self.set(MessageKind::Chunk, &chunk(name, number, at as usize), value, time).await?;
        }
        Ok(Some(Content::Chunks { number, len, sums }))
    }

    /// Returns how long a response is to be kept.
    fn time(&self, entry: &Entry) -> Duration {
        let left = u64::try_from(entry.freshness().ttl(clock::now())).unwrap_or(0);
        Duration::from_secs(left).min(self.tier.settings.lifetime)
    }

    /// Writes `value`, sealed, and returns its length in bytes.
    async fn set(
        &self,
        kind: MessageKind,
        name: &str,
        value: Vec<u8>,
        time: Duration,
    ) -> Result<u64, EngineError> {
        let value = self.cluster.seal.close(kind, &[name.as_bytes()], value);
        let len = value.len() as u64;
        let mut commands = redis::pipe();
        commands.cmd("SET").arg(name).arg(value).arg("PX").arg(time.as_millis().max(1) as u64).ignore();
        self.tier.writes.ask::<()>(&self.cluster.engine, &commands).await?;
        Ok(len)
    }

    /// Returns the value of a piece with these bytes, compressed if that is enabled and makes them shorter.
    async fn packed(&self, bytes: Vec<u8>) -> Vec<u8> {
        if !self.tier.settings.compression || bytes.len() < SMALL {
            return Piece::Plain(&bytes).encode();
        }
        if bytes.len() <= QUICK {
            return pack(&bytes);
        }
        // On another thread, so that heartbeats are not delayed.
        tokio::task::spawn_blocking(move || pack(&bytes)).await.unwrap_or_default()
    }
}

/// Returns the record of a response, as of now.
fn response<'e>(
    entry: &'e Entry,
    since: &'e Stamp,
    expires: Duration,
    own: &'e [u8],
    content: Content<'e>,
) -> Option<Response<'e>> {
    let (head, [millis, count]) = (entry.stored_head(own), since.position);
    let initial_age = head.freshness.age(clock::now());
    Some(Response {
        head: StoredHead { freshness: Freshness { received: 0, initial_age, ..head.freshness }, ..head },
        expires: u64::try_from(expires.as_millis()).ok()?,
        engine: &since.log,
        position: Position::new(millis, count),
        content,
    })
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    match zstd::bulk::compress(bytes, LEVEL) {
        Ok(packed) if packed.len() < bytes.len() => Piece::Zstd(&packed).encode(),
        _ => Piece::Plain(bytes).encode(),
    }
}
