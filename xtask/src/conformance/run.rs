//! Starts the suite's origin, a Larder in front of it, and the suite's client.

use super::results::Outcome;
use crate::program::start;
use anyhow::{Context, Result, bail};
use larder_testkit::free_ports;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints the tests for shared caches: name, kind, and the tests that have to pass for the result to be meaningful.
const LIST: &str =
    "import('./tests/index.mjs').then(suites => console.log(JSON.stringify(suites.default.flatMap(
    suite => suite.tests.filter(test => !test.browser_only).map(test => [test.id, test.kind ?? 'required', test.depends_on ?? []])))))";

/// A proxy that forwards the requests of the suite's client over HTTP/2.
const ADAPTER: &str = include_str!("http2.mjs");

/// Runs every test of the suite in `folder` against `larder`, over HTTP/2 if `http2` is set. Errors: a program that
/// cannot be started or does not listen, or output that is no result.
pub(super) fn suite(folder: &Path, larder: &Path, http2: bool) -> Result<Vec<Outcome>> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let [origin, proxy, port] = free_ports();
    let mut command = node(folder);
    command.arg("test-engine/server/server.mjs");
    command.env("npm_config_protocol", "http").env("npm_config_port", origin.to_string());
    command.env("npm_config_pidfile", scratch.path().join("pid"));
    let _origin = start(command, origin, "the suite's server")?;
    let mut command = Command::new(larder);
    // One test expects a response to POST to be stored, which the default does not.
    let config = scratch.path().join("larder.toml");
    let site = format!("[[site]]\norigin = \"http://localhost:{origin}\"\nstore_post = true\n");
    std::fs::write(&config, site).context("cannot write the config")?;
    command.args(["serve", "--stats", "none", "--admin", "off", "--listen", &format!("127.0.0.1:{proxy}")]);
    command.arg("--config").arg(config);
    let _larder = start(command, proxy, "larder")?;
    let (_adapter, asked) = match http2 {
        false => (None, proxy),
        true => {
            let script = scratch.path().join("http2.mjs");
            std::fs::write(&script, ADAPTER).context("cannot write the adapter")?;
            let mut command = node(folder);
            command.arg(script).args([port.to_string(), format!("http://127.0.0.1:{proxy}")]);
            (Some(start(command, port, "the adapter to HTTP/2")?), port)
        }
    };
    let list = output(node(folder).args(["--eval", LIST]), "the suite's list of tests")?;
    let mut client = node(folder);
    client.arg("test-engine/cli.mjs").env("npm_config_base", format!("http://127.0.0.1:{asked}"));
    // Without a name the client runs every test; it reads both variables.
    client.env("npm_config_id", "").env("npm_package_config_id", "");
    let results = output(&mut client, "the suite's results")?;
    outcomes(&list, &results)
}

/// Joins tests and results. A test whose dependency failed counts as failed.
fn outcomes(list: &Value, results: &Value) -> Result<Vec<Outcome>> {
    let passed = |id: &str| results.get(id) == Some(&Value::Bool(true));
    let one = |test: &Value| {
        let id = test.get(0)?.as_str()?;
        let needs = test.get(2)?.as_array()?;
        let passed = passed(id) && needs.iter().filter_map(Value::as_str).all(passed);
        Some(Outcome { id: id.to_owned(), kind: test.get(1)?.as_str()?.to_owned(), passed })
    };
    let tests = list.as_array().context("the suite's list of tests is not a list")?;
    let outcomes =
        tests.iter().map(|test| one(test).context("the suite's list has an entry of an unknown form"));
    outcomes.collect()
}

fn node(folder: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg("--no-warnings").current_dir(folder);
    command
}

fn output(command: &mut Command, what: &str) -> Result<Value> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot start node")?;
    if !output.status.success() {
        bail!("{what}: node ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{what}: node printed something else"))
}

#[cfg(test)]
mod tests {
    use super::outcomes;
    use serde_json::json;

    #[test]
    fn a_test_whose_dependency_failed_has_not_passed() {
        let list = json!([["a", "required", []], ["b", "optimal", ["a"]], ["c", "check", []]]);
        let results = json!({"a": ["Assertion", "no"], "b": true, "c": true});
        let found = outcomes(&list, &results).unwrap();
        assert_eq!(found.iter().map(|o| o.passed).collect::<Vec<_>>(), [false, false, true]);
        assert!(outcomes(&json!([[1]]), &results).is_err());
    }
}
