//! Time, speedup, efficiency and throughput against the number of workers.

use std::collections::{BTreeMap, BTreeSet};

use larder_lab::plot::{Axis, Unit};

use super::claims::possible;
use super::{AIOHTTP, CellResult, DISTANCES, EXECUTOR, HTTP2, HTTPX, LARDER, THREADS, URLS, WORKERS};
use crate::Interval;
use crate::findings::{Column, Figure, Grid, MeanPlot};

/// A plotted quantity: name for files, title, axis, caption, and the value of some measurements relative to one
/// worker's throughput.
struct Quantity {
    name: &'static str,
    title: &'static str,
    axis: fn() -> Axis,
    caption: &'static str,
    value: fn(&CellResult, f64) -> f64,
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

pub(super) fn pictures(cells: &[CellResult]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (origin, away) in DISTANCES {
        let of: Vec<&CellResult> = cells.iter().filter(|measured| measured.cell.origin == origin).collect();
        if !of.is_empty() {
            figures.extend(QUANTITIES.iter().map(|quantity| picture((origin, away), quantity, &of)));
        }
    }
    figures
}

/// The systems in the pictures: each has its colour, even if others are not measured.
const SYSTEMS: [&str; 6] = [LARDER, AIOHTTP, EXECUTOR, HTTPX, THREADS, HTTP2];

fn picture((origin, away): (&str, u64), quantity: &Quantity, cells: &[&CellResult]) -> Figure {
    let Quantity { name, title, axis, caption, value, is_of_each } = quantity;
    let title = format!("{} origin ({away} ms): {title}", if origin == "far" { "Far" } else { "Near" });
    let axes = (Axis::doubling("workers", Unit::Count), axis());
    let mut picture = MeanPlot::new(&title, axes, &["system", "URLs", "workers"], ("repetitions", 4));
    for (family, system) in SYSTEMS.into_iter().enumerate() {
        let own: Vec<_> = cells.iter().filter(|measured| measured.cell.system == system).copied().collect();
        let alone = own.iter().filter(|measured| measured.cell.workers == 1);
        let alone: Vec<f64> = alone.map(|measured| measured.throughput()).collect();
        let Some(alone) = Interval::of(&alone) else { continue };
        let groups: BTreeSet<u32> = own.iter().map(|measured| group(measured)).collect();
        for (member, urls) in URLS.into_iter().enumerate().filter(|(_, urls)| groups.contains(urls)) {
            let is_of = |one: &&&CellResult| group(one) == urls && (*is_of_each || one.cell.urls == urls);
            let of: Vec<_> = own.iter().filter(is_of).copied().collect();
            let means = line(&of, |measured| value(measured, alone.mean));
            let means = means.into_iter().map(|(workers, interval)| {
                let labels = vec![system.to_owned(), urls.to_string(), workers.to_string()];
                (labels, workers as f64, interval)
            });
            let name = format!("{}, {urls}", short(system));
            picture = picture.line(Some((family, member)), &name, means);
        }
    }
    let mut figure = picture.figure(&format!("parallel-{origin}-{name}"), (*caption).to_owned());
    let points = |bound: fn(usize) -> f64| WORKERS.map(|workers| (workers as f64, bound(workers))).to_vec();
    figure.plot = match *name {
        "speedup" => figure.plot.member((7, 0), "perfect", points(|workers| workers as f64)),
        "efficiency" => figure.plot.member((7, 0), "possible", points(|workers| possible(URLS[0], workers))),
        _ => figure.plot,
    };
    figure
}

/// Returns the line of a measurement: lists that are shorter than the report's, for few workers, belong to its
/// shortest.
fn group(measured: &CellResult) -> u32 {
    measured.cell.urls.max(URLS[0])
}

/// Returns the mean of `value` for each number of workers.
fn line(cells: &[&CellResult], value: impl Fn(&CellResult) -> f64) -> Vec<(usize, Interval)> {
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
pub(super) fn table<'a>(cells: &'a [CellResult]) -> Grid {
    /// The measurements of a system with one number of workers and URLs.
    type Row<'a> = Vec<&'a CellResult>;
    let mean = |of: &Row<'_>, value: fn(&CellResult) -> f64, decimals: usize| {
        Interval::mean_cell(of.iter().map(|measured| value(measured)), decimals)
    };
    let known = |of: &Row<'_>, value: fn(&CellResult) -> Option<f64>, decimals: usize| {
        let values = of.iter().map(|measured| value(measured).unwrap_or(f64::NAN));
        Interval::mean_cell(values, decimals)
    };
    let columns: [Column<'_, Row<'a>>; 12] = [
        ("origin", &|of| of[0].cell.origin.clone()),
        ("system", &|of| of[0].cell.system.clone()),
        ("URLs", &|of| of[0].cell.urls.to_string()),
        ("workers", &|of| of[0].cell.workers.to_string()),
        ("s", &|of| mean(of, |one| one.seconds, 3)),
        ("pages a second", &|of| mean(of, CellResult::throughput, 0)),
        ("processor time per page in us", &|of| mean(of, |one| one.processor_us, 0)),
        ("origin's in us", &|of| mean(of, |one| one.origin_us, 0)),
        ("clients' in us", &|of| known(of, |one| one.driver_us, 0).replace("NaN", "-")),
        ("peak of memory in MiB", &|of| known(of, |one| Some(one.peak? / f64::from(1 << 20)), 1)),
        ("99% within ms", &|of| known(of, |one| one.p99_ms, 1)),
        ("slowest in ms", &|of| known(of, |one| one.slowest_ms, 1)),
    ];
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (origin, _) in DISTANCES {
        let of = cells.iter().filter(|one| one.cell.origin == origin && [1, 64].contains(&one.cell.workers));
        let mut kinds: BTreeMap<_, Row<'_>> = BTreeMap::new();
        of.for_each(|one| {
            kinds.entry((&one.cell.system, one.cell.workers, one.cell.urls)).or_default().push(one)
        });
        rows.extend(kinds.into_values());
    }
    Grid::of("With the most workers, and with one", &columns, rows)
}
