//! The nodes that have put a purge in force, for callers that wait for them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use larder_cluster::{Acknowledgement, Point, Position};
use serde::Serialize;

use super::{Cluster, EngineError};

/// The pause between two looks: the first one, and the longest one.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// The state of a purge on the nodes of a cluster.
#[derive(Debug, Serialize)]
pub(crate) struct Nodes {
    /// Whether it is in the stream. Then each node obeys it within the lag, or revalidates its entries.
    pub(crate) published: bool,
    /// The number of nodes that have it in force, if the caller waited for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acknowledged: Option<usize>,
    /// The number of nodes, this one included.
    pub(crate) of: usize,
    /// The nodes that do not have it in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// The reason why it is not in the stream. Adding it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

impl Cluster {
    /// Returns the state of the published purge `told`; with `patience`, once all nodes have it in force, or after
    /// that time.
    pub(crate) async fn nodes(
        &self,
        told: Result<&Point, &EngineError>,
        patience: Option<Duration>,
    ) -> Nodes {
        let of = self.members.view().nodes.len();
        let none = Nodes { published: false, acknowledged: None, of, missing: Vec::new(), trouble: None };
        let entry = match told {
            Ok(point) => point.position,
            Err(error) => return Nodes { trouble: Some(error.to_string()), ..none },
        };
        let Some(patience) = patience else { return Nodes { published: true, ..none } };
        match self.acknowledged(entry, patience).await {
            Ok(Acknowledgement { acknowledged, of, missing }) => {
                Nodes { published: true, acknowledged: Some(acknowledged), of, missing, trouble: None }
            }
            Err(error) => Nodes { published: true, trouble: Some(error.to_string()), ..none },
        }
    }

    async fn acknowledged(
        &self,
        entry: Position,
        patience: Duration,
    ) -> Result<Acknowledgement, EngineError> {
        let (begun, mut pause) = (Instant::now(), LOOKS.0);
        loop {
            let mut command = redis::cmd("HGETALL");
            command.arg(self.key("positions"));
            let positions: HashMap<String, String> = self.engine.command(&command).await?;
            let view = self.members.view();
            let position = |name: &str| self.position_of(name, positions.get(name)?);
            let members = view.nodes.iter().map(|node| (node.name.as_str(), position(&node.name)));
            let counted = Acknowledgement::count(entry, members);
            if counted.is_whole() || begun.elapsed() >= patience {
                return Ok(counted);
            }
            tokio::time::sleep(pause.min(patience.saturating_sub(begun.elapsed()))).await;
            pause = (pause * 2).min(LOOKS.1);
        }
    }
}
