//! Purges in the words of the cache, and in those of the stream.

use larder_cluster::message;
use larder_store::{Effect, Scope};

use crate::worker::Shared;

/// What the stream calls a purge.
pub(crate) fn order(effect: Effect, scopes: &[Scope]) -> message::Order {
    let effect = match effect {
        Effect::Stale => message::Effect::Stale,
        Effect::Invalid => message::Effect::Invalid,
        Effect::Remove => message::Effect::Remove,
    };
    message::Order::Purge(effect, scopes.iter().cloned().map(told).collect())
}

/// What the stream calls a change with an unknown end, which may concern `scopes` for so many seconds.
pub(crate) fn unsure(seconds: u32, scopes: &[Scope]) -> message::Order {
    message::Order::Unsure(seconds, scopes.iter().cloned().map(told).collect())
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

/// Tells the other nodes of a purge that is in force here; returns when it is in the stream, if it can be.
pub(crate) async fn tell(shared: &Shared, effect: Effect, scopes: &[Scope]) {
    let Some(cluster) = shared.cluster.as_ref().filter(|_| !scopes.is_empty()) else { return };
    if let Err(error) = cluster.tell(order(effect, scopes)).await {
        tracing::debug!("other nodes do not hear at once of {} purges: {error}", scopes.len());
    }
}
