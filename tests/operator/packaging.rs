//! The files that packages install: the manual, the completions, the unit for systemd and the first config.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use larder_testkit::{stderr, stdout};

const LARDER: &str = env!("CARGO_BIN_EXE_larder");

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name)
}

fn run(program: &str, words: &[&str]) -> Output {
    let found = larder_testkit::programs::find(program).unwrap_or_else(|| program.into());
    Command::new(found).args(words).output().unwrap_or_else(|why| panic!("{program}: {why}"))
}

/// Returns the text of a page without the letters that a printer prints over, for bold ones.
fn without_overprints(page: &str) -> String {
    page.chars().fold(String::new(), |mut text, letter| {
        match letter {
            '\u{8}' => {
                text.pop();
            }
            letter => text.push(letter),
        }
        text
    })
}

#[test]
fn a_strict_reader_finds_nothing_wrong_with_the_manual() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let said = run(LARDER, &["man", &root]);
    assert!(said.status.success(), "{}", stderr(&said));
    let mut pages = Vec::new();
    for section in ["man1", "man5"] {
        let files = fs::read_dir(folder.path().join(section)).expect("a section");
        pages.extend(files.map(|file| file.expect("a page").path().display().to_string()));
    }
    assert!(pages.len() > 20, "{pages:?}");
    for page in &pages {
        let checked = run("mandoc", &["-Tlint", "-Wwarning", page]);
        assert!(checked.status.success(), "{}", stdout(&checked));
    }
    let shown =
        without_overprints(&stdout(&run("mandoc", &["-Tascii", &format!("{root}/man1/larder-purge.1")])));
    for part in ["LARDER-PURGE(1)", "\nSYNOPSIS", "\nOPTIONS", "\nEXAMPLES", "\nSEE ALSO"] {
        assert!(shown.contains(part), "no {part} in\n{shown}");
    }
}

#[test]
fn completions_are_scripts_that_their_shells_accept() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(LARDER, &["completions", shell]));
        for word in ["simulate", "access-log-file"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let file = folder.path().join(shell);
        fs::write(&file, script).expect("written");
        let checked = run(shell, &["-n", &file.display().to_string()]);
        assert!(checked.status.success(), "{shell}: {}", stderr(&checked));
    }
}

#[test]
fn the_config_of_the_package_is_accepted() {
    let config = packaging("larder.toml").display().to_string();
    let said = run(LARDER, &["check", "--config", &config]);
    assert!(said.status.success() && stderr(&said).is_empty(), "{}", stderr(&said));
}

#[test]
fn the_service_is_exposed_at_most_2_of_10() {
    let unit = packaging("larder.service").display().to_string();
    let rated =
        run("systemd-analyze", &["security", "--no-pager", "--offline=true", "--threshold=20", &unit]);
    assert!(rated.status.success(), "{}{}", stdout(&rated), stderr(&rated));
    let rating = stdout(&rated);
    assert!(rating.contains("Overall exposure level for larder.service: "), "{rating}");
}

#[test]
fn the_profile_of_the_service_is_one_for_apparmor() {
    let profile = packaging("larder.apparmor").display().to_string();
    // Neither loaded nor cached: the kernel need not have AppArmor.
    let compiled = run("apparmor_parser", &["--skip-kernel-load", "--skip-cache", &profile]);
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    let named = run("apparmor_parser", &["--skip-kernel-load", "--skip-cache", "--names", &profile]);
    assert_eq!(stdout(&named), "larder\n", "{}", stderr(&named));
}
