//! Reads the stream of invalidations and applies it: purges on other nodes are applied here, in their order.
//!
//! A node applies its own entries again when it reads them, except for those that were [in
//! force](super::invalidations::Invalidations::was_in_force) before they were published.
//!
//! A node continues from its last position, also after a restart: the position is kept [beside the data that it
//! concerns](super::stream_position). If it may have missed purges, all stored responses have to be revalidated.
//! [`Follower`] detects that, and [`Lease`](super::lease) limits how long the node may go without a read.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use larder_cluster::message::{Message, Order};
use larder_cluster::{Follower, GapReason, Position};
use larder_semantics::purge::{Effect, Scope};

use super::engine::{EngineError, Link};
use super::lease::distrust;
use super::stream::{BATCH, Entry};
use super::{Cluster, tier};
use crate::base::clock;
use crate::cache::Cache;
use crate::cache::doubt;

/// How long an answer may take beyond the wait that the command requests.
const ANSWER: Duration = Duration::from_secs(1);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// Begins to follow; waits until `deadline` at most for the purges that this node missed while it was away.
pub fn start(cluster: &Arc<Cluster>, cache: &Arc<Cache>, deadline: Instant) {
    if let Some(drive) = cache.store.disks.drives().first() {
        cluster.invalidations.stream.keep_note(drive.path());
    }
    let (first, heard) = channel();
    cluster.spawn(run(Arc::clone(cache), Arc::clone(cluster), first));
    cluster.spawn(Arc::clone(cluster).add_what_waits());
    cluster.spawn(tier::writes::run(Arc::clone(cluster), Arc::clone(&cache.store)));
    // Without these purges, stored responses are revalidated.
    let _ = heard.recv_timeout(deadline.saturating_duration_since(Instant::now()));
}

async fn run(cache: Arc<Cache>, cluster: Arc<Cluster>, first: Sender<()>) {
    let mut first = Some(first);
    loop {
        let Err(error) = follow(&cache, &cluster, &mut first).await;
        tracing::debug!("invalidations are not followed: {error}");
        first = None;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow(
    cache: &Arc<Cache>,
    cluster: &Arc<Cluster>,
    first: &mut Option<Sender<()>>,
) -> Result<Infallible, EngineError> {
    let wait = cluster.invalidations.lease.lag().wait();
    let mut link = cluster.engine.dedicated(wait + ANSWER).await?;
    loop {
        if let Some(position) = read(cache, cluster, &mut link).await? {
            *first = None;
            cluster.wait_for_news(&mut link, position, wait).await?;
        }
    }
}

/// Obeys the new entries, if there are any. Returns the last position if there are none.
async fn read(
    cache: &Arc<Cache>,
    cluster: &Arc<Cluster>,
    link: &mut Link,
) -> Result<Option<Position>, EngineError> {
    let invalidations = &cluster.invalidations;
    let is_late = invalidations.positions.take(cache.store.disks.drives(), &invalidations.follower);
    let follower = invalidations.follower.borrow().clone();
    let asked = clock::millis();
    let missed = match follower.position() {
        Some(position) if !is_late => {
            let (engine, entries) = cluster.read(link, position).await?;
            let numbers: Vec<_> = entries.iter().map(|entry| entry.position).collect();
            match follower.check(&engine, &numbers) {
                Ok(known) => return Ok(obey(cache, cluster, entries, known, asked).await),
                Err(missed) => missed,
            }
        }
        _ => GapReason::New,
    };
    let (engine, last) = cluster.end(link).await?;
    let restarted = Follower::at(&engine, last);
    // Until all entries are distrusted, this node must not count as present.
    invalidations.sees(restarted.clone());
    invalidations.follower.send_replace(Follower::default());
    give_up(cluster, cache, missed).await;
    invalidations.follower.send_replace(restarted);
    Ok(None)
}

/// Obeys all `entries` except the first `known`. They were read at `asked`.
async fn obey(
    cache: &Arc<Cache>,
    cluster: &Arc<Cluster>,
    mut entries: Vec<Entry>,
    known: usize,
    asked: u64,
) -> Option<Position> {
    // 1. `asked`: the engine is asked for the entries behind a position.
    // 2. The entries are put in force.
    // 3. The position is published: a node that asks this one, or waits for it, sees that it has obeyed.
    // 4. The lease is extended to `asked`, if these were all entries.
    // With 3 or 4 before 2, this node would vouch for purges that its next hit does not obey. Counted from the time of
    // 4, the lease would include purges that were published after 1.
    let invalidations = &cluster.invalidations;
    let (is_all, last) = (entries.len() <= BATCH, entries.last()?.position);
    entries.drain(..known);
    let is_news = !entries.is_empty();
    let mut seen = invalidations.follower.borrow().clone();
    seen.obeyed(last);
    invalidations.sees(seen);
    let own = cluster.by();
    for entry in entries {
        let Some(message) = entry.message else { continue };
        match message {
            // No other node was asked about tags.
            Ok(Message { order: Order::Blank(_) | Order::Doubt(_), by }) if by == own => {}
            Ok(Message { order, by }) if by == own && invalidations.was_in_force(&order) => {}
            Ok(Message { order: Order::Distrust, by }) => {
                tracing::warn!(
                    "{by} could not publish all its purges; stored responses are validated before use"
                );
                distrust_all(cluster, cache).await;
            }
            Ok(message) => {
                let this = Arc::clone(cache);
                cache.on_a_thread(move || put_in_force(&this, message.order)).await;
                invalidations.obeyed();
            }
            Err(missed) => give_up(cluster, cache, missed).await,
        }
    }
    invalidations.follower.send_if_modified(|follower| {
        follower.obeyed(last);
        is_news
    });
    if is_all {
        invalidations.lease.heard(asked);
    }
    (is_all && !is_news).then_some(last)
}

/// Distrusts all stored responses, since entries of the stream were missed.
async fn give_up(cluster: &Arc<Cluster>, cache: &Arc<Cache>, missed: GapReason) {
    if missed == GapReason::New && !cache.store.has_near() {
        tracing::debug!("purges of other nodes are followed from now on");
    } else {
        let why = missed.name();
        tracing::warn!(
            "purges of other nodes may be missing ({why}); stored responses are validated before use"
        );
    }
    distrust_all(cluster, cache).await;
}

/// Distrusts all stored responses. The missed entries may include a change with an unknown end, so gateways make no
/// tags for a while.
async fn distrust_all(cluster: &Arc<Cluster>, cache: &Arc<Cache>) {
    let (this, held) = (Arc::clone(cluster), Arc::clone(cache));
    cache.on_a_thread(move || distrust(&this, &held)).await;
    cache.gateways.start_in_doubt();
}

fn put_in_force(cache: &Arc<Cache>, order: Order) {
    match order {
        // A removed entry needs no rule for later lookups.
        Order::Purge(Effect::Remove, scopes) => {
            let (urls, others): (Vec<_>, Vec<_>) = cache
                .fills
                .with_equivalents(scopes)
                .into_iter()
                .partition(|scope| matches!(scope, Scope::Url(_)));
            cache.purge(&urls);
            enforce(cache, Effect::Remove, &others);
        }
        Order::Purge(effect, scopes) => enforce(cache, effect, &cache.fills.with_equivalents(scopes)),
        Order::Unsure(seconds, scopes) => {
            doubt::begin(cache, seconds, scopes);
        }
        Order::Blank(pools) => cache.gateways.changed_elsewhere(&pools, true),
        Order::Doubt(pools) => cache.gateways.changed_elsewhere(&pools, false),
        Order::Distrust | Order::Begin => {}
    }
}

fn enforce(cache: &Arc<Cache>, effect: Effect, scopes: &[Scope]) {
    if scopes.is_empty() {
        return;
    }
    cache.fills.order(scopes, effect, clock::now());
    if effect == Effect::Remove {
        cache.reclaim.free(cache, true);
    }
}
