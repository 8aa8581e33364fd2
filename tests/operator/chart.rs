//! The Helm chart, rendered by helm without a cluster: `cargo test --test operator -- --ignored`, with helm in the path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use larder_testkit::{programs, stderr, stdout};
use serde_json::Value;

use crate::{larder, output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns helm. `cargo x test` does not build it, which takes minutes and 100 MB; so these tests run when asked for.
fn helm() -> PathBuf {
    programs::find("helm").expect("helm is installed")
}

fn run(helm: &Path, words: &[&str]) -> Output {
    output(Command::new(helm).args(words).current_dir(Path::new(ROOT).join("packaging/helm")))
}

/// Returns the objects that the chart makes of these values.
fn render(helm: &Path, values: &[&str]) -> Vec<Value> {
    let values = values.iter().flat_map(|value| ["--set", value]);
    let words: Vec<_> = ["template", "web", "larder"].into_iter().chain(values).collect();
    let rendered = run(helm, &words);
    assert!(rendered.status.success(), "{}", stderr(&rendered));
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), &rendered.stdout).expect("written");
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut python = Command::new("python3");
    python.args(["-c", script]).stdin(file.reopen().expect("a file")).stderr(Stdio::inherit());
    serde_json::from_slice(&output(&mut python).stdout).expect("apt-get install python3-yaml")
}

fn of_kind<'d>(documents: &'d [Value], kind: &str) -> Vec<&'d Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

/// Returns the findings of `larder check` for the config in the chart, with the files that its pods have.
fn check(documents: &[Value]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("larder.toml");
    fs::write(&config, of_kind(documents, "ConfigMap")[0]["data"]["larder.toml"].as_str().expect("a config"))
        .expect("written");
    let token = "0123456789abcdef0123456789abcdef";
    let mut check = larder(&["check", "--config", &config.display().to_string()]);
    let checked = output(check.env("LARDER_TOKEN", token).env("LARDER_CLUSTER_TOKEN", token));
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", stderr(&checked));
    stdout(&checked)
}

#[test]
#[ignore = "it needs helm"]
fn the_chart_makes_nodes_that_leave_one_after_another() {
    let helm = helm();
    let values = ["cluster.engine=redis://valkey:6379", "replicas=3", "autoscaling.enabled=true"];
    let documents = render(&helm, &values);
    let said = check(&documents);
    assert!(["0.0.0.0:8080", "0.0.0.0:9146", "valkey:6379"].iter().all(|word| said.contains(word)), "{said}");
    let spec = &of_kind(&documents, "StatefulSet")[0]["spec"];
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    let leaves = &container["lifecycle"]["preStop"]["exec"]["command"];
    let words: Vec<_> = leaves.as_array().expect("words").iter().filter_map(Value::as_str).collect();
    assert_eq!(words, ["larder", "cluster", "leave", "--pause", "10s", "--timeout", "20s"]);
    assert!(pod["terminationGracePeriodSeconds"].as_u64().expect("seconds") >= 30 + 20);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let labels = &spec["selector"]["matchLabels"];
    let of_pod = spec["template"]["metadata"]["labels"].as_object().expect("labels");
    assert!(labels.as_object().expect("labels").iter().all(|(name, value)| of_pod.get(name) == Some(value)));
    let budget = &of_kind(&documents, "PodDisruptionBudget")[0]["spec"];
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]["matchLabels"]), (&Value::from(1), labels));
    let services = of_kind(&documents, "Service");
    assert!(services.iter().all(|service| &service["spec"]["selector"] == labels));
    let headless = services.iter().find(|service| service["spec"]["clusterIP"] == "None").expect("one");
    assert_eq!(headless["metadata"]["name"], spec["serviceName"]);
    let scaled = &of_kind(&documents, "HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"];
    assert_eq!(scaled["name"], of_kind(&documents, "StatefulSet")[0]["metadata"]["name"]);
    assert_eq!(spec["replicas"], Value::Null, "the autoscaler sets it");
}

#[test]
#[ignore = "it needs helm"]
fn a_single_node_needs_no_engine_and_fits_into_its_memory() {
    let helm = helm();
    let documents = render(&helm, &["replicas=1", "memory=2GiB"]);
    let said = check(&documents);
    assert!(said.contains("2GiB") && !said.contains("cluster"), "{said}");
    let container = &of_kind(&documents, "StatefulSet")[0]["spec"]["template"]["spec"]["containers"][0];
    // 1.15 times the capacity, and 64 MiB.
    assert_eq!(container["resources"]["limits"]["memory"], "2420Mi");
    assert!(of_kind(&documents, "HorizontalPodAutoscaler").is_empty());
}

#[test]
#[ignore = "it needs helm"]
fn values_that_cannot_be_are_refused_by_the_schema() {
    let helm = helm();
    let linted = run(&helm, &["lint", "--strict", "larder"]);
    assert!(linted.status.success(), "{}", stdout(&linted));
    for (value, named) in [
        ("replicas=none", "replicas"),
        ("memory=2Gi", "memory"),
        ("replica=3", "replica"),
        ("replicas=3", "cluster.engine"),
    ] {
        let refused = run(&helm, &["template", "web", "larder", "--set", value]);
        assert!(
            !refused.status.success() && stderr(&refused).contains(named),
            "{value}: {}",
            stderr(&refused)
        );
    }
}
