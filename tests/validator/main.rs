//! The validator and the search for couplings, from the view of an operator: a proxy whose hits are fetched again, and
//! an origin that changes when the test sets it.

mod couplings;
mod hits;

use std::process::Command;

use larder_testkit::{Larder, Origin, eventually};
use serde_json::Value;

/// Starts a proxy before `origin` that validates every hit, with more `keys` in the table `[validate]`.
fn validating(origin: &Origin, keys: &str) -> Larder {
    Larder::with(origin, &format!("[validate]\nsample = 1.0\n{keys}"))
}

/// Returns the JSON at `path` of the admin listener.
fn found(larder: &Larder, path: &str) -> Value {
    larder.ask_admin(&format!("GET {path}")).json()
}

/// Waits until no validation is in progress and `hits` hits were checked or skipped, and returns the validator's
/// report.
fn validated(larder: &Larder, hits: u64) -> Value {
    eventually(&format!("{hits} hits validated"), || {
        let found = found(larder, "/validator");
        let skipped: u64 = found["skipped"].as_object()?.values().filter_map(Value::as_u64).sum();
        let is_done = found["checked"].as_u64()? + skipped >= hits && found["under_way"] == 0;
        is_done.then_some(found)
    })
}

/// Returns the output of `larder stats` with this flag.
fn stats(larder: &Larder, flag: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["stats", flag, "--admin", &larder.admin.to_string()]).env_remove("LARDER_TOKEN");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}
