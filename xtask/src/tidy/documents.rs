//! Checks of documents: their links have targets, and the changelog mentions the version.

use super::Text;

/// Returns relative links in Markdown whose file does not exist; `exists` is called with paths from the root.
pub(super) fn links(files: &[Text], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, target) in targets(&file.text) {
            match resolve(&file.path, target) {
                Some(path) if exists(&path) => {}
                _ => problems.push(format!("{}:{number}: link to nothing: {target}", file.path)),
            }
        }
    }
    problems
}

/// Returns each local link's line number and target, outside of code blocks.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for (at, opening) in line.match_indices("](") {
            let rest = &line[at + opening.len()..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !path.is_empty() && !elsewhere {
                found.push((number + 1, path));
            }
        }
    }
    found
}

/// Returns the path from the root of the target of a link in `from`; `None` if it is outside of the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

/// Documents that new engineers read first, with their maximum sizes in bytes.
pub(super) const SIZES: &[(&str, usize)] = &[("README.md", 10_000), ("ARCHITECTURE.md", 22_000)];

/// Returns documents that exceed their limits.
pub(super) fn sizes(files: &[Text], limits: &[(&str, usize)]) -> Vec<String> {
    let of = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.len());
    let too_long = limits.iter().filter_map(|&(path, limit)| {
        let bytes = of(path)?;
        (bytes > limit).then(|| format!("{path}: {bytes} bytes, over {limit}; move details to docs/"))
    });
    too_long.collect()
}

/// The page whose names are checked.
const PAGE: &str = "ARCHITECTURE.md";

/// Returns the words in backticks on that page, with line numbers.
fn in_backticks(files: &[Text]) -> impl Iterator<Item = (usize, &str)> {
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| file.text.as_str());
    page.lines()
        .enumerate()
        .flat_map(|(at, line)| line.split('`').skip(1).step_by(2).map(move |word| (at + 1, word)))
}

/// Returns tests that ARCHITECTURE.md names and that do not exist. A long name in backticks counts as the name of a
/// test.
pub(super) fn tests(files: &[Text]) -> Vec<String> {
    let is_test =
        |word: &&str| word.matches('_').count() >= 4 && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let exists = |name: &str| {
        let function = format!("fn {name}(");
        files.iter().any(|file| file.path.ends_with(".rs") && file.text.contains(&function))
    };
    let missing = in_backticks(files).filter(|(_, word)| is_test(word) && !exists(word));
    missing.map(|(line, name)| format!("{PAGE}:{line}: no test has the name {name}")).collect()
}

/// Returns source files that ARCHITECTURE.md names in backticks and that do not exist. A name omits `crates/` and
/// `src/` and may begin anywhere below the crate; braces stand for several files.
pub(super) fn source_files(files: &[Text]) -> Vec<String> {
    let short = |path: &str| path.trim_start_matches("crates/").replace("src/", "");
    let known: Vec<_> = files.iter().map(|file| short(&file.path)).collect();
    let exists = |name: &String| {
        let is_below = |path: &String| path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
        known.iter().any(|path| path == name || is_below(path))
    };
    let named = in_backticks(files).filter(|(_, word)| word.ends_with(".rs") && !word.contains('*'));
    let each =
        named.flat_map(|(line, word)| alternatives(&short(word)).into_iter().map(move |name| (line, name)));
    let missing = each.filter(|(_, name)| !exists(name));
    missing.map(|(line, name)| format!("{PAGE}:{line}: no source file has the name {name}")).collect()
}

/// Returns the names that a name with `{a,b}` stands for.
fn alternatives(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        None => vec![name.to_owned()],
        Some((before, (among, after))) => {
            among.split(',').map(|one| [before, one.trim(), after].concat()).collect()
        }
    }
}

/// Returns a problem if the changelog does not mention `version`.
pub(super) fn changelog(files: &[Text], version: &str) -> Option<String> {
    let known = files.iter().any(|file| file.path == "CHANGELOG.md" && file.text.contains(version));
    (!known).then(|| format!("CHANGELOG.md: does not mention version {version}"))
}

#[cfg(test)]
mod tests {
    use super::{Text, changelog, links};

    fn file(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_test_that_is_named_has_to_exist() {
        let page = file("ARCHITECTURE.md", "| a | `a_page_keeps_its_limit` |\n`too_few` `it_is_not_a_test`");
        let files = [page, file("a.rs", "#[test]\nfn a_page_keeps_its_limit() {}")];
        assert_eq!(super::tests(&files), ["ARCHITECTURE.md:2: no test has the name it_is_not_a_test"]);
    }

    #[test]
    fn a_source_file_that_is_named_has_to_exist() {
        let page = "`proxy/flow/{serve,gone}.rs` and `serve.rs`\n`tests/cli.rs`, `flow/`, `erve.rs`";
        let paths = ["crates/proxy/src/flow/serve.rs", "tests/cli.rs"].map(|path| file(path, ""));
        let files = [&[file("ARCHITECTURE.md", page)][..], &paths[..]].concat();
        let told =
            ["1: no source file has the name proxy/flow/gone.rs", "2: no source file has the name erve.rs"];
        assert_eq!(super::source_files(&files), told.map(|end| format!("ARCHITECTURE.md:{end}")));
    }

    #[test]
    fn a_document_over_its_size_is_reported() {
        let files = [Text { path: "README.md".into(), text: "12345".into() }];
        assert_eq!(
            super::sizes(&files, &[("README.md", 4)]),
            ["README.md: 5 bytes, over 4; move details to docs/"]
        );
        assert!(super::sizes(&files, &[("README.md", 5), ("absent.md", 1)]).is_empty());
    }

    #[test]
    fn a_link_leads_to_a_file_or_out() {
        let exists = |path: &str| ["README.md", "docs/a.md", "docs"].contains(&path);
        for (text, broken) in [
            ("[a](a.md) and [up](../README.md)", None),
            ("[part](a.md#part), [here](#here), [folder](.)", None),
            ("[web](https://example.org/x) [mail](mailto:a@b)", None),
            ("```\n[a](gone.md)\n```", None),
            ("text\n[a](gone.md)", Some("docs/b.md:2: link to nothing: gone.md")),
            ("[a](a.md) [b](gone.md \"title\")", Some("docs/b.md:1: link to nothing: gone.md")),
            ("[a](../../outside.md)", Some("docs/b.md:1: link to nothing: ../../outside.md")),
        ] {
            let problems = links(&[file("docs/b.md", text)], &exists);
            assert_eq!(problems, Vec::from_iter(broken), "{text}");
        }
    }

    #[test]
    fn the_changelog_mentions_the_version() {
        let files = [file("CHANGELOG.md", "## 1.2.3\n")];
        assert_eq!(changelog(&files, "1.2.3"), None);
        assert_eq!(changelog(&files, "1.2.4").unwrap(), "CHANGELOG.md: does not mention version 1.2.4");
        assert!(changelog(&[], "1.2.3").is_some());
    }
}
