//! Which nodes have put a purge in force, for who waits for that.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use larder_cluster::{Acknowledged, Point, Position};
use serde::Serialize;

use super::{Cluster, EngineError};

/// How long is waited between two looks: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// How a purge has gone with the nodes of a cluster.
#[derive(Debug, Serialize)]
pub(crate) struct Nodes {
    /// It is in the stream: each node obeys it within the lag, or validates what it has.
    pub(crate) published: bool,
    /// How many have it in force, if somebody waited for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acknowledged: Option<usize>,
    /// How many there are, this one included.
    pub(crate) of: usize,
    /// Those that have not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// Why it is not in the stream. It is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

impl Cluster {
    /// How the purge has gone that was `told`; with `patience`, when all nodes have it in force, or that long after.
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
            Ok(Acknowledged { acknowledged, of, missing }) => {
                Nodes { published: true, acknowledged: Some(acknowledged), of, missing, trouble: None }
            }
            Err(error) => Nodes { published: true, trouble: Some(error.to_string()), ..none },
        }
    }

    async fn acknowledged(&self, entry: Position, patience: Duration) -> Result<Acknowledged, EngineError> {
        let (begun, mut pause) = (Instant::now(), LOOKS.0);
        loop {
            let mut command = redis::cmd("HGETALL");
            command.arg(self.key("positions"));
            let positions: HashMap<String, String> = self.engine.command(&command).await?;
            let view = self.members.view();
            let position = |name: &str| self.position_of(name, positions.get(name)?);
            let members = view.nodes.iter().map(|node| (node.name.as_str(), position(&node.name)));
            let counted = Acknowledged::count(entry, members);
            if counted.is_whole() || begun.elapsed() >= patience {
                return Ok(counted);
            }
            tokio::time::sleep(pause.min(patience.saturating_sub(begun.elapsed()))).await;
            pause = (pause * 2).min(LOOKS.1);
        }
    }
}
