//! The handover from a running process to its successor: `larder upgrade` and SIGUSR2.
//!
//! No listening socket is closed, so no connection is refused: clients wait in the kernel's queues for some milliseconds.
//! The two processes talk over a pair of Unix sockets, in parts of the frozen [format](frame).
//!
//! 1. The old process starts the new program, with the same arguments, one end of the pair as its standard input, and a
//!    pipe as its standard error. It sends `streams`: the real standard streams.
//! 2. The new process reads its config, and says `hello`.
//! 3. The old one sends `listeners` and `identity`, and the stored responses. It serves on, and nothing in it changes: if the
//!    new process fails until here, it ends, and its last line of errors is the reason. The last part is `copied`.
//! 4. The new one has made everything but the threads that accept connections. It says `ready`.
//! 5. The old one accepts no more connections, sends what has changed since, and `go`.
//! 6. The new one joins the cluster, accepts connections, and says `serving`. Until here, the old one can take everything back.
//! 7. The old one writes its disks down, unlocks them, and says `disks`. Now the new one opens them: until then it serves
//!    without. No two processes write to a disk at any moment.
//! 8. The old one answers the requests on its connections, with their end, and ends. The closed pair tells the new one.
//!
//! Before `go`, the new process ends with the old one. After `serving`, each goes on without the other.

pub(crate) mod child;
pub(crate) mod control;
pub(crate) mod frame;

pub(crate) mod listeners;
pub(crate) mod memory;
pub(crate) mod parent;
pub(crate) mod program;
pub(crate) mod restart;
pub(crate) mod sockets;
mod state;

use std::io;
use std::time::Duration;

use larder_cluster::Follower;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::frame::{Part, Sink};
use crate::flow::worker::ProcessState;

/// The names of the parts of the conversation. The parts of memory and state have others.
const STREAMS: &str = "streams";
const HELLO: &str = "hello";
const LISTENERS: &str = "listeners";
const IDENTITY: &str = "identity";
const COPIED: &str = "copied";
const READY: &str = "ready";
const GO: &str = "go";
const SERVING: &str = "serving";
const DISKS: &str = "disks";

/// The version of these parts.
const VERSION: u32 = 1;

/// The time between two messages about purges, while both processes answer requests.
const PURGES: Duration = Duration::from_millis(10);

/// The variable with the id of the old process in the environment of the new one.
const PREDECESSOR: &str = "LARDER_PREDECESSOR";

/// The numbers of the real standard streams of the new process.
#[derive(Debug, Serialize, Deserialize)]
struct Streams {
    input: u32,
    errors: u32,
}

/// What makes the new process the same as the old one, from the view of others.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Identity {
    /// The id of the node of the cluster.
    node: Option<String>,
    /// The engine of the cluster, and the position of its stream up to which purges are in force.
    position: Option<(String, String)>,
    /// The secrets of session tickets, the one in use last, and its age in milliseconds.
    tickets: Option<(Vec<Vec<u8>>, u64)>,
    /// The number of the descriptor that locks the statistics database.
    statistics: Option<u32>,
    /// The applied policy of the memory tier, and the one of the config.
    policy: Option<(String, String)>,
}

/// What the new process tells about itself when it serves.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SuccessorReport {
    process: u32,
    version: String,
    /// The stored responses that were kept, and their bytes.
    objects: u64,
    bytes: u64,
    /// What was not understood, and starts empty.
    refused: Vec<String>,
}

/// Returns the engine of the cluster, and the position of its stream up to which purges are in force here.
pub(crate) fn position(shared: &ProcessState) -> Option<(String, String)> {
    let place = shared.cluster.as_ref()?.invalidations.follower.borrow().clone();
    Some((place.engine()?.to_owned(), place.position()?.to_string()))
}

/// Makes this process continue from the [`position`] of the one before it.
fn go_on_from(position: Option<(String, String)>, shared: &ProcessState) {
    if let (Some((engine, position)), Some(cluster)) = (position, &shared.cluster)
        && let Ok(position) = position.parse()
    {
        cluster.invalidations.go_on_from(Follower::at(&engine, position));
    }
}

/// Sends a part with this content.
fn say(sink: &mut impl Sink, name: &str, content: &impl Serialize) -> io::Result<()> {
    sink.part(name, VERSION, |out| serde_json::to_writer(out, content).map_err(io::Error::other))
}

/// Returns the content of a part of the conversation.
fn content<T: DeserializeOwned>(part: &Part) -> io::Result<T> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", part.name));
    if part.version != VERSION {
        return Err(invalid(format!("has version {}, not {VERSION}", part.version)));
    }
    let content = part.content.as_ref().map_err(|_| invalid("is damaged".to_owned()))?;
    serde_json::from_slice(content).map_err(|error| invalid(error.to_string()))
}
