//! Checks that a policy is a file and two lines, as `policies/mod.rs` and CONTRIBUTING.md say; and likewise a filter.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use larder_evict::{FILTERS, Listing, POLICIES};

/// The other places that may name a type of a list, in addition to its file and the list.
const USES: &[(&str, &str)] = &[
    // The defaults.
    ("Adaptive", "spec.rs"),
    ("Frequency", "registry.rs"),
    // Policies that are built from others.
    ("Lru", "policies/tinylfu.rs"),
    ("Frequency", "policies/tinylfu.rs"),
];

/// Returns the files below `folder` with their text, by relative path.
fn sources(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = entry.path();
            if entry.file_type().expect("a type").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("text");
                found.insert(path.strip_prefix(folder).expect("below it").to_owned(), text);
            }
        }
    }
    found
}

/// Returns the code of `text`, without comments and tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default())
}

/// Returns the words of a line, without strings.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let bare = line.split('"').step_by(2);
    bare.flat_map(|part| part.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
}

/// Returns the module and type in the line of a list: `"name" module::Type "source";`.
fn listed<'a>(list: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let start = format!("\"{name}\" ");
    let lines = list.lines().filter_map(|line| line.trim_start().strip_prefix(&start));
    lines.filter_map(|line| line.split(' ').next()?.split_once("::")).collect()
}

/// Returns the other places in the sources that name a type from the list of `folder`.
fn elsewhere(sources: &BTreeMap<PathBuf, String>, folder: &str, listings: &[Listing]) -> Vec<String> {
    let list_file = Path::new(folder).join("mod.rs");
    let mut complaints = Vec::new();
    for Listing { name, .. } in listings {
        let [(module, of_type)] = listed(&sources[&list_file], name)[..] else {
            complaints.push(format!("'{name}' has not one line in {}", list_file.display()));
            continue;
        };
        let own = Path::new(folder).join(format!("{module}.rs"));
        for (path, text) in sources.iter().filter(|(path, _)| **path != own && **path != list_file) {
            let is_known = USES.iter().any(|use_| *use_ == (of_type, path.to_str().expect("a plain name")));
            if !is_known && code(text).flat_map(words).any(|word| word == of_type) {
                complaints.push(format!("{} names {of_type}", path.display()));
            }
        }
        let lines = sources[&list_file].lines().filter(|line| *line == format!("mod {module};")).count();
        let mentions =
            sources[&list_file].lines().filter(|line| words(line).any(|word| word == of_type)).count();
        if (lines, mentions) != (1, 1) {
            complaints.push(format!("{} has {lines} + {mentions} lines for {of_type}", list_file.display()));
        }
    }
    complaints
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn a_policy_or_filter_is_a_file_and_two_lines() {
    let sources = sources(&src());
    assert_eq!(elsewhere(&sources, "policies", POLICIES), [""; 0]);
    assert_eq!(elsewhere(&sources, "filters", FILTERS), [""; 0]);
}

#[test]
fn a_third_line_is_noticed() {
    let mut sources = sources(&src());
    sources.insert("help.rs".into(), "fn about() -> &'static str { Lirs::ABOUT }".into());
    assert_eq!(elsewhere(&sources, "policies", POLICIES), ["help.rs names Lirs"]);
    sources.remove(Path::new("help.rs"));
    let list = sources.get_mut(Path::new("policies/mod.rs")).unwrap();
    list.push_str("pub use lirs::LirsParams as Lirs;\n");
    assert_eq!(elsewhere(&sources, "policies", POLICIES), ["policies/mod.rs has 1 + 2 lines for Lirs"]);
}

/// Other crates must iterate the lists.
#[test]
fn no_other_source_lists_the_policies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["src", "crates", "xtask/src"] {
        for (path, text) in sources(&root.join(folder)) {
            let is_test =
                path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "target");
            let is_named = |name: &str| code(&text).any(|line| line.contains(&format!("\"{name}\"")));
            let named = POLICIES.iter().filter(|policy| is_named(policy.name)).count();
            let is_list = path.ends_with("evict/src/policies/mod.rs");
            assert!(
                is_test || is_list || named <= POLICIES.len() / 2,
                "{folder}/{} names {named}",
                path.display()
            );
        }
    }
}
