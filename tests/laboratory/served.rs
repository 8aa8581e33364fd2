//! The laboratory's simulator predicts the proxy: the same requests have the same hits.

use std::process::Command;

use larder_testkit::{Gate, Larder, Origin};
use serde_json::Value;

const ENTRIES: usize = 24;

/// Policies that use neither random numbers nor an object's size or key, which differ between the proxy and the
/// simulator.
const POLICIES: [&str; 13] = [
    "fifo",
    "lru",
    "sieve",
    "clock",
    "s3fifo",
    "slru",
    "2q",
    "arc",
    "lirs",
    "lfu",
    "lfuda",
    "lruk",
    "secondhit+lru",
];

/// Returns requests for some hundred objects: a few are popular, and some are scans.
fn requests() -> Vec<u32> {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut requests = Vec::new();
    for at in 0..400_u32 {
        let rank = draw(10) * draw(12);
        requests.push(if at % 100 < 85 { rank as u32 } else { 1_000 + at });
    }
    requests
}

/// Returns the hits of the proxy, which gets one request at a time.
fn served(policy: &str, requests: &[u32]) -> u64 {
    let origin = Origin::always("200 OK\nCache-Control: max-age=3600\n\ncontent");
    let larder = Larder::with(&origin, &format!("[memory]\nentries = {ENTRIES}\npolicy = '{policy}'"));
    let mut client = larder.client();
    for request in requests {
        if !client.ask(&format!("GET /{request}")).cache().starts_with("hit") {
            larder.settle();
        }
    }
    larder.stat("hits")
}

/// Returns the hits of the simulator, with the same requests as a trace.
fn simulated(policy: &str, requests: &[u32]) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("requests.txt");
    let lines: String = requests.iter().map(|request| format!("http://site/{request}\n")).collect();
    std::fs::write(&trace, lines).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["simulate", "--json", "--by", "entries", "--policy", policy]);
    let output = command.args(["--capacity", &ENTRIES.to_string()]).arg(trace).output().expect("it runs");
    let page: Value = serde_json::from_slice(&output.stdout).expect("json");
    page["cells"][0]["hits"].as_u64().expect("hits")
}

#[test]
fn the_simulator_predicts_the_hits_of_the_proxy() {
    let requests = requests();
    for policy in POLICIES {
        let (served, simulated) = (served(policy, &requests), simulated(policy, &requests));
        assert_eq!(served, simulated, "{policy}");
        assert!((50..350).contains(&served), "{policy}: {served} hits say little");
    }
}

/// `/far` takes as long as all pages that were fetched meanwhile.
#[test]
fn a_page_with_a_slow_origin_stays_where_the_policy_weighs_latency() {
    for (policy, stays) in [("gds:cost=latency", true), ("gdsf:cost=latency", true), ("gds", false)] {
        let gate = Gate::default();
        let far = gate.clone();
        let origin = Origin::by(move |seen| {
            if seen.target == "/far" {
                far.pass();
            }
            format!("200 OK\nCache-Control: max-age=3600\n\n{:100}", seen.target)
        });
        let larder = Larder::with(&origin, &format!("[memory]\nentries = {ENTRIES}\npolicy = '{policy}'"));
        let [mut slow, mut client] = [larder.client(), larder.client()];
        slow.send("GET /far");
        origin.wait_for(1);
        (0..200).for_each(|n| drop(client.ask(&format!("GET /{n}"))));
        gate.open();
        slow.receive("GET");
        for n in 200..300 {
            larder.settle();
            client.ask(&format!("GET /{n}"));
        }
        let last = client.ask("GET /far");
        assert_eq!(last.cache().starts_with("hit"), stays, "{policy}: {:?}", last.fields);
    }
}
