//! The allowed dependencies between crates. Crates that are pure by design stay so only if a build fails otherwise.

use super::Package;

/// The crates of the workspace, with the workspace crates that each may use. Names lack `larder-`.
const EDGES: &[(&str, &str)] = &[
    ("words", ""),
    ("evict", "words"),
    ("advise", "evict"),
    ("semantics", "words"),
    ("rules", "semantics words"),
    ("coding", "semantics"),
    ("packages", "words"),
    ("rpc", ""),
    ("cluster", "semantics words"),
    ("acme", ""),
    ("engine", "words"),
    ("http2", ""),
    ("predict", "words"),
    ("disk", "evict words"),
    ("store", "disk evict semantics words"),
    ("heap", "store"),
    ("stats", "words"),
    ("tags", "evict semantics words"),
    ("tower", "tags"),
    ("transport", "advise engine evict packages rpc rules semantics stats store tags words"),
    (
        "proxy",
        "acme advise evict semantics coding engine rpc rules packages http2 cluster predict store stats tags \
         transport words",
    ),
    ("server", "advise cluster evict predict proxy semantics stats store tags words"),
    ("load", "rpc"),
    ("lab", "evict cluster predict load words"),
    ("cli", "words"),
    ("experiment", "cli evict heap lab load words"),
    (
        "larder",
        "advise evict semantics rpc http2 cluster predict store heap stats tags proxy server lab load cli words",
    ),
    ("bench", ""),
    ("fuzz", "larder cluster disk evict http2 lab packages proxy rpc rules semantics store testkit"),
    ("testkit", "http2"),
    ("xtask", "testkit words"),
];

/// Crates that decide without side effects.
const PURE: &str = "advise evict semantics coding rpc cluster http2 packages predict tags words";

/// Libraries that a pure crate cannot use: runtimes, sockets, clocks, loggers, databases.
const IMPURE: &str = "async-std chrono futures h2 hyper hyper-util libc log mio nix redis reqwest rustix rustls smol \
                      socket2 sqlx time tokio tokio-util tracing";

/// Returns the edges of a crate, if it is one of the workspace.
fn edges(name: &str) -> Option<&'static str> {
    let short = name.strip_prefix("larder-").unwrap_or(name);
    EDGES.iter().find(|(known, _)| *known == short).map(|(_, allowed)| *allowed)
}

/// Whether a list of names has this one, without `larder-`.
fn has(list: &str, name: &str) -> bool {
    let short = name.strip_prefix("larder-").unwrap_or(name);
    list.split_whitespace().any(|known| known == short)
}

pub(super) fn check(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(problems).collect()
}

fn problems(package: &Package) -> Vec<String> {
    let name = package.name.as_str();
    let Some(allowed) = edges(name) else {
        return vec![format!("{name}: not in tidy's table of dependencies")];
    };
    let is_ours = |dependency: &str| dependency == "larder" || dependency.starts_with("larder-");
    let mut problems = Vec::new();
    for dependency in &package.dependencies {
        let dependency = dependency.as_str();
        if is_ours(dependency) && !has(allowed, dependency) {
            problems.push(format!("{name}: may not depend on {dependency}"));
        }
        if has(PURE, name) && has(IMPURE, dependency) {
            problems.push(format!("{name}: is pure and may not depend on {dependency}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{EDGES, PURE, Package, check, edges};

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
        for list in EDGES.iter().map(|(_, allowed)| *allowed).chain([PURE]) {
            let unknown = list.split_whitespace().find(|name| edges(name).is_none());
            assert_eq!(unknown, None, "no crate of the table");
        }
    }
}
