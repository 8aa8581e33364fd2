//! The allowed dependencies between crates. Crates that are pure by design stay so only if a build fails otherwise.

use super::Package;

/// The crates of the workspace, with the workspace crates that each may use.
const EDGES: &[(&str, &[&str])] = &[
    ("larder-words", &[]),
    ("larder-evict", &[]),
    ("larder-semantics", &[]),
    ("larder-rules", &["larder-semantics"]),
    ("larder-rpc", &[]),
    ("larder-cluster", &["larder-semantics"]),
    ("larder-http2", &[]),
    ("larder-predict", &[]),
    ("larder-disk", &["larder-evict"]),
    ("larder-store", &["larder-disk", "larder-evict", "larder-semantics"]),
    ("larder-stats", &[]),
    ("larder-tags", &["larder-evict", "larder-semantics"]),
    ("larder-tower", &["larder-tags"]),
    (
        "larder-proxy",
        &[
            "larder-evict",
            "larder-semantics",
            "larder-rpc",
            "larder-rules",
            "larder-http2",
            "larder-cluster",
            "larder-predict",
            "larder-store",
            "larder-stats",
            "larder-tags",
            "larder-words",
        ],
    ),
    ("larder-lab", &["larder-evict", "larder-cluster", "larder-predict"]),
    ("larder-load", &["larder-lab", "larder-rpc"]),
    ("larder-cli", &["larder-words"]),
    ("larder-experiment", &["larder-cli", "larder-evict", "larder-lab", "larder-load"]),
    (
        "larder",
        &[
            "larder-evict",
            "larder-semantics",
            "larder-rpc",
            "larder-http2",
            "larder-cluster",
            "larder-predict",
            "larder-store",
            "larder-stats",
            "larder-tags",
            "larder-proxy",
            "larder-lab",
            "larder-load",
            "larder-cli",
        ],
    ),
    ("bench", &[]),
    (
        "fuzz",
        &[
            "larder",
            "larder-cluster",
            "larder-disk",
            "larder-evict",
            "larder-http2",
            "larder-lab",
            "larder-proxy",
            "larder-rpc",
            "larder-rules",
            "larder-semantics",
        ],
    ),
    ("larder-testkit", &["larder-http2"]),
    ("xtask", &["larder-testkit"]),
];

/// Crates that decide without side effects.
const PURE: &[&str] = &[
    "larder-evict",
    "larder-semantics",
    "larder-rpc",
    "larder-cluster",
    "larder-http2",
    "larder-predict",
    "larder-tags",
];

/// Libraries that a pure crate cannot use: runtimes, sockets, clocks, loggers, databases.
const IMPURE: &[&str] = &[
    "async-std",
    "chrono",
    "futures",
    "h2",
    "hyper",
    "hyper-util",
    "libc",
    "log",
    "mio",
    "nix",
    "redis",
    "reqwest",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "sqlx",
    "time",
    "tokio",
    "tokio-util",
    "tracing",
];

pub(super) fn check(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(problems).collect()
}

fn problems(package: &Package) -> Vec<String> {
    let name = package.name.as_str();
    let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name}: not in tidy's table of dependencies")];
    };
    let ours = |dependency: &str| EDGES.iter().any(|(known, _)| *known == dependency);
    let mut problems = Vec::new();
    for dependency in &package.dependencies {
        let dependency = dependency.as_str();
        if ours(dependency) && !allowed.contains(&dependency) {
            problems.push(format!("{name}: may not depend on {dependency}"));
        }
        if PURE.contains(&name) && IMPURE.contains(&dependency) {
            problems.push(format!("{name}: is pure and may not depend on {dependency}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{EDGES, PURE, Package, check};

    #[test]
    fn each_direction_is_judged() {
        for (name, dependency, complaint) in [
            ("larder-store", "larder-evict", None),
            ("larder-evict", "serde", None),
            ("larder-proxy", "tokio", None),
            ("larder-evict", "larder-semantics", Some("larder-evict: may not depend on larder-semantics")),
            ("larder-lab", "larder-proxy", Some("larder-lab: may not depend on larder-proxy")),
            ("larder-proxy", "larder-lab", Some("larder-proxy: may not depend on larder-lab")),
            ("larder-semantics", "tokio", Some("larder-semantics: is pure and may not depend on tokio")),
            ("xtask", "larder-store", Some("xtask: may not depend on larder-store")),
            ("stranger", "serde", Some("stranger: not in tidy's table of dependencies")),
        ] {
            let package =
                Package { name: name.into(), dependencies: vec![dependency.into()], entries: Vec::new() };
            assert_eq!(check(&[package]), Vec::from_iter(complaint), "{name} -> {dependency}");
        }
    }

    #[test]
    fn the_tables_agree() {
        for name in EDGES.iter().flat_map(|(_, allowed)| *allowed).chain(PURE) {
            assert!(EDGES.iter().any(|(known, _)| known == name), "{name} is no crate of the table");
        }
    }
}
