//! The alert rules for Prometheus, evaluated by its own tool.

use std::collections::BTreeSet;
use std::process::Command;

const RULES: &str = include_str!("../../packaging/prometheus/larder.rules.yml");
const TESTS: &str = include_str!("../../packaging/prometheus/larder.tests.yml");

/// Returns the names of the alerts, in their order.
fn alerts() -> Vec<&'static str> {
    RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

#[test]
fn prometheus_fires_each_alert_in_its_case_and_not_before() {
    for words in [["check", "rules", "larder.rules.yml"], ["test", "rules", "larder.tests.yml"]] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/prometheus");
        let tool = Command::new("promtool").args(words).current_dir(folder).output();
        let tool = tool.expect("promtool: `cargo x test` installs the package prometheus, or apt-get does");
        let said =
            [tool.stdout, tool.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(tool.status.success(), "{words:?}: {said}");
    }
    for alert in alerts() {
        let name = format!("alertname: {alert}\n");
        let cases = TESTS.split(&name).skip(1);
        let fires: BTreeSet<_> = cases.map(|case| case.trim_start().starts_with("exp_alerts:")).collect();
        assert_eq!(fires.len(), 2, "{alert} has a case in which it fires, and one in which it does not");
    }
}

#[test]
fn alerts_use_metrics_that_exist_and_are_described() {
    let metrics = include_str!("../../docs/metrics.md");
    let names = RULES.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    for name in names.filter(|name| name.starts_with("larder_")) {
        assert!(metrics.contains(&format!("| `{name}` |")), "{name}");
    }
    let page = include_str!("../../docs/operations.md");
    let described = page.lines().filter_map(|line| line.strip_prefix("| `Larder")?.split('`').next());
    let described: Vec<_> = described.map(|name| format!("Larder{name}")).collect();
    assert_eq!(described, alerts());
}
