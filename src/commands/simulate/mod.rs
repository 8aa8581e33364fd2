//! `larder simulate`: replays traces through policies and sizes, and prints the results.
//!
//! Traces are read one by one, so that memory holds only one. After an error or Ctrl-C, the finished results are
//! printed.

mod advice;
mod args;
mod clusters;
mod data;
mod money;
mod policies;
mod prefetches;
mod reference;
mod results;
mod table;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_evict::{By, Capacity};
use larder_lab::anomaly::anomalies;
use larder_lab::curve::{self, Curve};
use larder_lab::nodes;
use larder_lab::plot::Plot;
use larder_lab::prefetch;
use larder_lab::subject::{PlanMismatch, Size, Subject};
use larder_lab::sweep::Plan;
use larder_lab::trace;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::cli::files::unwritten;
use crate::cli::progress::Bar;
use crate::cli::traces::names;
use crate::cli::{Failure, say};
pub(super) use args::{EXAMPLES, Simulate};
use results::Results;

/// The default capacities, as shares.
const USUAL: [f64; 4] = [0.001, 0.01, 0.1, 0.3];

/// The work for each trace.
enum Work {
    Policies(Plan),
    Clusters(nodes::Plan),
    Prefetches(prefetch::Plan),
}

/// Runs the command.
pub(crate) fn run(args: &Simulate) -> Result<(), Failure> {
    if args.list {
        say(policies::list().trim_end());
        return Ok(());
    }
    let prices = args.config.as_deref().map(money::prices).transpose()?;
    let mut specs = policies::parse(&args.policy, args.admission.as_deref()).map_err(Failure::Refused)?;
    prices.iter().for_each(|prices| money::set_fees(prices, &mut specs));
    let plan = Plan {
        specs,
        warmup: args.warmup,
        seed: args.seed,
        threads: args
            .threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN),
    };
    let work = match (args.cluster.nodes.is_empty(), args.prefetch.kinds.is_empty()) {
        (true, true) => Work::Policies(plan),
        (false, _) => Work::Clusters(clusters::plan(args, plan).map_err(Failure::Refused)?),
        (true, false) => Work::Prefetches(prefetches::plan(args, plan).map_err(Failure::Refused)?),
    };
    let interrupted = watch_for_interrupt().map_err(|error| Failure::Failed(error.to_string()))?;
    let mut results = Results { prices, ..Results::default() };
    let mut outcome = Ok(());
    for (path, name) in args.traces.iter().zip(names(&args.traces)) {
        let subject = read(args, path, name);
        if let (true, Work::Policies(plan)) = (args.advise, &work) {
            let subject = subject?;
            advice::show(args, &plan.specs, &subject, (unit(args, &subject), prices))?;
            continue;
        }
        outcome = subject.and_then(|subject| simulate(args, &work, &subject, &interrupted, &mut results));
        if outcome.is_err() {
            break;
        }
    }
    if !results.is_empty() || outcome.is_ok() && !args.advise {
        results.anomalies = anomalies(&results.cells);
        show(args, &results);
    }
    outcome
}

/// Reads a trace, and prints the notes of the reader.
fn read(args: &Simulate, path: &Path, name: String) -> Result<Subject, Failure> {
    let mut options = args.reading.options();
    if args.advise {
        // The sample is that of the shadows.
        options.sample = 1.0;
    }
    let reads = Bar::wait(format!("reading {name}"));
    let (trace, reading) =
        trace::read(path, &options).map_err(|error| Failure::Refused(error.to_string()))?;
    reads.finish();
    for note in reading.notes() {
        eprintln!("larder: {name}: {note}");
    }
    Ok(Subject { name, trace, sample: options.sample, requests: reading.requests })
}

/// Runs the work over a trace, adds the results to `results`, and draws them if the user wants it.
fn simulate(
    args: &Simulate,
    work: &Work,
    subject: &Subject,
    interrupted: &AtomicBool,
    results: &mut Results,
) -> Result<(), Failure> {
    let capacities = capacities(args, subject).map_err(|error| Failure::Refused(error.to_string()))?;
    if capacities.is_empty() {
        let why = "it is too small for the usual capacities; name some, such as --capacity 10";
        return Err(Failure::Refused(format!("{}: {why}", subject.name)));
    }
    let by = unit(args, subject);
    results.whole.insert(subject.name.clone(), Capacity { by, amount: subject.distinct(by) });
    let expected = capacities.len() * work.cells();
    let progress = Bar::new(&subject.name, expected * subject.trace.len());
    let watch = |requests| {
        progress.advance(requests);
        !interrupted.load(Ordering::Relaxed)
    };
    let (done, picture) = match work {
        Work::Policies(plan) => {
            let mut cells = plan.run(subject, &capacities, &watch);
            results.prices.iter().for_each(|prices| money::add(prices, subject, &mut cells));
            if args.curve {
                results.curves.push(Curve::lru(subject, by, plan.warmup));
            }
            let every = results.curves.iter().filter(|curve| curve.trace == subject.name);
            let picture = curve::plot(&subject.name, &cells, every);
            (append(&mut results.cells, cells), picture)
        }
        Work::Clusters(plan) => {
            let cells = plan.run(subject, &capacities, &watch);
            let picture = clusters::plot(&subject.name, &cells);
            (append(&mut results.clusters, cells), picture)
        }
        Work::Prefetches(plan) => {
            let cells = plan.run(subject, &capacities, &watch);
            let picture = prefetches::plot(&subject.name, &cells);
            (append(&mut results.prefetches, cells), picture)
        }
    };
    progress.finish();
    draw(args, &subject.name, &picture)?;
    match done == expected {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "interrupted: {done} of {expected} cells of {} are done",
            subject.name
        ))),
    }
}

impl Work {
    /// Returns the number of cells at each capacity.
    fn cells(&self) -> usize {
        match self {
            Self::Policies(plan) => plan.specs.len(),
            Self::Clusters(plan) => plan.cells(),
            Self::Prefetches(plan) => plan.cells(),
        }
    }
}

/// Adds `new` to `all`, and returns the number of added items.
fn append<T>(all: &mut Vec<T>, new: Vec<T>) -> usize {
    let count = new.len();
    all.extend(new);
    count
}

/// Draws the plot of a trace, if the user wants it.
fn draw(args: &Simulate, name: &str, picture: &Plot) -> Result<(), Failure> {
    let Some(file) = &args.plot else { return Ok(()) };
    let file = picture_file(file, name, args.traces.len());
    fs::write(&file, picture.file())
        .map_err(|error| Failure::Failed(format!("cannot write {}: {}", file.display(), unwritten(&error))))
}

/// Returns the capacities that the user names, or else the usual ones that suit the trace; each once.
fn capacities(args: &Simulate, subject: &Subject) -> Result<Vec<Capacity>, PlanMismatch> {
    let by = unit(args, subject);
    let mut capacities = Vec::new();
    if args.capacity.is_empty() {
        let shares: Vec<_> = if args.curve { curve::shares().collect() } else { USUAL.to_vec() };
        capacities
            .extend(shares.into_iter().filter_map(|share| subject.capacity(Size::Share(share), by).ok()));
    } else {
        for &size in &args.capacity {
            capacities.push(subject.capacity(size, by)?);
        }
    }
    let mut seen = HashSet::new();
    capacities.retain(|capacity| seen.insert(*capacity));
    Ok(capacities)
}

/// Returns the unit of capacities.
fn unit(args: &Simulate, subject: &Subject) -> By {
    args.by.unwrap_or_else(|| subject.usual_unit())
}

/// Returns the file for the plot of a trace, one of `count`.
fn picture_file(file: &Path, name: &str, count: usize) -> PathBuf {
    if count == 1 {
        return file.to_owned();
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(|c| if c == '/' { '_' } else { c }).collect();
    let extension = file.extension().map_or_else(|| "svg".into(), |extension| extension.to_string_lossy());
    file.with_file_name(format!("{stem}-{name}.{extension}"))
}

/// Returns a flag that is set when the user asks to stop; a second signal ends the process at once.
fn watch_for_interrupt() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&interrupted))?;
    flag::register(SIGINT, Arc::clone(&interrupted))?;
    Ok(interrupted)
}

fn show(args: &Simulate, results: &Results) {
    if args.reference {
        say(reference::page(&results.cells).trim_end());
        return;
    }
    if !args.cluster.nodes.is_empty() {
        say(clusters::page(args, &results.clusters).trim_end());
        return;
    }
    if !args.prefetch.kinds.is_empty() {
        say(prefetches::page(args, &results.prefetches).trim_end());
        return;
    }
    if args.json {
        say(&data::json(results));
    } else if args.csv {
        say(data::csv(data::COLUMNS, &results.cells).trim_end());
    } else {
        say(table::page(results).trim_end());
    }
    // If a program reads the output, the anomalies go to the user on standard error.
    for anomaly in &results.anomalies {
        if args.json || args.csv { eprintln!("larder: {anomaly}") } else { say(&anomaly.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_traces_has_its_picture() {
        let file = Path::new("out/curves.svg");
        assert_eq!(picture_file(file, "web", 1), Path::new("out/curves.svg"));
        assert_eq!(picture_file(file, "a/web.csv", 2), Path::new("out/curves-a_web.csv.svg"));
    }
}
