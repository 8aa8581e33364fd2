//! Time, speedup, efficiency and throughput against the number of workers.

use std::collections::BTreeSet;

use larder_lab::plot::{Axis, Plot, Unit};

use super::claims::possible;
use super::{DISTANCES, Measured, URLS, WORKERS};
use crate::Interval;
use crate::findings::{Figure, Grid};

/// A plotted quantity: name for files, title, axis, caption, and the value of some measurements relative to one
/// worker's throughput.
struct Quantity {
    name: &'static str,
    title: &'static str,
    axis: fn() -> Axis,
    caption: &'static str,
    value: fn(&Measured, f64) -> f64,
    /// Whether it is a value per page, so that lists of any length give the same result.
    is_of_each: bool,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        name: "time",
        title: "time for all pages",
        axis: || Axis::log("time in s", Unit::Seconds),
        caption: "Both axes are logarithmic: on the steepest possible line, twice the workers take half the time. Colours are \
         systems; kinds of lines are numbers of URLs.",
        value: |measured, _| measured.seconds,
        is_of_each: false,
    },
    Quantity {
        name: "speedup",
        title: "speedup",
        axis: || Axis::doubling("speedup against one worker", Unit::Number),
        caption: "Throughput relative to that of one worker. The line 'perfect' is the upper bound: the number of workers.",
        value: |measured, alone| measured.throughput() / alone,
        is_of_each: true,
    },
    Quantity {
        name: "efficiency",
        title: "efficiency",
        axis: || Axis::linear("efficiency", Unit::Number),
        caption: "Speedup for each worker: 1 is perfect. The line 'possible' is the upper bound for 164 URLs, whose last round \
         leaves places empty.",
        value: |measured, alone| measured.throughput() / alone / measured.cell.workers as f64,
        is_of_each: true,
    },
    Quantity {
        name: "throughput",
        title: "throughput",
        axis: || Axis::log("pages a second", Unit::Count),
        caption: "Pages a second, all systems on the same origin. In the quick run, small numbers of workers have shorter lists \
         than the line's name says.",
        value: |measured, _| measured.throughput(),
        is_of_each: true,
    },
];

pub(super) fn pictures(cells: &[Measured]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (origin, away) in DISTANCES {
        let of: Vec<&Measured> = cells.iter().filter(|measured| measured.cell.origin == origin).collect();
        if !of.is_empty() {
            figures.extend(QUANTITIES.iter().map(|quantity| picture((origin, away), quantity, &of)));
        }
    }
    figures
}

fn systems(cells: &[&Measured]) -> BTreeSet<String> {
    cells.iter().map(|measured| measured.cell.system.clone()).collect()
}

fn picture((origin, away): (&str, u64), quantity: &Quantity, cells: &[&Measured]) -> Figure {
    let Quantity { name, title, axis, caption, value, is_of_each } = quantity;
    let title = format!("{} origin ({away} ms): {title}", if origin == "far" { "Far" } else { "Near" });
    let mut data =
        Grid::new(&title, &["system", "URLs", "workers", "mean", "95% to either side", "repetitions"]);
    let mut plot = Plot::new(&title, Axis::doubling("workers", Unit::Count), axis());
    for (family, system) in systems(cells).into_iter().enumerate() {
        let own: Vec<_> = cells.iter().filter(|measured| measured.cell.system == system).copied().collect();
        let alone = own.iter().filter(|measured| measured.cell.workers == 1);
        let alone: Vec<f64> = alone.map(|measured| measured.throughput()).collect();
        let Some(alone) = Interval::of(&alone) else { continue };
        let groups: BTreeSet<u32> = own.iter().map(|measured| group(measured)).collect();
        for (member, urls) in URLS.into_iter().enumerate().filter(|(_, urls)| groups.contains(urls)) {
            let is_of = |one: &&&Measured| group(one) == urls && (*is_of_each || one.cell.urls == urls);
            let of: Vec<_> = own.iter().filter(is_of).copied().collect();
            let points = line(&of, |measured| value(measured, alone.mean));
            for (workers, interval) in &points {
                data.row([
                    system.clone(),
                    urls.to_string(),
                    workers.to_string(),
                    format!("{:.4}", interval.mean),
                    interval.margin_cell(4),
                    interval.count.to_string(),
                ]);
            }
            let error = |(workers, interval): &(usize, Interval)| {
                Some((*workers as f64, interval.mean, interval.margin()?))
            };
            let errors: Vec<_> = points.iter().filter_map(error).collect();
            let points =
                points.into_iter().map(|(workers, interval)| (workers as f64, interval.mean)).collect();
            let name = format!("{}, {urls}", short(&system));
            plot = plot.member((family, member), &name, points).with_errors(errors);
        }
    }
    if *name == "speedup" {
        plot =
            plot.member((7, 0), "perfect", WORKERS.map(|workers| (workers as f64, workers as f64)).to_vec());
    }
    if *name == "efficiency" {
        let possible = WORKERS.map(|workers| (workers as f64, possible(URLS[0], workers)));
        plot = plot.member((7, 0), "possible", possible.to_vec());
    }
    Figure { name: format!("parallel-{origin}-{name}"), plot, caption: (*caption).to_owned(), data }
}

/// Returns the line of a measurement: lists that are shorter than the report's, for few workers, belong to its
/// shortest.
fn group(measured: &Measured) -> u32 {
    measured.cell.urls.max(URLS[0])
}

/// Returns the mean of `value` for each number of workers.
fn line(cells: &[&Measured], value: impl Fn(&Measured) -> f64) -> Vec<(usize, Interval)> {
    let at = |workers: usize| {
        let of = cells.iter().filter(|measured| measured.cell.workers == workers);
        Some((workers, Interval::of(&of.map(|measured| value(measured)).collect::<Vec<_>>())?))
    };
    WORKERS.into_iter().filter_map(at).collect()
}

/// Returns a short form of a system's name.
fn short(system: &str) -> &str {
    system.strip_prefix("asyncio ").unwrap_or(system)
}

/// Returns a table of the processor time of a page.
pub(super) fn table(cells: &[Measured]) -> Grid {
    let columns = [
        "origin",
        "system",
        "URLs",
        "workers",
        "s",
        "pages a second",
        "processor time per page in us",
        "origin's in us",
        "clients' in us",
        "memory in MiB",
        "99% within ms",
        "slowest in ms",
    ];
    let mut grid = Grid::new("With the most workers, and with one", &columns);
    for (origin, _) in DISTANCES {
        let of: Vec<&Measured> = cells.iter().filter(|measured| measured.cell.origin == origin).collect();
        for system in systems(&of) {
            let own = of.iter().filter(|measured| measured.cell.system == system);
            let own = own.filter(|measured| [1, 64].contains(&measured.cell.workers));
            let pairs: BTreeSet<_> =
                own.clone().map(|measured| (measured.cell.workers, measured.cell.urls)).collect();
            for (workers, urls) in pairs {
                let those = own
                    .clone()
                    .filter(|measured| (measured.cell.workers, measured.cell.urls) == (workers, urls));
                let mean = |value: fn(&Measured) -> f64, decimals: usize| {
                    let values: Vec<f64> = those.clone().map(|measured| value(measured)).collect();
                    Interval::of(&values)
                        .map_or_else(String::new, |interval| format!("{:.decimals$}", interval.mean))
                };
                grid.row([
                    origin.to_owned(),
                    system.clone(),
                    urls.to_string(),
                    workers.to_string(),
                    mean(|measured| measured.seconds, 3),
                    mean(Measured::throughput, 0),
                    mean(|measured| measured.processor_us, 0),
                    mean(|measured| measured.origin_us, 0),
                    mean(|measured| measured.driver_us.unwrap_or(f64::NAN), 0).replace("NaN", "-"),
                    mean(|measured| measured.resident.unwrap_or(f64::NAN) / f64::from(1 << 20), 1),
                    mean(|measured| measured.p99_ms.unwrap_or(f64::NAN), 1),
                    mean(|measured| measured.slowest_ms.unwrap_or(f64::NAN), 1),
                ]);
            }
        }
    }
    grid
}
