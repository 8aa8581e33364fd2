//! The tiers behind memory.
//!
//! Memory is looked up first and is no [`Tier`]: it answers under a lock, and a hit in it must cost nothing else. *Near*
//! tiers are on this machine: each request that memory cannot answer asks them. *Far* tiers are not: only a request that
//! leads a fetch asks them, before it asks an origin.
//!
//! A tier fails no request: one that does not work finds nothing, takes nothing, and counts that itself.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use larder_disk::AtOnce;
use larder_semantics::freshness::Freshness;
use larder_semantics::stored_head::StoredHead;
use larder_words::named;

use crate::listed_response::ListedResponse;
use crate::purges::JournalPurge;
use crate::{Body, Entry, Extent};

named! {
    /// The tier of a stored response.
    #[derive(Default)]
    pub enum TierName, name {
        /// In memory.
        #[default]
        Memory = "memory",
        /// On a disk.
        Disk = "disk",
        /// On the engine of the cluster.
        Engine = "engine",
    }
}

/// A tier behind memory.
pub trait Tier: Send + Sync {
    /// Returns the name under which its hits are counted.
    fn name(&self) -> TierName;

    /// Finds the response under `key` whose signature `signature` derives from that of another variant, and counts that
    /// as a use at `now` (UNIX seconds), unless the lookup has to wait.
    fn find_at_once(&self, _key: &[u8], _signature: SignatureOf<'_>, _now: u32) -> AtOnce<Entry> {
        AtOnce::Waits
    }

    /// Finds the response to `query`.
    fn find<'t>(&'t self, query: Query<'t>) -> PendingLookup<'t>;

    /// Finds a response as [`find_at_once`](Self::find_at_once) does, to explain the answer to a request: counts no use,
    /// and blocks while the tier reads.
    fn explain(&self, _key: &[u8], _signature: SignatureOf<'_>) -> Option<Entry> {
        None
    }

    /// Returns the point in time at which a fetch begins now, as a later [`offer`](Self::offer) of its response must show
    /// it. `None`: no such response may be offered.
    fn begin(&self) -> Option<Stamp> {
        None
    }

    /// Stores `entry` in place of the stored response, if the tier takes it; if not, that response is removed. Returns
    /// the work that stores it, unless the tier does it by itself.
    fn offer(self: Arc<Self>, entry: &Entry, since: Option<&Stamp>) -> Option<PendingOffer>;

    /// Counts a use of `entry`, which was found in memory, at `now` (UNIX seconds).
    fn touch(&self, _entry: &Entry, _now: u32) {}

    /// Removes the response to `key` with this signature. A tier that keeps all variants of a URL together removes them
    /// all, also those being stored.
    fn forget(&self, key: &[u8], signature: &[u8]);

    /// Records purges that are in force, for the next process.
    fn purge(&self, _rules: &[JournalPurge]) {}

    /// Removes everything.
    fn clear(&self) {}

    /// Passes every stored response, or those under `key`, to `see` until it returns false. Blocks while the tier reads.
    fn list<'t>(&'t self, _key: Option<&[u8]>, _see: &mut dyn FnMut(ListedResponse<'t>) -> bool) {}

    /// Returns the use of each of its parts; none if it has no figures.
    fn usage(&self) -> Vec<PartUsage> {
        Vec::new()
    }
}

/// Derives the signature of a request from that of a variant.
pub type SignatureOf<'q> = &'q dyn Fn(&[u8]) -> Vec<u8>;
/// A lookup that waits.
pub type PendingLookup<'t> = Pin<Box<dyn Future<Output = Option<Entry>> + Send + 't>>;
/// The work that stores an offered response.
pub type PendingOffer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A lookup of one request.
pub struct Query<'q> {
    /// The cache key.
    pub key: &'q [u8],
    /// Derives the request's signature from that of a variant.
    pub signature: &'q (dyn Fn(&[u8]) -> Vec<u8> + Send + Sync),
    /// The time, in UNIX seconds.
    pub now: u32,
    /// Whether another node asks, on behalf of its client.
    pub is_for_node: bool,
    /// The fill that the request leads, if the tier is a far one.
    pub fill: Option<&'q mut dyn Room>,
}

/// A fill that gets the response of a far tier.
pub trait Room: Send {
    /// Books room for content of `len` bytes, until the fill ends. Returns whether memory has room for it.
    fn takes(&mut self, len: u64) -> bool;

    /// Returns a memory file for content of `len` bytes.
    ///
    /// # Errors
    /// The kernel's error.
    fn extent(&self, len: u64) -> io::Result<Extent>;

    /// Returns the response with this head, which has the generation of the fill; `None` if the head is too large.
    fn entry(&self, head: &StoredHead<'_>, freshness: Freshness, body: Body) -> Option<Entry>;
}

/// The use of a part of a tier, such as a directory.
#[derive(Clone, Debug)]
pub struct PartUsage {
    /// The name of the part: the path of a directory.
    pub name: String,
    /// The eviction policy in force.
    pub policy: String,
    /// The last error, if there is one.
    pub trouble: Option<String>,
    /// The figures; `None` while it is not in use.
    pub figures: Option<larder_disk::Usage>,
}

/// A position in a log of purges which a tier follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The log.
    pub log: Box<str>,
    /// The last entry that was applied.
    pub position: [u64; 2],
}

/// The beginning of a fetch, as the far tiers saw it. Each of these may keep its response.
#[derive(Clone, Default)]
pub struct FetchStart(pub(crate) Vec<(Arc<dyn Tier>, Stamp)>);

impl FetchStart {
    /// Offers `entry`, the response of the fetch, or what the fetch has made of `replaced`.
    pub(crate) fn offer(&self, entry: &Entry, replaced: Option<&Entry>) {
        // The slices of a response stay on this node.
        if entry.body().slices().is_some() {
            return self.forget(entry.key(), entry.signature());
        }
        for (tier, stamp) in &self.0 {
            if let Some(old) = replaced.filter(|old| old.signature() != entry.signature()) {
                tier.forget(old.key(), old.signature());
            }
            Arc::clone(tier).offer(entry, Some(stamp)).map(tokio::spawn);
        }
    }

    /// Removes what the tiers have of a response that the fetch has made outdated.
    pub(crate) fn forget(&self, key: &[u8], signature: &[u8]) {
        self.0.iter().for_each(|(tier, _)| tier.forget(key, signature));
    }
}
