//! Purges in the words of the cache, and in those of the stream.

use std::collections::VecDeque;
use std::sync::Arc;

use http::HeaderValue;
use larder_cluster::message::{self, Order};
use larder_store::{Effect, Scope};

use super::Cluster;
use super::stream::Telling;

/// What the stream calls a purge.
pub(crate) fn order(effect: Effect, scopes: &[Scope]) -> Order {
    let effect = match effect {
        Effect::Stale => message::Effect::Stale,
        Effect::Invalid => message::Effect::Invalid,
        Effect::Remove => message::Effect::Remove,
    };
    Order::Purge(effect, scopes.iter().cloned().map(told).collect())
}

/// What the stream calls a change with an unknown end, which may concern `scopes` for so many seconds.
pub(crate) fn unsure(seconds: u32, scopes: &[Scope]) -> Order {
    Order::Unsure(seconds, scopes.iter().cloned().map(told).collect())
}

fn told(scope: Scope) -> message::Scope {
    match scope {
        Scope::Url(key) => message::Scope::Url(key),
        Scope::Prefix(start) => message::Scope::Prefix(start),
        Scope::Host(host) => message::Scope::Host(host),
        Scope::Tag(tag) => message::Scope::Tag(tag),
        Scope::SiteTag { site, tag } => message::Scope::SiteTag { site, tag },
        Scope::Group { origin, name } => message::Scope::Group { origin, name },
        Scope::Origin(origin) => message::Scope::Origin(origin),
        Scope::All => message::Scope::All,
    }
}

/// What the cache calls a scope of the stream.
pub(super) fn heard(scope: message::Scope) -> Scope {
    match scope {
        message::Scope::Url(key) => Scope::Url(key),
        message::Scope::Prefix(start) => Scope::Prefix(start),
        message::Scope::Host(host) => Scope::Host(host),
        message::Scope::Tag(tag) => Scope::Tag(tag),
        message::Scope::SiteTag { site, tag } => Scope::SiteTag { site, tag },
        message::Scope::Group { origin, name } => Scope::Group { origin, name },
        message::Scope::Origin(origin) => Scope::Origin(origin),
        message::Scope::All => Scope::All,
    }
}

/// The same of an effect.
pub(super) fn effect(effect: message::Effect) -> Effect {
    match effect {
        message::Effect::Stale => Effect::Stale,
        message::Effect::Invalid => Effect::Invalid,
        message::Effect::Remove => Effect::Remove,
    }
}

/// Says that something is about to be put in force of which the other nodes are [told](Untold) next.
pub(crate) fn telling(cluster: Option<&Cluster>) -> Option<Telling<'_>> {
    cluster.map(|cluster| cluster.invalidations.stream.telling())
}

/// Purges that other nodes are to be told of. If it is dropped before, they are told later.
pub(crate) struct Untold<'s> {
    cluster: Option<&'s Arc<Cluster>>,
    orders: VecDeque<Order>,
}

/// These purges, to be told.
pub(crate) fn untold<'s>(cluster: Option<&'s Arc<Cluster>>, purges: &[(Effect, &[Scope])]) -> Untold<'s> {
    let purges = purges.iter().filter(|(_, scopes)| cluster.is_some() && !scopes.is_empty());
    Untold { cluster, orders: purges.map(|(effect, scopes)| order(*effect, scopes)).collect() }
}

impl Untold<'_> {
    /// Tells the other nodes of purges that are in force here; returns when they are in the stream, if they can be. The
    /// field line by which a client that moves to another node is answered with nothing older; `None`: there is nothing
    /// to tell, or it is not in the stream.
    pub(crate) async fn tell(mut self) -> Option<HeaderValue> {
        let cluster = self.cluster?;
        let (mut last, mut is_told) = (None, true);
        while let Some(order) = self.orders.pop_front() {
            match cluster.tell(order).await {
                Ok(point) => last = Some(point),
                Err(error) => {
                    tracing::debug!("other nodes do not hear at once of purges: {error}");
                    is_told = false;
                }
            }
        }
        last.filter(|_| is_told).map(|point| cluster.shown(&point))
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster {
            self.orders.drain(..).for_each(|order| cluster.tell_later(order));
        }
    }
}
