//! Seals the data that this node writes on the engine with the cluster's token. Data on the engine without the seal
//! of a node is ignored and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use larder_cluster::Position;
use larder_cluster::seal::MessageKind;
use serde::Serialize;

use super::Cluster;
use crate::base::counted::counted;

/// The field with the seal in a node's record, and in an entry of the stream.
pub(super) const FIELD: &str = "seal";

counted! {
    /// Counts of data that was ignored because no node had sealed it, as `/cluster` and the metrics show them.
    #[derive(Clone, Copy, Debug, Serialize)]
    pub struct SealsReport, ForgeryCounts {
        /// Records of nodes, and other data about them, each time they were read.
        members,
        /// Entries of the stream of purges.
        entries,
        /// Responses of the second tier, and their chunks.
        records,
        /// Requests on the listener for nodes.
        requests,
        /// Connections to servers that did not prove to be nodes.
        proofs,
        /// Connections of strangers to the listener for nodes, if nodes encrypt them.
        connections,
    }
}

impl ForgeryCounts {
    /// Counts one, and logs the first one.
    pub(super) fn count(count: &AtomicU64, what: &str) {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("{what} was ignored: it is not from a node with this cluster's token");
        }
    }
}

impl Cluster {
    /// Returns the seal of a node's record: it covers all fields but the seal.
    pub(super) fn seal_of_member(&self, name: &str, record: &BTreeMap<String, String>) -> String {
        self.seal.text(MessageKind::Member, &words(name, record))
    }

    /// Whether a node wrote this record of the node called `name`.
    pub(super) fn is_of_node(&self, name: &str, record: &BTreeMap<String, String>) -> bool {
        let shown = record.get(FIELD).map_or("-", String::as_str);
        let is_sealed = self.seal.is(MessageKind::Member, &words(name, record), shown.as_bytes());
        if !is_sealed {
            ForgeryCounts::count(&self.forged.members, "a node's record on the engine");
        }
        is_sealed
    }

    /// Returns the engine's value for a draining node: a seal, if sealing is on, and the node's name.
    pub(super) fn sealed_name(&self, name: &str) -> String {
        match self.seal.is_on() {
            true => format!("{} {name}", self.seal.text(MessageKind::Draining, &[name.as_bytes()])),
            false => name.to_owned(),
        }
    }

    /// Whether the node called `name` is one of the draining nodes.
    pub(super) fn is_draining(&self, name: &str, draining: &BTreeSet<String>) -> bool {
        draining.contains(&self.sealed_name(name))
    }

    /// Returns the engine's value for this node's position in the stream.
    pub(super) fn sealed_position(&self, position: Position) -> String {
        let position = position.to_string();
        match self.seal.is_on() {
            true => format!("{position} {}", self.seal_of_position(&self.settings.node, &position)),
            false => position,
        }
    }

    /// Returns the position that the node called `name` has written; `None` if it is forged or malformed.
    pub(super) fn position_of(&self, name: &str, written: &str) -> Option<Position> {
        if !self.seal.is_on() {
            return written.parse().ok();
        }
        let (position, shown) = written.split_once(' ')?;
        let parts = [name.as_bytes(), position.as_bytes()];
        let is_sealed = self.seal.is(MessageKind::Position, &parts, shown.as_bytes());
        if !is_sealed {
            ForgeryCounts::count(&self.forged.members, "a node's place on the engine");
        }
        is_sealed.then(|| position.parse().ok())?
    }

    fn seal_of_position(&self, name: &str, position: &str) -> String {
        self.seal.text(MessageKind::Position, &[name.as_bytes(), position.as_bytes()])
    }
}

/// Returns the name and all fields of a node's record, except the seal.
fn words<'r>(name: &'r str, record: &'r BTreeMap<String, String>) -> Vec<&'r [u8]> {
    let said = record.iter().filter(|(field, _)| *field != FIELD);
    let said = said.flat_map(|(field, value)| [field.as_bytes(), value.as_bytes()]);
    std::iter::once(name.as_bytes()).chain(said).collect()
}
