//! Reports regularly that this node is present, and reads which other nodes are.
//!
//! The report expires by the engine's clock: the clocks of nodes need not agree. The other nodes drop a node that
//! could not report for that time; from the same moment on, that node treats itself as alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::time::{MissedTickBehavior, interval};

use super::engine::{Engine, EngineError};
use super::members::{Member, MemberState, View};
use super::{Cluster, sealed};
use crate::base::settings::Origin;

/// Reports that a node is present, unless another process has its name. Answers 1, or 0 if the name is taken.
///
/// Keys: the node's record, and the set of names. Values: id, milliseconds, name, then names and values of fields.
const CLAIM: &str = "\
local held = redis.call('HGET', KEYS[1], 'id')
if held and held ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'id', ARGV[1], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[3])
return 1";

/// Removes the node's record, if it is still that of this process. The same keys, and the first value and the name.
const LEAVE: &str = "\
if redis.call('HGET', KEYS[1], 'id') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('SREM', KEYS[2], ARGV[2])
end
return 1";

/// The value of the field `draining` of a node that is about to end.
const LEAVES: &str = "yes";

/// Sends heartbeats until this node leaves, and keeps the thread for other tasks from then on.
///
/// Other nodes reach this node at its advertised address, or else at `listening`.
pub(super) async fn run(cluster: Arc<Cluster>, listening: SocketAddr) {
    let mut ticks = interval(cluster.settings.heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said: Option<Instant> = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = cluster.leaving.notified() => break,
        }
        let begun = Instant::now();
        match beat(&cluster, listening).await {
            Ok(nodes) => {
                let is_member = nodes.iter().any(|node| node.id == cluster.id);
                let standing = if is_member { MemberState::Member } else { MemberState::NameTaken };
                if is_member {
                    said = Some(begun);
                } else if cluster.members.view().standing != standing {
                    tracing::error!(
                        "another process has the name {}, which has to be unique, or this node was just restarted",
                        cluster.settings.node
                    );
                }
                cluster.warn_of_clear(&nodes);
                cluster.members.see(View::new(standing, nodes));
            }
            Err(error) => {
                tracing::debug!("no heartbeat: {error}");
                let is_out = said.is_none_or(|said| said.elapsed() >= cluster.settings.drop_out);
                if is_out {
                    cluster.members.see(View::alone(error.to_string()));
                }
            }
        }
    }
    if let Err(error) = leave(&cluster).await {
        tracing::debug!("cannot remove this node from the cluster's list: {error}");
    }
    cluster.left.notify_one();
    std::future::pending().await
}

/// Withdraws a node's record, so that the others need not wait until it expires.
async fn leave(cluster: &Cluster) -> Result<(), EngineError> {
    let mut command = cluster.script(LEAVE, &[&format!("node:{}", cluster.settings.node), "nodes"]);
    command.arg(&cluster.id).arg(&cluster.settings.node);
    cluster.engine.command::<i64>(&command).await.map(drop)
}

/// Reports that this node is present, and returns the members.
async fn beat(cluster: &Cluster, listening: SocketAddr) -> Result<Vec<Member>, EngineError> {
    let settings = &cluster.settings;
    let advertise = match &settings.advertise {
        Some(origin) => origin.clone(),
        None => Origin::new(cluster.tls.is_some(), towards(&cluster.engine, listening).await?.to_string()),
    };
    let mut claim = cluster.script(CLAIM, &[&format!("node:{}", settings.node), "nodes"]);
    claim.arg(&cluster.id).arg(millis(settings.drop_out)).arg(&settings.node);
    *cluster.reached_at.lock() = advertise.authority.clone();
    let leaves = if cluster.leaves.load(Ordering::Acquire) { LEAVES } else { "" };
    let record = [
        ("draining", leaves.to_owned()),
        ("advertise", advertise.to_string()),
        ("id", cluster.id.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("weight", settings.weight.to_string()),
    ];
    let record = record.map(|(field, value)| (field.to_owned(), value)).into();
    let seal = cluster.seal_of_member(&settings.node, &record);
    record.into_iter().chain([(sealed::FIELD.to_owned(), seal)]).for_each(|(field, value)| {
        claim.arg(field).arg(value);
    });
    let mut names = redis::pipe();
    names.add_command(claim).ignore();
    names.cmd("SMEMBERS").arg(cluster.key("nodes"));
    names.cmd("SMEMBERS").arg(cluster.key("draining"));
    let (names, draining): (BTreeSet<String>, BTreeSet<String>) = cluster.engine.pipeline(&names).await?;
    let mut records = redis::pipe();
    for name in &names {
        records.cmd("HGETALL").arg(cluster.key(&format!("node:{name}")));
    }
    let records: Vec<BTreeMap<String, String>> = match names.is_empty() {
        true => Vec::new(),
        false => cluster.engine.pipeline(&records).await?,
    };
    let all = names.iter().zip(records);
    let (present, gone): (Vec<_>, Vec<_>) = all.partition(|(_, record)| !record.is_empty());
    forget(cluster, gone.into_iter().map(|(name, _)| name)).await?;
    let of_nodes = present.into_iter().filter(|(name, record)| cluster.is_of_node(name, record));
    let members = of_nodes.filter_map(|(name, record)| {
        let draining = cluster.is_draining(name, &draining);
        member(name, &record, draining)
    });
    Ok(members.collect())
}

/// Returns the address at which others reach the listener at `listening`. If that is every address of this machine,
/// it is the address on the route to the engine.
async fn towards(engine: &Engine, listening: SocketAddr) -> Result<SocketAddr, EngineError> {
    match listening.ip().is_unspecified() {
        true => engine.own_address().await.map(|ip| SocketAddr::new(ip, listening.port())),
        false => Ok(listening),
    }
}

/// Removes the names of expired nodes from the list. A node that has returned meanwhile adds itself with its next
/// heartbeat.
async fn forget(cluster: &Cluster, gone: impl Iterator<Item = &String>) -> Result<(), EngineError> {
    let gone: Vec<_> = gone.collect();
    if gone.is_empty() {
        return Ok(());
    }
    let mut command = redis::cmd("SREM");
    command.arg(cluster.key("nodes")).arg(gone);
    cluster.engine.command::<i64>(&command).await.map(drop)
}

/// Returns the node of a record; `None` if the record cannot be parsed.
fn member(name: &str, record: &BTreeMap<String, String>, draining: bool) -> Option<Member> {
    let text = |field: &str| record.get(field).cloned();
    let (scheme, authority) = record.get("advertise")?.split_once("://")?;
    Some(Member {
        name: name.to_owned(),
        id: text("id")?,
        advertise: Origin::new(scheme == "https", authority),
        weight: text("weight")?.parse().ok().filter(|weight| *weight > 0)?,
        draining: draining || record.get("draining").is_some_and(|value| value == LEAVES),
        version: text("version").unwrap_or_default(),
    })
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
