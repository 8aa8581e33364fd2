//! `larder cluster`: the nodes of the cluster, from the view of one of them, and whether they own keys.

use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::admin::AdminListener;
use crate::cli::json::Parts;
use crate::cli::tables::aligned;
use crate::cli::units::{about_count, about_size, counted, parse_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder cluster
      the nodes, as the larder with its admin listener on 127.0.0.1:9145 sees them
  larder cluster drain c
      moves the keys of node c to the others; it continues to serve, and is no longer ready
  larder cluster resume c
  larder cluster leave --timeout 20s --pause 10s
      before a stop: gives the keys of the node to others, with the hottest of its responses; takes ten seconds or more,
      so that balancers notice
  larder cluster --json | jq '.nodes[].name'";

/// The arguments of `cluster`, which shows the cluster or changes it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    change: Option<Change>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Move the keys of a node to the others
    Drain(Node),
    /// Return the keys of a drained node
    Resume(Node),
    /// Give the keys of this node to the others, with its hottest responses, before it stops
    Leave(Leave),
}

#[derive(Debug, Args)]
struct Leave {
    /// Longest time for the responses
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Shortest time that the command takes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    pause: Duration,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

#[derive(Debug, Args)]
struct Node {
    /// Its name
    #[arg(value_name = "NODE")]
    name: String,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// Runs the command.
pub(crate) fn run(args: &ClusterArgs) -> Result<(), Failure> {
    let change = |path, node: &Node, done| {
        let told: Value = node.listener.client()?.post(path, &[("node", node.name.clone())])?;
        say(&format!("{}: {done}", told.word("node")));
        Ok(())
    };
    match &args.change {
        Some(Change::Drain(node)) => change("cluster/drain", node, "owns no keys from the next heartbeat on"),
        Some(Change::Resume(node)) => change("cluster/resume", node, "owns keys from the next heartbeat on"),
        Some(Change::Leave(leaving)) => leave(leaving),
        None => {
            let cluster: Value = args.listener.client()?.get("cluster", &[])?;
            match args.json {
                true => say(&cluster.to_string()),
                false => lines(&cluster).iter().for_each(|line| say(line)),
            }
            Ok(())
        }
    }
}

/// Makes the node leave, and waits for the rest of the pause, also after a failure: the node is stopped in any case.
fn leave(Leave { timeout, pause, listener }: &Leave) -> Result<(), Failure> {
    let begun = Instant::now();
    let timeout = [("timeout", timeout.as_secs_f64().to_string())];
    let left = listener.client().and_then(|node| Ok(node.post::<Value>("cluster/leave", &timeout)?));
    thread::sleep(pause.saturating_sub(begun.elapsed()));
    say(&departure(&left?));
    Ok(())
}

/// Formats what became of the responses of a node that leaves.
fn departure(left: &Value) -> String {
    let nodes = left["nodes"].as_object().into_iter().flatten();
    let nodes: Vec<_> = nodes.map(|(name, count)| format!("{count} to {}", printable(name))).collect();
    let given = counted(left.count("objects"), "response", "responses");
    let size = about_size(left.count("bytes"));
    let mut line = format!("{}: owns no keys; gave {given}, {size}", left.word("node"));
    if !nodes.is_empty() {
        line.push_str(&format!(" ({})", nodes.join(", ")));
    }
    for (name, what) in [("known", "known there"), ("refused", "refused"), ("left", "not offered in time")] {
        if left.count(name) > 0 {
            line.push_str(&format!("; {what}: {}", about_count(left.count(name))));
        }
    }
    line
}

/// Formats the cluster for people.
fn lines(cluster: &Value) -> Vec<String> {
    let engine = &cluster["engine"];
    let health = match engine["up"].as_bool() {
        Some(true) => format!("answers in {} us", engine["round_trip_micros"]),
        _ => format!("does not answer: {}", engine.word("trouble")),
    };
    let rows = cluster.list("nodes").iter().map(|node| {
        let is_self = node["is_self"] == true;
        let state = match (node["draining"] == true, node["reachable"] == false) {
            (_, true) => "unreachable",
            (true, false) => "draining",
            (false, false) => "serving",
        };
        let share = node["share"].as_f64().unwrap_or_default() * 100.0;
        let name = format!("{}{}", node.word("name"), if is_self { " *" } else { "" });
        let (advertise, version) = (node.word("advertise"), node.word("version"));
        vec![name, state.to_owned(), advertise, version, node["weight"].to_string(), format!("{share:.1}%")]
    });
    let heading = ["NODE", "STATE", "ADDRESS", "VERSION", "WEIGHT", "SHARE"].map(str::to_owned).to_vec();
    let rows: Vec<_> = [heading].into_iter().chain(rows).collect();
    let trouble = cluster["trouble"].as_str().filter(|_| engine["up"] == true);
    let trouble = trouble.map(|why| format!(", the engine refuses its commands: {}", printable(why)));
    let trouble = trouble.unwrap_or_default();
    let standing = format!("node {}: {}{trouble}", cluster.word("node"), cluster.word("standing"));
    let engine = format!("engine {}: {health}", engine.word("place"));
    let mut lines = vec![standing, engine];
    lines.extend(cluster.get("tier").map(tier));
    if rows.len() > 1 {
        lines.extend(aligned(&rows, 4, "  "));
    }
    lines.extend(cluster.list("gone").iter().map(|node| {
        let (name, advertise) = (node.word("name"), node.word("advertise"));
        format!("node {name} ({advertise}) left the cluster or was lost {} s ago", node["seconds"])
    }));
    lines
}

/// Formats the second tier.
fn tier(tier: &Value) -> String {
    let number = |name, one, many| counted(tier.count(name), one, many);
    let (hits, asked) = (number("hits", "hit", "hits"), number("asked", "request", "requests"));
    let written = number("written", "response", "responses");
    let counts = format!("{hits} of {asked}, {written} kept, {} dropped", about_count(tier.count("dropped")));
    match (&*tier.word("reads"), &*tier.word("writes")) {
        ("closed", "closed") => format!("second tier: {counts}"),
        (reads, writes) => {
            format!("second tier: not used for a while (reads {reads}, writes {writes}): {counts}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nodes_are_shown_in_columns() {
        let node = |name, is_self, draining| {
            json!({"name": name, "is_self": is_self, "draining": draining, "reachable": name != "c", "share": 0.5,
                "weight": 100, "advertise": "http://10.0.0.1:9146", "version": "1.0.0-rc.1"})
        };
        let cluster = json!({
            "node": "a", "standing": "member",
            "engine": {"place": "redis://10.0.0.9:6379", "up": true, "round_trip_micros": 120},
            "nodes": [node("a", true, false), node("b", false, true), node("c", false, false)],
            "gone": [{"name": "d", "advertise": "http://10.0.0.4:9146", "seconds": 90}],
        });
        assert_eq!(
            lines(&cluster),
            [
                "node a: member",
                "engine redis://10.0.0.9:6379: answers in 120 us",
                "NODE  STATE        ADDRESS               VERSION     WEIGHT  SHARE",
                "a *   serving      http://10.0.0.1:9146  1.0.0-rc.1     100  50.0%",
                "b     draining     http://10.0.0.1:9146  1.0.0-rc.1     100  50.0%",
                "c     unreachable  http://10.0.0.1:9146  1.0.0-rc.1     100  50.0%",
                "node d (http://10.0.0.4:9146) left the cluster or was lost 90 s ago",
            ]
        );
    }

    #[test]
    fn a_departure_is_told_in_one_line() {
        for (left, expected) in [
            (
                json!({"objects": 3, "bytes": 6144, "nodes": {"b": 1, "c": 2}, "known": 1, "refused": 0, "left": 1200}),
                "a: owns no keys; gave 3 responses, 6.00 KiB (1 to b, 2 to c); known there: 1; not offered in time: 1,200",
            ),
            (json!({}), "a: owns no keys; gave 0 responses, 0 B"),
        ] {
            let mut left = left;
            left["node"] = json!("a");
            assert_eq!(departure(&left), expected);
        }
    }

    #[test]
    fn the_second_tier_is_shown() {
        for (reads, expected) in [
            ("closed", "second tier: 3 hits of 5 requests, 7 responses kept, 1 dropped"),
            (
                "open",
                "second tier: not used for a while (reads open, writes closed): 3 hits of 5 requests, 7 responses kept, 1 dropped",
            ),
        ] {
            let said = json!({"reads": reads, "writes": "closed", "asked": 5, "hits": 3, "written": 7, "dropped": 1});
            assert_eq!(tier(&said), expected);
        }
    }

    #[test]
    fn a_missing_engine_is_reported() {
        let engine = json!({"place": "redis://a:1", "up": false, "trouble": "connection refused"});
        let cluster = json!({"node": "a", "standing": "alone", "engine": engine, "nodes": []});
        assert_eq!(
            lines(&cluster),
            ["node a: alone", "engine redis://a:1: does not answer: connection refused"]
        );
    }
}
