//! The layers of a crate: the allowed imports between its folders. A module may import modules of its own folder and of
//! the layers below. So no cycle runs through two folders, and a folder can be read after those below it.

use std::collections::BTreeMap;

use super::Text;

/// A crate whose folders are layers.
pub(super) struct Crate {
    /// The folder of its sources, with a slash at the end.
    root: &'static str,
    /// The modules of its root, from bottom to top. Those of one layer do not import each other.
    layers: &'static [&'static [&'static str]],
}

pub(super) const CRATES: &[Crate] = &[
    Crate {
        root: "crates/transport/src/",
        layers: &[&["base"], &["net"], &["http"], &["counts"], &["origin"]],
    },
    Crate {
        root: "crates/proxy/src/",
        layers: &[
            // Those of `larder-transport`.
            &["base", "net", "http", "counts", "origin"],
            &["exchange"],
            &["observe"],
            &["cache"],
            &["cluster"],
            &["acme"],
            &["flow"],
            &["features"],
            &["wire"],
            &["http2"],
            &["http1", "rpc"],
            &["accept"],
        ],
    },
    Crate {
        root: "crates/server/src/",
        layers: &[
            // Those of `larder-transport` and `larder-proxy`.
            &[
                "base", "net", "http", "counts", "origin", "exchange", "observe", "cache", "cluster", "acme",
                "flow", "features", "rpc", "accept",
            ],
            &["admin"],
            &["handover"],
            &["server"],
        ],
    },
    Crate { root: "src/", layers: &[&["cli"], &["config"], &["commands"]] },
];

/// Returns imports against the order of the layers, and modules that have no layer.
pub(super) fn check(files: &[Text], crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(|layered| layered.problems(files)).collect()
}

impl Crate {
    fn problems(&self, files: &[Text]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut against: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for file in files {
            let Some(path) = file.path.strip_prefix(self.root).and_then(|path| path.strip_suffix(".rs"))
            else {
                continue;
            };
            let modules: Vec<_> = path.split('/').filter(|name| *name != "mod").collect();
            let Some(from) = modules.first().copied().filter(|name| !matches!(*name, "lib" | "main")) else {
                continue;
            };
            let Some(layer) = self.layer(from) else {
                problems.push(format!("{}: `{from}` has no layer in tidy's table", file.path));
                continue;
            };
            for (line, to) in imports(&file.text, modules.len()) {
                let place = format!("{}:{line}", file.path);
                match self.layer(to) {
                    _ if to == from => {}
                    Some(below) if below < layer => {}
                    Some(_) => against.entry((from, to)).or_default().push(place),
                    None => problems
                        .push(format!("{place}: imports `{to}` of the crate's root, not of its own folder")),
                }
            }
        }
        problems.extend(against.iter().map(|((from, to), places)| {
            let (root, list) = (self.root, places.join(", "));
            format!("{root}{from} may not import `{to}`, which is no layer below: {list}")
        }));
        problems
    }

    fn layer(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&module))
    }
}

/// Returns the modules of the crate's root that a module imports, with line numbers; the module is `depth` levels below
/// the root. Tests at the end of a file may import anything.
fn imports(text: &str, depth: usize) -> Vec<(usize, &str)> {
    let text = without_tests(text);
    let mut found = Vec::new();
    for (at, path) in paths(text) {
        let mut rest = path;
        let mut up = 0;
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, up) = (above, up + 1);
        }
        let Some(names) = rest.strip_prefix("crate::").or_else(|| (up == depth).then_some(rest)) else {
            continue;
        };
        let line = text[..at].matches('\n').count() + 1;
        let mut heads: Vec<_> = expand(names).into_iter().map(|path| path[0]).collect();
        heads.dedup();
        found.extend(heads.into_iter().map(|name| (line, name)));
    }
    found
}

/// Returns a file's text without the tests at its end.
pub(super) fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |tests| &text[..tests])
}

/// Returns each path that begins with `crate::` or `super::`, with its place, outside of comments.
pub(super) fn paths(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_first =
        |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric() || "_:$".contains(before));
    let is_code = |at: usize| !text[text[..at].rfind('\n').map_or(0, |end| end + 1)..at].contains("//");
    let starts = text.match_indices("crate::").chain(text.match_indices("super::"));
    starts.map(|(at, _)| at).filter(move |at| is_first(*at) && is_code(*at)).map(|at| (at, &text[at..]))
}

/// Returns the names of a path, or of each path of its groups in braces.
pub(super) fn expand(path: &str) -> Vec<Vec<&str>> {
    let path = path.trim_start();
    if let Some(group) = path.strip_prefix('{') {
        return items(group).into_iter().flat_map(expand).collect();
    }
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    match rest.strip_prefix("::") {
        Some(rest) => expand(rest).into_iter().map(|names| [&[name], &names[..]].concat()).collect(),
        None => vec![vec![name]],
    }
}

/// Returns the items of a group, which begins after its brace.
fn items(group: &str) -> Vec<&str> {
    let (mut items, mut deep, mut begin) = (Vec::new(), 0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => deep += 1,
            '}' if deep == 0 => {
                items.push(&group[begin..at]);
                break;
            }
            '}' => deep -= 1,
            ',' if deep == 0 => {
                items.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    items.retain(|item| !item.trim().is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::{Crate, Text, check, imports};

    const LAYERS: &[&[&str]] = &[&["base"], &["flow"], &["admin", "rpc"]];

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let text =
            |(path, text): &(&str, &str)| Text { path: format!("c/src/{path}"), text: (*text).to_owned() };
        let files: Vec<_> = files.iter().map(text).collect();
        check(&files, &[Crate { root: "c/src/", layers: LAYERS }])
    }

    #[test]
    fn only_layers_below_may_be_imported() {
        let down = ("admin/mod.rs", "use crate::flow::serve;\nuse crate::base::{clock, error};\n");
        assert!(problems(&[down, ("lib.rs", "pub use admin::x;")]).is_empty());
        for (path, text, from, to, line) in [
            ("flow/serve.rs", "use crate::admin::page;\n", "flow", "admin", 1),
            ("base/clock.rs", "\nuse crate::{base::error, flow::{a, b}};\n", "base", "flow", 2),
            ("base/clock.rs", "fn f() {\n    super::super::rpc::go();\n}\n", "base", "rpc", 2),
            ("admin/page.rs", "use crate::rpc::page;\n", "admin", "rpc", 1),
        ] {
            let expected =
                format!("c/src/{from} may not import `{to}`, which is no layer below: c/src/{path}:{line}");
            assert_eq!(problems(&[(path, text)]), [expected]);
        }
    }

    #[test]
    fn a_cycle_of_two_folders_is_a_problem() {
        let files = [("base/a.rs", "use crate::flow::b::B;\n"), ("flow/b.rs", "use crate::base::a::A;\n")];
        assert_eq!(problems(&files).len(), 1);
    }

    #[test]
    fn comments_and_tests_may_name_anything() {
        let text = "//! See [`crate::admin`].\nfn f() {} // crate::rpc\n#[cfg(test)]\nmod tests {\n    use crate::admin::X;\n}\n";
        assert!(problems(&[("base/a.rs", text)]).is_empty());
    }

    #[test]
    fn modules_without_a_layer_are_found() {
        assert_eq!(problems(&[("new/a.rs", "")]), ["c/src/new/a.rs: `new` has no layer in tidy's table"]);
        let root = problems(&[("flow/a.rs", "use crate::Error;\n")]);
        assert_eq!(root, ["c/src/flow/a.rs:1: imports `Error` of the crate's root, not of its own folder"]);
    }

    #[test]
    fn imports_are_found_wherever_they_stand() {
        let text =
            "use crate::{\n    a::{b, c},\n    d,\n};\npub(crate) use super::e;\nlet x = crate::f::G;\n";
        assert_eq!(imports(text, 1), [(1, "a"), (1, "d"), (6, "f"), (5, "e")]);
    }
}
