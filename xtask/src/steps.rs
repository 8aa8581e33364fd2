//! `cargo x test`: the steps between a change and its merge, each with its time. It stops at the first step that fails.

use crate::{cargo, dist, go, h2spec, javascript, packages, python, test_programs, tidy};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::{Duration, Instant};

/// A step: its name, its function, and the remedy for a failure.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
    remedy: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "packages",
        run: packages,
        remedy: "install them as it says, then run `cargo x test` again",
    },
    Step { name: "formatting", run: formatting, remedy: "run `cargo fmt`" },
    Step {
        name: "tidy",
        run: tidy::run,
        remedy: "mend the lines above; `cargo x tidy` runs this step alone",
    },
    Step {
        name: "build",
        run: build,
        remedy: "mend what rustc, clippy or apt-get says above; warnings are errors here",
    },
    Step { name: "tests", run: tests, remedy: "run the failing test alone: `cargo test -p CRATE NAME`" },
    Step {
        name: "dist",
        run: dist::in_test,
        remedy: "repeat it: `cargo x test`; the check is xtask/src/dist/check.sh",
    },
    Step { name: "h2spec", run: h2spec::in_test, remedy: "repeat it: `cargo x h2spec`" },
];

/// The time limit of all steps on two cores; a longer run causes a complaint.
const BUDGET: Duration = Duration::from_secs(20 * 60);

/// Runs every step in order. Errors: the error of the first step that fails, with its remedy.
pub(crate) fn test() -> Result<()> {
    run(STEPS)
}

/// Makes the browser of the dashboard's tests take its pictures, in every state of the page, and those of the
/// experiments' report. Fails if packages are missing, or the pictures cannot be taken.
pub(crate) fn pictures() -> Result<()> {
    install()?;
    // The tests of the experiments have no pictures, but their program is built for them.
    let tests = ["--test", "dashboard", "--test", "experiment", "--", "--ignored", "pictures"];
    run_cargo(&[&["test", "--quiet"][..], &ALL, &tests].concat())?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    println!(
        "docs/pictures has the pictures of the documentation, {target}/pictures those of every state to look at"
    );
    Ok(())
}

fn run(steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        let label = format!("[{}/{}] {}", number + 1, steps.len(), step.name);
        println!("{label}");
        let began = Instant::now();
        let result = (step.run)();
        let verdict = if result.is_ok() { "passed" } else { "failed" };
        println!("{label} {verdict} in {:.1} s", began.elapsed().as_secs_f64());
        result.with_context(|| format!("step `{}` failed; {}", step.name, step.remedy))?;
    }
    let took = start.elapsed();
    println!("all {} steps passed in {:.1} s", steps.len(), took.as_secs_f64());
    if took > BUDGET {
        println!("that is over the {} minutes that this may take", BUDGET.as_secs() / 60);
    }
    Ok(())
}

/// Fails if packages are missing that cannot be installed here. They are installed during the build, which needs none of them.
fn packages() -> Result<()> {
    packages::installer(&packages::missing(packages::FOR_TESTS)).map(drop)
}

fn install() -> Result<()> {
    packages::install(&packages::missing(packages::FOR_TESTS))?;
    go::for_tests()?;
    python::for_tests()?;
    javascript::for_tests()
}

fn formatting() -> Result<()> {
    run_cargo(&["fmt", "--all", "--check"])
}

/// The packages of tests, and the features that they are built with.
const ALL: [&str; 2] = ["--workspace", "--features=fuzz/fuzzer"];

/// Lints and compiles everything, and meanwhile installs what the tests need.
fn build() -> Result<()> {
    std::thread::scope(|scope| {
        let installation = scope.spawn(install);
        test_programs::build(&ALL)?;
        installation.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs the tests. They wait more than they compute, so more run in parallel than there are processors.
fn tests() -> Result<()> {
    let programs = test_programs::build(&ALL)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    test_programs::run(&programs, processors + 1)?;
    succeed(test_programs::linted_cargo().args(["test", "--quiet", "--doc"]).args(ALL))
}

fn run_cargo(arguments: &[&str]) -> Result<()> {
    succeed(cargo().args(arguments))
}

fn succeed(cargo: &mut Command) -> Result<()> {
    let status = cargo.status().context("cannot start cargo")?;
    if !status.success() {
        let arguments: Vec<_> = cargo.get_args().map(|word| word.to_string_lossy()).collect();
        bail!("`cargo {}`: {status}", arguments.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Step, run};
    use anyhow::bail;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_first_failure_stops_the_rest_and_says_what_to_do() {
        static RAN: AtomicU32 = AtomicU32::new(0);
        fn pass() -> anyhow::Result<()> {
            RAN.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        let steps = [
            Step { name: "one", run: pass, remedy: "" },
            Step { name: "two", run: || bail!("it broke"), remedy: "fix it" },
            Step { name: "three", run: pass, remedy: "" },
        ];
        let error = run(&steps).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `two` failed; fix it: it broke");
        assert_eq!(RAN.load(Ordering::Relaxed), 1);
    }
}
