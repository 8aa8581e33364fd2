//! The fuzz targets, the locations of their inputs, and the summary of a run.

use crate::{args, root};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Returns the targets in `only`, separated by commas; all targets if it is `None`. Fails on a name that belongs to no
/// target.
pub(super) fn chosen(only: Option<&str>) -> Result<Vec<String>> {
    let all = all()?;
    let Some(only) = only else { return Ok(all) };
    let known: Vec<_> = all.iter().map(String::as_str).collect();
    only.split(',')
        .map(|name| match known.contains(&name) {
            true => Ok(name.to_owned()),
            false => Err(args::unknown("fuzz target", name, &known)),
        })
        .collect()
}

/// Returns the names of all targets: their files, without the ending.
fn all() -> Result<Vec<String>> {
    let folder = root().join("fuzz/targets");
    let files = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        let path = file.with_context(|| format!("cannot read {}", folder.display()))?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Returns the inputs of a target that are under version control.
pub(super) fn corpus(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(target)
}

/// Returns the number of inputs that a run tried, and the number that it keeps, from the last status line of libFuzzer.
pub(super) fn summary(said: &str) -> String {
    let last = said.lines().rfind(|line| line.starts_with('#') && line.contains("corp:")).unwrap_or_default();
    let words: Vec<_> = last.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|it| *it == word).and_then(|at| words.get(at + 1));
    let tried = words.first().map_or("0", |word| word.trim_start_matches('#'));
    let (edges, kept) = (after("cov:").unwrap_or(&"0"), after("corp:").unwrap_or(&"0"));
    let kept = kept.split('/').next().unwrap_or_default();
    format!("{tried:>9} inputs tried, {edges:>5} edges reached by {kept} of them")
}

#[cfg(test)]
mod tests {
    use super::{chosen, corpus, summary};

    #[test]
    fn each_target_is_a_program_with_a_corpus() {
        let manifest = crate::read(&crate::root().join("fuzz/Cargo.toml")).unwrap();
        for target in chosen(None).unwrap() {
            let program = format!("name = \"fuzz_{target}\"\npath = \"targets/{target}.rs\"");
            assert!(manifest.contains(&program), "fuzz/Cargo.toml does not name {target}");
            assert!(corpus(&target).is_dir(), "{target} has no folder in fuzz/corpus");
        }
    }

    #[test]
    fn a_misspelt_target_gets_the_nearest() {
        let error = chosen(Some("proxy_hed")).unwrap_err();
        assert_eq!(error.to_string(), "unknown fuzz target `proxy_hed`; did you mean `proxy_head`?");
    }

    #[test]
    fn the_last_line_is_summed_up() {
        let said = "INFO: x\n#2\tINITED cov: 1 ft: 1 corp: 1/1b exec/s: 0\n#812\tDONE   cov: 30 ft: 58 corp: 33/18b lim: 4\nDone 812";
        assert_eq!(summary(said), "      812 inputs tried,    30 edges reached by 33 of them");
    }
}
