//! The examples of clusters: the program accepts their configs, and their parts are consistent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The path of the config in each example.
const PLACE: &str = "/etc/larder/larder.toml";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cluster").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(example(name)).expect(name)
}

/// Returns the documents of a YAML file.
fn documents(name: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(fs::File::open(example(name)).expect(name)).stderr(Stdio::inherit());
    let output = command.output().expect("python3");
    serde_json::from_slice(&output.stdout).expect("apt-get install python3-yaml")
}

/// Returns the messages of `larder check` for a config.
fn check(config: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.env("LARDER_TOKEN", TOKEN).env("LARDER_CLUSTER_TOKEN", TOKEN);
    let output = command.args(["check", "--config"]).arg(config).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", config.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether `larder check` reports all addresses that a cluster needs.
fn is_clustered(said: &str, engine: &str) -> bool {
    ["0.0.0.0:8080", "0.0.0.0:9146", engine].iter().all(|word| said.contains(word))
}

#[test]
fn the_unit_of_systemd_starts_what_its_config_says() {
    let said = check(&example("systemd/larder.toml"));
    assert!(is_clustered(&said, "engine.internal:6379"), "{said}");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/larder.service");
    let unit = fs::read_to_string(package).expect("a unit") + &read("systemd/cluster.conf");
    let lines = || unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let sections: Vec<_> = lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(sections, ["[Unit]", "[Service]", "[Install]", "[Service]"]);
    let value = |key: &str| {
        let mut values = lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().unwrap_or_default().to_owned()
    };
    assert_eq!(value("ExecStart"), format!("larder serve --config {PLACE}"));
    assert_eq!(value("StateDirectory"), "larder");
    assert_eq!(value("EnvironmentFile"), "/etc/larder/secrets");
    assert!(value("TimeoutStopSec").parse::<u32>().expect("seconds") > 30, "shorter than the drain");
    assert!(lines().all(|line| line.starts_with('[') || line.contains('=')), "{unit}");
}

#[test]
fn the_nodes_of_compose_are_alike_but_in_name() {
    let said = check(&example("compose/larder.toml"));
    assert!(is_clustered(&said, "valkey:6379"), "{said}");
    let page = &documents("compose/compose.yaml")[0];
    let services = page["services"].as_object().expect("services");
    assert!(services.contains_key("valkey") && services.contains_key("origin"));
    let nodes: Vec<_> = services.iter().filter(|(name, _)| name.starts_with("larder-")).collect();
    assert_eq!(nodes.len(), 3);
    for (name, node) in nodes {
        assert_eq!(node["hostname"], **name);
        assert_eq!(node["volumes"][0], format!("./larder.toml:{PLACE}:ro"));
        assert!(node["ports"][0].as_str().expect("a port").ends_with(":8080"));
        assert!(node["environment"]["LARDER_CLUSTER_TOKEN"].is_string());
    }
}

#[test]
fn the_manifests_of_kubernetes_agree_with_their_config() {
    let documents = documents("kubernetes/larder.yaml");
    let of_kind =
        |kind: &str| documents.iter().filter(|document| document["kind"] == kind).collect::<Vec<_>>();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("larder.toml");
    fs::write(&config, of_kind("ConfigMap")[0]["data"]["larder.toml"].as_str().expect("a config"))
        .expect("written");
    let said = check(&config);
    assert!(is_clustered(&said, "valkey:6379") && said.contains("0.0.0.0:9145"), "{said}");

    let spec = &of_kind("StatefulSet")[0]["spec"];
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    let ports: Vec<_> = ["http", "admin", "peers"].iter().map(|name| port(container, name)).collect();
    assert_eq!(ports, [8080, 9145, 9146]);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(container["readinessProbe"]["httpGet"]["port"], "admin");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/larder");
    assert_eq!(pod["volumes"][0]["configMap"]["name"], of_kind("ConfigMap")[0]["metadata"]["name"]);
    assert!(
        pod["terminationGracePeriodSeconds"].as_u64().expect("seconds") > 30 + 10,
        "shorter than the drain"
    );

    let labels = &spec["template"]["metadata"]["labels"];
    assert_eq!(&spec["selector"]["matchLabels"], labels);
    assert_eq!(&of_kind("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"], labels);
    let services = of_kind("Service");
    assert!(services.iter().all(|service| &service["spec"]["selector"] == labels));
    let headless: Vec<_> = services.iter().filter(|service| service["spec"]["clusterIP"] == "None").collect();
    assert_eq!(headless.len(), 1);
    assert_eq!(headless[0]["metadata"]["name"], spec["serviceName"]);
}

fn port(container: &Value, name: &str) -> u64 {
    let ports = container["ports"].as_array().expect("ports").iter();
    ports.filter(|port| port["name"] == name).find_map(|port| port["containerPort"].as_u64()).expect("a port")
}

#[test]
fn the_engine_to_try_with_is_where_nodes_look_for_it() {
    let documents = documents("kubernetes/valkey.yaml");
    assert_eq!(documents[0]["metadata"]["name"], "valkey");
    assert_eq!(documents[0]["spec"]["ports"][0]["port"], 6379);
    assert_eq!(documents[0]["spec"]["selector"], documents[1]["spec"]["template"]["metadata"]["labels"]);
}
