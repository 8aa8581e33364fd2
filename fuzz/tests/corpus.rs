//! The inputs under version control, and random changes of them, without the coverage that guides `cargo x fuzz`: the targets
//! are built with all other tests, from the same libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;

/// The number of changed inputs of a target.
const CHANGED: usize = 2_000;

/// Replaces, inserts, repeats or removes some bytes, or goes on as another input ends.
fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    let from = random.usize(..=input.len());
    let to = random.usize(from..=input.len().min(from + 8));
    match random.u8(..5) {
        0 => input[from..to].iter_mut().for_each(|byte| *byte = random.u8(..)),
        1 => drop(input.splice(from..from, std::iter::repeat_n(random.u8(..), 1 + to - from))),
        2 => input.extend_from_within(from..),
        3 => drop(input.drain(from..to)),
        _ => drop(input.splice(from.., other[other.len().min(from)..].iter().copied())),
    }
}

/// Runs the target of a folder of inputs.
fn run(folder: &Path, scratch: &Path, random: &mut Rng) {
    let name = folder.file_name().expect("a name").display().to_string();
    let files = folder.read_dir().expect("inputs").map(|file| file.expect("an input").path());
    let inputs: Vec<Vec<u8>> = files.map(|file: PathBuf| fs::read(file).expect("an input")).collect();
    let changed = scratch.join(&name);
    fs::create_dir(&changed).expect("a folder");
    for number in 0..CHANGED {
        let mut pick = || &inputs[random.usize(..inputs.len())];
        let (mut input, other) = (pick().clone(), pick());
        (0..random.u8(1..5)).for_each(|_| change(&mut input, other, random));
        fs::write(changed.join(number.to_string()), input).expect("written");
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_fuzz_config")).parent().expect("a folder");
    let mut target = Command::new(programs.join(format!("fuzz_{name}")));
    target.args(["-runs=0", "-timeout=60"]).arg(folder).arg(&changed).current_dir(scratch);
    let output = target.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let runs = said.rsplit("Done ").next().and_then(|rest| rest.split(' ').next()?.parse().ok());
    // It leaves out empty inputs.
    assert!(output.status.success() && runs > Some(CHANGED / 2), "{name}: {said}");
}

#[test]
fn each_target_passes_its_corpus_and_changes_of_it() {
    let (mut random, scratch) =
        (Rng::with_seed(larder_testkit::seed()), tempfile::tempdir().expect("a folder"));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in corpus.read_dir().expect("the corpus") {
        run(&folder.expect("a folder").path(), scratch.path(), &mut random);
    }
}
