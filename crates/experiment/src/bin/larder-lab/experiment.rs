//! `larder-lab experiment`: runs experiments, and writes the report.
//!
//! Measurements are written at once. So after an interruption or an error there is a report of the measurements so far,
//! and `--resume` continues from there.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Zoned;
use larder_cli::files::{unread, unwritten};
use larder_cli::numbers::whole;
use larder_cli::progress::Bar;
use larder_cli::{Failure, say, words};
use larder_experiment::experiments::{EXPERIMENTS, Experiment, check_python};
use larder_experiment::{
    Bench, Halt, Head, Journal, Part, Prices, Provenance, Scale, Size, SpentTime, Watch, write_report,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{LAB, prices};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder-lab experiment list
  larder-lab experiment thrift -o report --quick
      one experiment with all its figures, from few measurements
  larder-lab experiment all -o report
      all of them
  larder-lab experiment all -o report --resume
      continues where it was stopped
  larder-lab experiment prices > prices.toml
      the price table; edit it and pass --prices prices.toml

The report is DIR/report.html, a self-contained page. Beside it are the figures' numbers (CSV) and all measurements (JSON
lines). Each measured proxy is a separate larder serve on free ports of loopback.
Ctrl-C ends it with a report of the measurements so far and exits with 1; a second one stops at once.";

/// The arguments of `experiment`: the experiments to run, and the number of their measurements.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// An experiment, all, list, or prices
    #[arg(value_name = "NAME")]
    name: String,
    /// Directory for the report
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Make every figure from few measurements: about five minutes for all
    #[arg(long)]
    quick: bool,
    /// Send a few requests as a functional test: the numbers have no meaning
    #[arg(long, hide = true, conflicts_with = "quick")]
    smoke: bool,
    /// Begin although other programs use the processor: the report tells how much
    #[arg(long)]
    beside_load: bool,
    /// Seed of all random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Python for the comparison with asyncio, by default python3 or the system's; aiohttp is measured if installed
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Price table, as 'larder-lab experiment prices' prints it
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// The larder to measure [default: the one beside this program, or on the path]
    #[arg(long, value_name = "PROGRAM")]
    larder: Option<PathBuf>,
    /// Continue with the measurements in DIR
    #[arg(long)]
    resume: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ExperimentArgs) -> Result<(), Failure> {
    match args.name.as_str() {
        "list" => return show_list(),
        "prices" => return show_prices(),
        _ => {}
    }
    if let Some(python) = &args.python {
        check_python(python).map_err(|halt| Failure::Refused(halt.to_string()))?;
    }
    let chosen = chosen(&args.name).map_err(Failure::Refused)?;
    let directory = args.output.as_deref();
    let directory =
        directory.ok_or_else(|| Failure::Refused("name a folder for the report: --output DIR".to_owned()))?;
    let prices = prices::read(args.prices.as_deref()).map_err(Failure::Refused)?;
    let programs = Programs::find(args.larder.as_deref()).map_err(Failure::Refused)?;
    let stop = watch_for_interrupt().map_err(|error| Failure::Failed(error.to_string()))?;
    let journals =
        journals(args, directory, &chosen, &programs).map_err(|halt| Failure::Failed(halt.to_string()))?;
    if !args.beside_load && !args.smoke {
        check_load().map_err(Failure::Failed)?;
    }
    let begun = Instant::now();
    let estimate: Duration = chosen.iter().map(|experiment| experiment.estimate(args.size())).sum();
    eprintln!("{}: {}: about {}", LAB.name, names(&chosen), about(estimate));
    let (parts, halted) = measure(args, &programs, &chosen, journals, &prices, &stop);
    let size = args.size();
    let provenance = Provenance {
        commands: vec![env::args().collect::<Vec<_>>().join(" ")],
        scale: Scale { size, seed: args.seed },
        more: vec![("time", took(begun.elapsed(), estimate, args.resume))],
        date: Zoned::now().strftime("%-d %B %Y").to_string(),
    };
    if let Err(unwritten) = write_report(directory, &parts, &provenance) {
        // The first error is often the reason why no report can be written, and otherwise matters more.
        let first = halted.map(|halt| format!("{halt}; there is no report: ")).unwrap_or_default();
        return Err(Failure::Failed(format!("{first}{unwritten}")));
    }
    say(&format!("report in {}", directory.join("report.html").display()));
    match halted {
        None => Ok(()),
        Some(Halt::Stopped) => Err(Failure::Failed(
            "stopped; the report has the measurements so far, and --resume continues".to_owned(),
        )),
        Some(Halt::Failed(why)) => Err(Failure::Failed(why)),
    }
}

/// The time for which the load is watched before a run, and the load up to which it begins, in cores.
const WATCHED: Duration = Duration::from_secs(2);
const MOST_LOAD: f64 = 0.2;

/// Checks that this machine is idle, since other programs would be measured too.
fn check_load() -> Result<(), String> {
    let begun = SpentTime::now();
    thread::sleep(WATCHED);
    match begun.of_others() {
        load if load <= MOST_LOAD => Ok(()),
        load => {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            Err(format!(
                "other programs use {load:.1} of {cores} cores, and would be measured too; end them, or pass --beside-load"
            ))
        }
    }
}

/// Describes the duration of a run, for planning the next.
fn took(time: Duration, estimate: Duration, is_resumed: bool) -> String {
    let part = if is_resumed { ", for the rest of the run" } else { "" };
    format!("{} s{part}; the estimate for all was {} s", time.as_secs(), estimate.as_secs())
}

impl ExperimentArgs {
    fn size(&self) -> Size {
        match (self.smoke, self.quick) {
            (true, _) => Size::Smoke,
            (_, true) => Size::Quick,
            _ => Size::Full,
        }
    }
}

/// The programs that an experiment starts.
struct Programs {
    /// The measured one.
    larder: PathBuf,
    /// This program.
    lab: PathBuf,
}

impl Programs {
    /// Returns this program, and the given larder, or else the one beside this program, or else the one on the path.
    /// Fails if a program cannot be started.
    fn find(given: Option<&Path>) -> Result<Self, String> {
        let lab = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let beside = Some(lab.with_file_name("larder")).filter(|program| program.is_file());
        let larder = given.map(Path::to_owned).or(beside).unwrap_or_else(|| "larder".into());
        let mut version = Command::new(&larder);
        match version.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(_) => Ok(Self { larder, lab }),
            Err(error) => {
                Err(format!("cannot start '{}': {}; name it by --larder", larder.display(), unread(&error)))
            }
        }
    }
}

fn show_prices() -> Result<(), Failure> {
    say(prices::DEFAULT.trim_end());
    Ok(())
}

fn show_list() -> Result<(), Failure> {
    let widest = EXPERIMENTS.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for experiment in EXPERIMENTS {
        let [quick, full] = [Size::Quick, Size::Full].map(|size| about(experiment.estimate(size)));
        say(&format!("{:<widest$}  {} (quick: {quick}, full: {full})", experiment.name, experiment.title));
        say(&format!("{:<widest$}  {}", "", experiment.shows));
    }
    Ok(())
}

/// Returns the experiment of this name, or all for which this machine has the requirements.
fn chosen(name: &str) -> Result<Vec<&'static Experiment>, String> {
    if name == "all" {
        return Ok(EXPERIMENTS.iter().filter(|experiment| is_possible(experiment)).collect());
    }
    let known = || EXPERIMENTS.iter().map(|experiment| experiment.name);
    if let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) {
        let lacking = (experiment.missing)();
        return lacking.map_or_else(|| Ok(vec![experiment]), |what| Err(format!("{name}: {what}")));
    }
    let known: Vec<_> = ["all", "list", "prices"].into_iter().chain(known()).collect();
    let hint = words::hint(name, known.iter().copied());
    Err(format!("unknown experiment '{}'{hint}; known: {}", name.escape_debug(), known.join(", ")))
}

/// Whether this machine has the requirements of the experiment; prints a line if not.
fn is_possible(experiment: &Experiment) -> bool {
    let lacking = (experiment.missing)();
    if let Some(what) = &lacking {
        eprintln!("{}: {} is left out: {what}", LAB.name, experiment.name);
    }
    lacking.is_none()
}

/// Creates a journal for each experiment, before any measurement, so that an error of a journal is reported at once.
fn journals(
    args: &ExperimentArgs,
    directory: &Path,
    chosen: &[&Experiment],
    programs: &Programs,
) -> Result<Vec<Journal>, Halt> {
    let failed = |error: io::Error| {
        Halt::Failed(format!("cannot write to '{}': {}", directory.display(), unwritten(&error)))
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let head = |experiment: &&Experiment| Head {
        experiment: experiment.name.to_owned(),
        seed: args.seed,
        size: args.size(),
    };
    let open = |experiment: &&Experiment| {
        let journal = Journal::open(directory, &head(experiment), args.resume)?;
        journal.check_version(&programs.larder)?;
        Ok(journal)
    };
    chosen.iter().map(open).collect()
}

/// Runs the experiments one after the other, until one cannot continue. Returns the results so far, and the reason of
/// an early end.
fn measure(
    args: &ExperimentArgs,
    programs: &Programs,
    chosen: &[&'static Experiment],
    journals: Vec<Journal>,
    prices: &Prices,
    stop: &Arc<AtomicBool>,
) -> (Vec<Part>, Option<Halt>) {
    let (mut parts, mut halted) = (Vec::new(), None);
    for (experiment, journal) in chosen.iter().zip(journals) {
        let progress = Progress { name: experiment.name, bar: Mutex::new(None) };
        let mut bench = Bench {
            program: programs.larder.clone(),
            lab: programs.lab.clone(),
            python: args.python.clone(),
            prices: prices.clone(),
            scale: Scale { size: args.size(), seed: args.seed },
            stop: Arc::clone(stop),
            journal,
            watch: &progress,
        };
        let (begun, known) = (SpentTime::now(), bench.journal.len());
        let outcome = if halted.is_none() { (experiment.measure)(&mut bench).err() } else { halted.clone() };
        progress.end();
        let noted = if bench.journal.len() > known { bench.note_load(&begun) } else { Ok(()) };
        let outcome = outcome.or(noted.err());
        if bench.journal.is_empty() && outcome.is_some() {
            halted = halted.or(outcome);
            continue;
        }
        parts.push(Part {
            name: experiment.name,
            title: experiment.title,
            shows: experiment.shows,
            findings: (experiment.conclude)(&bench.journal),
            host: bench.journal.host(),
            load: bench.journal.load(),
            halted: outcome.as_ref().map(Halt::to_string),
        });
        halted = halted.or(outcome);
    }
    (parts, halted)
}

/// A progress bar for each round of measurements.
struct Progress {
    name: &'static str,
    bar: Mutex<Option<Bar>>,
}

impl Progress {
    fn bar(&self) -> MutexGuard<'_, Option<Bar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish();
        }
    }
}

impl Watch for Progress {
    fn begin(&self, measurements: usize) {
        self.end();
        *self.bar() = Some(Bar::new(self.name, measurements));
    }

    fn advance(&self) {
        if let Some(bar) = &*self.bar() {
            bar.advance(1);
        }
    }

    fn tell(&self, line: &str) {
        self.end();
        eprintln!("{}: {}: {line}", LAB.name, self.name);
    }
}

/// Returns a flag that is set when the user asks to stop; a second signal ends the process at once. Children receive
/// Ctrl-C as well, and end.
fn watch_for_interrupt() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn names(chosen: &[&Experiment]) -> String {
    chosen.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ")
}

/// Formats a time for people.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5_400 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_roughly() {
        let table = [(10, "10 s"), (100, "2 min"), (3_000, "50 min"), (9_000, "2.5 h")];
        for (seconds, text) in table {
            assert_eq!(about(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_nearest_experiment_is_proposed() {
        let refused = chosen("thift").unwrap_err();
        assert!(
            refused.starts_with(
                "unknown experiment 'thift'; did you mean 'thrift'?; known: all, list, prices, thrift"
            ),
            "{refused}"
        );
        let possible = EXPERIMENTS.iter().filter(|experiment| (experiment.missing)().is_none());
        assert_eq!(chosen("all").unwrap().len(), possible.count());
    }
}
