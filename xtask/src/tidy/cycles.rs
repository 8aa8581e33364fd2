//! Import cycles: of the files and folders in one folder, none may import another that imports it, directly or through
//! others. So each can be read after those that it imports.

use std::collections::{BTreeMap, BTreeSet};

use super::Text;
use super::layers::{expand, paths, without_tests};

/// A crate with the strictness of its check.
pub(super) struct Root {
    /// The folder of its sources, with a slash at the end.
    sources: &'static str,
    /// Whether a folder's own module counts among its files. It declares the others, so they may import nothing from
    /// it.
    with_own: bool,
}

const fn root(sources: &'static str) -> Root {
    Root { sources, with_own: false }
}

pub(super) const ROOTS: &[Root] = &[
    Root { sources: "src/", with_own: true },
    root("crates/cli/src/"),
    root("crates/cluster/src/"),
    root("crates/disk/src/"),
    root("crates/evict/src/"),
    root("crates/experiment/src/"),
    root("crates/http2/src/"),
    root("crates/lab/src/"),
    root("crates/load/src/"),
    root("crates/proxy/src/"),
    root("crates/predict/src/"),
    root("crates/rpc/src/"),
    root("crates/rules/src/"),
    root("crates/semantics/src/"),
    root("crates/server/src/"),
    root("crates/stats/src/"),
    root("crates/store/src/"),
    root("crates/tags/src/"),
    root("crates/testkit/src/"),
    root("crates/tower/src/"),
    root("crates/transport/src/"),
    root("xtask/src/"),
];

/// The name of a folder's own module among its files. It declares the others, so it comes after them.
const OWN: &str = "mod";

/// Returns one cycle of each folder that has any.
pub(super) fn check(files: &[Text], roots: &[Root]) -> Vec<String> {
    roots.iter().flat_map(|root| Sources::new(files, root.sources).cycles(root)).collect()
}

/// Imports between the entries of a folder, with the place of the first of each kind.
type Graph<'t> = BTreeMap<&'t str, BTreeMap<&'t str, String>>;

/// The files of a crate by their modules, with the names that each re-exports; `Vec::new()` is the crate's root.
struct Sources<'t>(BTreeMap<Vec<&'t str>, (&'t Text, Vec<Reexport<'t>>)>);

/// A name that a module re-exports, and its path as written.
struct Reexport<'t> {
    name: &'t str,
    path: Vec<&'t str>,
}

/// The most re-exports of one name that are followed.
const FOLLOWED: usize = 8;

impl<'t> Sources<'t> {
    fn new(files: &'t [Text], root: &str) -> Self {
        let module = |file: &'t Text| {
            let path = file.path.strip_prefix(root)?.strip_suffix(".rs")?;
            let names = path.split('/').filter(|name| !matches!(*name, OWN | "main" | "lib")).collect();
            (!path.ends_with("tests")).then(|| (names, (file, reexports(without_tests(&file.text)))))
        };
        Self(files.iter().filter_map(module).collect())
    }

    /// Returns one cycle of each folder that has any.
    fn cycles(&self, Root { sources: root, with_own }: &Root) -> Vec<String> {
        let mut folders: BTreeMap<Vec<&str>, Graph<'_>> = BTreeMap::new();
        let mut add = |from: &[&'t str], to: &[&'t str], place: String| {
            let (from, to) = (self.entries(from), self.entries(to));
            let Some(at) = from.iter().zip(&to).position(|(one, other)| one != other) else { return };
            if !with_own && [from[at], to[at]].contains(&OWN) {
                return;
            }
            let graph = folders.entry(from[..at].to_vec()).or_default();
            graph.entry(from[at]).or_default().entry(to[at]).or_insert(place);
        };
        for (module, (file, _)) in &self.0 {
            if let Some((_, folder)) = module.split_last() {
                add(folder, module, format!("{root}{} declares it", folder.join("/")));
            }
            for (line, import) in self.imports(module, &file.text) {
                add(module, import, format!("{}:{line}", file.path));
            }
        }
        let told = |(folder, graph): (&Vec<&str>, &Graph<'_>)| {
            let cycle = cycle(graph)?;
            let places: Vec<_> = cycle.windows(2).map(|pair| graph[pair[0]][pair[1]].as_str()).collect();
            let folder = format!("{root}{}", folder.join("/"));
            Some(format!("{folder}: import cycle {} ({})", cycle.join(" -> "), places.join(", ")))
        };
        folders.iter().filter_map(told).collect()
    }

    /// Returns a module's place: the folders down to it, and its name in the last, which is [`OWN`] for a folder's own
    /// module.
    fn entries(&self, module: &[&'t str]) -> Vec<&'t str> {
        let is_folder = self.0.keys().any(|other| other.len() > module.len() && other.starts_with(module));
        module.iter().copied().chain(is_folder.then_some(OWN)).collect()
    }

    /// Returns the modules of the crate that `module` imports, with line numbers.
    fn imports(&self, module: &[&'t str], text: &'t str) -> Vec<(usize, &[&'t str])> {
        let text = without_tests(text);
        let mut found = Vec::new();
        for (at, path) in paths(text) {
            let (mut rest, mut base) = (path, module);
            while let Some(above) = rest.strip_prefix("super::") {
                (rest, base) = (above, base.split_last().map_or(base, |(_, above)| above));
            }
            if let Some(names) = rest.strip_prefix("crate::") {
                (rest, base) = (names, &[]);
            }
            let line = text[..at].matches('\n').count() + 1;
            let imported = expand(rest).into_iter().map(|names| self.module(&[base, &names].concat()));
            found.extend(imported.map(|module| (line, module)));
        }
        found
    }

    /// Returns the module that a path leads to or into, beyond re-exports.
    fn module(&self, path: &[&'t str]) -> &[&'t str] {
        let mut path = path.to_vec();
        for _ in 0..FOLLOWED {
            let Some((module, next)) = self.reexported(&path) else { break };
            path = [module, &next].concat();
        }
        self.longest(&path).map_or(&[], |(module, _)| module)
    }

    /// Returns the longest known module at the beginning of a path.
    fn longest(&self, path: &[&'t str]) -> Option<(&[&'t str], &[Reexport<'t>])> {
        let known = (0..=path.len()).rev().find_map(|len| self.0.get_key_value(&path[..len]));
        known.map(|(module, (_, reexports))| (module.as_slice(), reexports.as_slice()))
    }

    /// Returns the module relative to which a path goes on, and its rest, if the path names a re-export.
    fn reexported(&self, path: &[&'t str]) -> Option<(&[&'t str], Vec<&'t str>)> {
        let (module, reexports) = self.longest(path)?;
        let name = path.get(module.len())?;
        let (first, rest) = reexports.iter().find(|reexport| reexport.name == *name)?.path.split_first()?;
        match *first {
            "crate" => Some((&[], rest.to_vec())),
            "super" => Some((module.split_last()?.1, rest.to_vec())),
            "self" => Some((module, rest.to_vec())),
            _ => Some((module, [&[*first], rest].concat())),
        }
    }
}

/// Returns the names that a module re-exports.
fn reexports(text: &str) -> Vec<Reexport<'_>> {
    let is_public = |line: &str| line.trim_start().starts_with("pub");
    let uses = text.match_indices("use ").filter(|(at, _)| {
        let before = &text[text[..*at].rfind('\n').map_or(0, |end| end + 1)..*at];
        is_public(before) && !before.contains("//")
    });
    let paths = uses.flat_map(|(at, word)| expand(&text[at + word.len()..]));
    paths.filter_map(|path| Some(Reexport { name: path.last()?, path })).collect()
}

/// Returns the entries of a cycle, with the first one repeated at the end.
fn cycle<'t>(graph: &Graph<'t>) -> Option<Vec<&'t str>> {
    let mut left: BTreeSet<&'t str> = graph.keys().copied().collect();
    while let Some(end) = left.iter().find(|entry| next(graph, entry, &left).is_none()).copied() {
        left.remove(end);
    }
    let mut walk = vec![*left.first()?];
    loop {
        let next = next(graph, walk[walk.len() - 1], &left)?;
        if let Some(begin) = walk.iter().position(|entry| *entry == next) {
            return Some([&walk[begin..], &[next]].concat());
        }
        walk.push(next);
    }
}

/// Returns the first of `left` that `entry` imports.
fn next<'t>(graph: &Graph<'t>, entry: &str, left: &BTreeSet<&'t str>) -> Option<&'t str> {
    graph[entry].keys().find(|to| left.contains(*to)).copied()
}

#[cfg(test)]
mod tests {
    use super::{Root, Text, check, expand};

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        problems_of(true, files)
    }

    fn problems_of(with_own: bool, files: &[(&str, &str)]) -> Vec<String> {
        let text =
            |(path, text): &(&str, &str)| Text { path: format!("c/src/{path}"), text: (*text).to_owned() };
        let files: Vec<_> = files.iter().map(text).collect();
        check(&files, &[Root { sources: "c/src/", with_own }])
    }

    #[test]
    fn files_that_import_each_other_are_a_cycle() {
        let one = ("a/b.rs", "use super::c::C;\nuse crate::d::{self, e::E};\n");
        let rest = [("main.rs", ""), ("a/mod.rs", ""), ("d/mod.rs", ""), ("d/e.rs", "")];
        let with = |other| problems(&[&[one, ("a/c.rs", other)], &rest[..]].concat());
        assert!(with("use crate::d::e;\n").is_empty());
        let expected = "c/src/a: import cycle b -> c -> b (c/src/a/b.rs:1, c/src/a/c.rs:2)";
        assert_eq!(with("\nuse crate::{\n    d,\n    a::b::B,\n};\n"), [expected]);
    }

    #[test]
    fn folders_importing_each_other_form_a_cycle_even_without_file_cycles() {
        let files = [
            ("a/one.rs", "use crate::b::two::T;\n"),
            ("b/two.rs", ""),
            ("b/one.rs", "use crate::a::two::T;\n"),
            ("a/two.rs", ""),
        ];
        assert_eq!(
            problems(&files),
            ["c/src/: import cycle a -> b -> a (c/src/a/one.rs:1, c/src/b/one.rs:1)"]
        );
    }

    #[test]
    fn a_file_that_imports_from_its_folders_own_module_is_a_cycle() {
        let files = [
            ("a/mod.rs", "pub(crate) struct A;\n"),
            ("a/b.rs", "use super::A;\n"),
            ("a/c.rs", "use super::b::B;\n"),
        ];
        assert_eq!(
            problems(&files),
            ["c/src/a: import cycle b -> mod -> b (c/src/a/b.rs:1, c/src/a declares it)"]
        );
        let root = [("main.rs", "struct A;\n"), ("b.rs", "use crate::A;\n")];
        assert_eq!(
            problems(&root),
            ["c/src/: import cycle b -> mod -> b (c/src/b.rs:1, c/src/ declares it)"]
        );
    }

    #[test]
    fn where_own_modules_do_not_count_only_files_side_by_side_do() {
        let own = [("a/mod.rs", "pub(crate) struct A;\n"), ("a/b.rs", "use super::A;\n")];
        assert!(problems_of(false, &own).is_empty());
        let cycle = [("a/b.rs", "use super::c::C;\n"), ("a/c.rs", "use super::b::B;\n")];
        assert_eq!(problems_of(false, &cycle).len(), 1);
    }

    #[test]
    fn a_reexported_name_leads_to_the_file_that_defines_it() {
        let files = [
            ("main.rs", "pub use a::A;\npub(crate) use b::{C, B};\n"),
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "use crate::A;\n"),
        ];
        assert_eq!(problems(&files), ["c/src/: import cycle a -> b -> a (c/src/a.rs:1, c/src/b.rs:1)"]);
    }

    #[test]
    fn comments_and_tests_may_name_anything() {
        let text = "//! See [`super::b`].\nfn f() {} // crate::b\n#[cfg(test)]\nmod tests {\n    use crate::b::X;\n}\n";
        let tests = ("tests.rs", "use super::b::X;\n");
        assert!(
            problems(&[("a.rs", text), ("b.rs", "use crate::a::A;\n"), tests, ("main.rs", "")]).is_empty()
        );
    }

    #[test]
    fn groups_are_each_of_their_paths() {
        assert_eq!(
            expand("a::{b::{c, d},\n e,}; f"),
            [vec!["a", "b", "c"], vec!["a", "b", "d"], vec!["a", "e"]]
        );
        assert_eq!(expand("a::b(c)"), [["a", "b"]]);
    }
}
