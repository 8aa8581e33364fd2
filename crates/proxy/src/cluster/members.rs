//! The members of the cluster, as this node has last read them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use larder_cluster::{Node, Ring, key_hash};
use larder_words::named;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::peer::Peer;
use crate::base::settings::Origin;

/// The members, as last read from the engine.
pub struct Members {
    view: ArcSwap<View>,
    changes: watch::Sender<u64>,
    /// The nodes that left, the last one at the end.
    gone: Mutex<Vec<(Member, Instant)>>,
}

/// How long a node that left is remembered.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// The most nodes that left and are remembered.
const MOST_GONE: usize = 16;

/// The members at one time.
#[derive(Clone, Debug)]
pub struct View {
    /// The standing of this node.
    pub standing: MemberState,
    /// The reason why it is alone, if it is.
    pub(crate) trouble: Option<String>,
    /// The nodes in the order of their names, with this one as long as it is a member.
    pub nodes: Vec<Member>,
    /// The owners of keys; its indices are those of `nodes`.
    pub(crate) ring: Ring,
    /// The owners of keys before nodes began to drain, with the same indices; `None` while none drains.
    former: Option<Ring>,
    /// The state of requests to the nodes, in the same order.
    pub(crate) peers: Vec<Arc<Peer>>,
}

named! {
    /// The standing of a node in the cluster.
    pub enum MemberState, word {
        /// It has just started, and has not tried to join yet.
        Joining = "joining",
        /// It is a member.
        Member = "member",
        /// It is alone: the engine has not received its heartbeat, or not for a long time.
        Alone = "alone",
        /// Another process has its name.
        NameTaken = "name taken",
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The identifier of the process.
    pub(crate) id: String,
    /// The address at which other nodes reach it.
    pub(crate) advertise: Origin,
    pub(crate) weight: u16,
    /// Whether it owns no keys, but still serves.
    pub(crate) draining: bool,
    /// The version of the program.
    pub(crate) version: String,
}

impl Members {
    /// Creates the members before any node has been read.
    pub(super) fn new() -> Self {
        let view = ArcSwap::from_pointee(View::joining());
        Self { view, changes: watch::Sender::new(0), gone: Mutex::default() }
    }

    /// Returns what this node knows of the members now.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Returns a receiver of changes of the members: the number rises with each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn see(&self, mut view: View) {
        view.remember(&self.view.load());
        let old = self.view.swap(Arc::new(view));
        let new = self.view.load();
        if old.standing != new.standing || old.nodes != new.nodes {
            tell(&old, &new);
            self.remember_gone(&old, &new);
            self.changes.send_modify(|number| *number += 1);
        }
    }
}

impl Members {
    /// Returns the nodes that left and have not returned, and the time since that was seen.
    pub(super) fn gone(&self) -> Vec<(Member, Duration)> {
        let gone = self.gone.lock();
        let gone = gone.iter().map(|(node, since)| (node.clone(), since.elapsed()));
        gone.filter(|(_, time)| *time < REMEMBERED).collect()
    }

    /// Remembers the nodes that left. Only a member can tell that others left: a node that is alone sees no other
    /// node.
    fn remember_gone(&self, old: &View, new: &View) {
        if new.standing != MemberState::Member {
            return;
        }
        let mut gone = self.gone.lock();
        let is_here = |node: &Member| new.nodes.iter().any(|other| other.name == node.name);
        let left = old.nodes.iter().filter(|node| !is_here(node));
        gone.extend(left.map(|node| (node.clone(), Instant::now())));
        gone.retain(|(node, since)| !is_here(node) && since.elapsed() < REMEMBERED);
        let surplus = gone.len().saturating_sub(MOST_GONE);
        gone.drain(..surplus);
    }
}

impl View {
    /// Creates the view of a node that knows these `nodes`.
    pub(super) fn new(standing: MemberState, mut nodes: Vec<Member>) -> Self {
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        nodes.dedup_by(|later, earlier| later.name == earlier.name);
        let ring = |drains: fn(&Member) -> bool| {
            let node =
                |node: &Member| Node { name: node.name.clone(), weight: node.weight, draining: drains(node) };
            Ring::new(nodes.iter().map(node).collect())
        };
        let former = nodes.iter().any(|node| node.draining).then(|| ring(|_| false));
        let ring = ring(|node| node.draining);
        let peers = nodes.iter().map(|_| Arc::default()).collect();
        Self { standing, trouble: None, ring, former, peers, nodes }
    }

    /// Returns the index of the draining node that owned the key with this hash before.
    pub(super) fn former_owner(&self, hash: u64) -> Option<usize> {
        let owner = self.former.as_ref()?.owner(hash)?;
        self.nodes[owner].draining.then_some(owner)
    }

    /// Returns the node that owns `key`; `None` if there is none.
    pub(super) fn owner(&self, key: &[u8]) -> Option<&Member> {
        self.ring.owner(key_hash(key)).map(|owner| &self.nodes[owner])
    }

    /// Keeps the state that `earlier` has of the same processes.
    fn remember(&mut self, earlier: &Self) {
        for (node, peer) in self.nodes.iter().zip(&mut self.peers) {
            if let Some(known) = earlier.nodes.iter().position(|other| other.id == node.id) {
                *peer = Arc::clone(&earlier.peers[known]);
            }
        }
    }

    /// Returns the view of a node that has not tried to join.
    fn joining() -> Self {
        Self::new(MemberState::Joining, Vec::new())
    }

    /// Returns the view of a node that knows no other node, because of this `trouble` with the engine.
    pub(super) fn alone(trouble: String) -> Self {
        Self { trouble: Some(trouble), ..Self::new(MemberState::Alone, Vec::new()) }
    }
}

/// Logs the nodes that joined and left.
fn tell(old: &View, new: &View) {
    let names = |view: &View| view.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let (before, now) = (names(old), names(new));
    for name in now.iter().filter(|name| !before.contains(name)) {
        tracing::info!("node {name} is in the cluster");
    }
    for name in before.iter().filter(|name| !now.contains(name)) {
        tracing::warn!("node {name} is no longer in the cluster");
    }
    if old.standing != new.standing {
        let why = new.trouble.iter().map(|why| format!(" ({why})")).collect::<String>();
        tracing::info!("the state of this node is now: {}{why}; nodes: {}", new.standing.word(), now.len());
    }
}
