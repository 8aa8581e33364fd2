//! Purges, whoever asks for them: what the words mean, and what is done then.
//!
//! A purge is in force before anything is counted. Memory is looked through while the one who asked waits, some tens
//! of milliseconds for each 100,000 objects; the disks at the pace of the [schedule](crate::schedule), which may take
//! long: only who says so waits for them. Who may purge is for [`crate::admin`] and [`crate::purge_method`] to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, mem, thread};

use larder_semantics::key;
use larder_store::reclaim::{Counted, Ordered, Reached};
use larder_store::{Effect, Scope};
use serde::Serialize;
use tokio::task::JoinError;

use crate::clock;
use crate::cluster::acknowledge::Nodes;
use crate::cluster::scopes;
use crate::inventory;
use crate::request::Address;
use crate::worker::Shared;

/// What can be purged, as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Url,
    Prefix,
    Tag,
    Group,
    Host,
    All,
}

impl Kind {
    /// All of them, by name.
    pub(crate) const ALL: &[(&str, Self)] = &[
        ("url", Self::Url),
        ("prefix", Self::Prefix),
        ("tag", Self::Tag),
        ("group", Self::Group),
        ("host", Self::Host),
        ("all", Self::All),
    ];

    /// What `value` stands for; a group's origin is `host`, with its scheme or for both.
    ///
    /// # Errors
    /// Why it stands for nothing, in one line.
    pub(crate) fn scopes(self, value: &str, host: Option<&str>) -> Result<Vec<Scope>, String> {
        if value.is_empty() && self != Self::All {
            let name = Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name);
            return Err(format!("which {name}? write {name}=VALUE"));
        }
        Ok(match self {
            Self::Url => inventory::keys(value)?.map(Scope::Url).into(),
            Self::Prefix => vec![Scope::Prefix(start(&inventory::address(value)?))],
            Self::Tag => vec![Scope::Tag(value.into())],
            Self::Host => vec![Scope::Host(authority(value)?)],
            Self::Group => {
                let host = host.ok_or("whose group? write host=HOST, or host=http://HOST:PORT")?;
                let group = |origin| Scope::Group { origin, name: value.to_owned() };
                origins(host)?.into_iter().map(group).collect()
            }
            Self::All => vec![Scope::All],
        })
    }
}

/// The beginning of the keys of whatever begins with `address`.
fn start(address: &Address<'_>) -> Vec<u8> {
    let mut start = Vec::new();
    key::write(&mut start, address.scheme, address.authority.as_bytes(), address.path.as_bytes());
    start
}

/// A host, perhaps with a port, as keys have it.
fn authority(host: &str) -> Result<Vec<u8>, String> {
    if host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
        let shown = host.escape_debug();
        return Err(format!(
            "'{shown}' is no host; write it without scheme and path, such as 'site.example'"
        ));
    }
    let key = start(&Address { scheme: "http", authority: host, path: "" });
    key::parse(&key).map(|(_, authority, _)| authority.to_vec()).ok_or_else(|| "which host?".to_owned())
}

/// The origins of `host`: the one that it names, or those of both schemes.
fn origins(host: &str) -> Result<Vec<Vec<u8>>, String> {
    let origin = |address: &Address<'_>| key::origin(&start(address)).map(<[u8]>::to_vec);
    if host.contains("://") {
        let address = inventory::address(host)?;
        return match address.path {
            "" | "/" => Ok(origin(&address).into_iter().collect()),
            _ => Err(format!("'{}': an origin has no path", host.escape_debug())),
        };
    }
    authority(host)?;
    let of = |scheme| origin(&Address { scheme, authority: host, path: "" });
    Ok(["http", "https"].into_iter().filter_map(of).collect())
}

/// What is to be purged, and how.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) effect: Effect,
    /// Whoever asks waits for the disks, and for the other nodes.
    pub(crate) waits: bool,
    /// For how long at most he waits for these.
    pub(crate) patience: Duration,
}

/// How long the other nodes are waited for if nobody says.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What a purge came to.
#[derive(Debug, Serialize)]
pub(crate) struct Purged {
    /// `stale`: marked so, to be validated; `removed`: gone.
    pub(crate) effect: &'static str,
    /// Responses that it reached: what both memory and a disk have is one, each variant is one.
    pub(crate) objects: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// `done`: what the disks have is in these figures; `under-way`: it is not, since they are looked through yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<&'static str>,
    /// How it has gone with the nodes of the cluster, if this is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<Nodes>,
}

impl fmt::Display for Purged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { effect, objects, bytes, disk, .. } = self;
        write!(f, "{objects} objects {effect}, {bytes} bytes")?;
        disk.map_or(Ok(()), |disk| write!(f, ", disks {disk}"))
    }
}

/// Purges, here and on the other nodes, and says what that came to.
///
/// # Errors
/// When it was not done.
pub(crate) async fn purge(shared: &Arc<Shared>, asked: Asked) -> Result<Purged, JoinError> {
    let patience = asked.waits.then_some(asked.patience);
    let order = scopes::order(asked.effect, &asked.scopes);
    let this = Arc::clone(shared);
    let here = tokio::task::spawn_blocking(move || purge_here(&this, asked));
    let elsewhere = async { Some(shared.cluster.as_ref()?.tell(order).await) };
    let (here, told) = tokio::join!(here, elsewhere);
    let nodes = match (&shared.cluster, told) {
        (Some(cluster), Some(told)) => Some(cluster.nodes(told, patience).await),
        _ => None,
    };
    Ok(Purged { nodes, ..here? })
}

/// Purges here. May wait long: for a thread of its own.
fn purge_here(shared: &Arc<Shared>, asked: Asked) -> Purged {
    let Asked { scopes, effect, waits, .. } = asked;
    let ordered = shared.fills.enforce(scopes, effect, clock::now());
    if let Err(error) = shared.store.disks.sync_purges() {
        tracing::warn!("a crash of the machine may bring back what was purged: {error}");
    }
    let (mut reached, counted) = shared.store.reclaim_memory(&ordered);
    let has_disks = !shared.store.disks.is_empty();
    let mut disk = has_disks.then_some("done");
    match shared.store.reclaim_pages(&ordered, &counted) {
        Some(on_disk) => reached += on_disk,
        None if waits => reached += look_through(shared, &[&ordered], &counted),
        None => disk = Some("under-way"),
    }
    shared.store.forget_pages(&ordered);
    let effect = if ordered.removes() { "removed" } else { "stale" };
    if disk == Some("under-way") && ordered.removes() {
        shared.reclaim.add(shared, ordered);
    }
    let Reached { objects, bytes } = reached;
    Purged { effect, objects, bytes, disk, nodes: None }
}

fn look_through(shared: &Shared, purges: &[&Ordered], counted: &Counted) -> Reached {
    let rate = shared.plan().settings.schedule.rate;
    shared.store.reclaim_disks(purges, counted, rate, &mut || !shared.is_draining())
}

/// Purges that are to free room on the disks. One thread does it, for as long as there are some.
#[derive(Default)]
pub(crate) struct Reclaim {
    waiting: Mutex<Vec<Ordered>>,
    is_under_way: AtomicBool,
}

impl Reclaim {
    /// Lets what `purge` reaches on the disks go, by and by. What comes while they are looked through is done together
    /// the next time.
    fn add(&self, shared: &Arc<Shared>, purge: Ordered) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(purge);
        if self.is_under_way.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("reclaim".to_owned());
        // Without a thread the policy will do it in the end.
        if let Err(error) = thread.spawn(move || shared.reclaim.run(&shared)) {
            tracing::warn!("what was purged stays on the disks for now: {error}");
            self.is_under_way.store(false, Ordering::Relaxed);
        }
    }

    fn run(&self, shared: &Shared) {
        loop {
            let purges = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if waiting.is_empty() {
                    // While they are locked, so that who adds one sees it.
                    self.is_under_way.store(false, Ordering::Relaxed);
                    return;
                }
                mem::take(&mut *waiting)
            };
            let purges: Vec<_> = purges.iter().collect();
            let Reached { objects, bytes } = look_through(shared, &purges, &Counted::default());
            tracing::info!("freed what was purged on disk: {objects} objects, {bytes} bytes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scheme: &str, authority: &str, path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        key::write(&mut key, scheme, authority.as_bytes(), path.as_bytes());
        key
    }

    #[test]
    fn words_stand_for_scopes() {
        let group = |scheme, authority| {
            let origin = key::origin(&key(scheme, authority, "/")).unwrap().to_vec();
            Scope::Group { origin, name: "g".to_owned() }
        };
        let urls = |url| inventory::keys(url).unwrap().map(Scope::Url).to_vec();
        for (kind, value, host, expected) in [
            (Kind::Url, "http://A/b?c", None, urls("http://a/b?c")),
            (Kind::Prefix, "http://A:80", None, vec![Scope::Prefix(key("http", "a", "/"))]),
            (Kind::Prefix, "https://a/b", None, vec![Scope::Prefix(key("https", "a", "/b"))]),
            (Kind::Tag, "t, u", None, vec![Scope::Tag(b"t, u".to_vec())]),
            (Kind::Host, "A.Test.", None, vec![Scope::Host(b"a.test".to_vec())]),
            (Kind::Host, "a:8080", None, vec![Scope::Host(b"a:8080".to_vec())]),
            (Kind::Group, "g", Some("a"), vec![group("http", "a"), group("https", "a")]),
            (Kind::Group, "g", Some("https://a:8443/"), vec![group("https", "a:8443")]),
            (Kind::All, "", None, vec![Scope::All]),
        ] {
            assert_eq!(kind.scopes(value, host), Ok(expected), "{kind:?} {value}");
        }
    }

    #[test]
    fn what_stands_for_nothing_is_told_in_a_line() {
        for (kind, value, host, expected) in [
            (Kind::Url, "a", None, "'a': write the scheme too, such as 'http://a'"),
            (Kind::Tag, "", None, "which tag? write tag=VALUE"),
            (Kind::Group, "g", None, "whose group? write host=HOST, or host=http://HOST:PORT"),
            (Kind::Group, "g", Some("http://a/b"), "'http://a/b': an origin has no path"),
            (
                Kind::Host,
                "http://a",
                None,
                "'http://a' is no host; write it without scheme and path, such as 'site.example'",
            ),
        ] {
            assert_eq!(kind.scopes(value, host), Err(expected.to_owned()), "{kind:?} {value}");
        }
    }
}
