//! Pictures and tables: the measurements against requests, costs, clients, instances and cache size.

use std::collections::{BTreeMap, BTreeSet};

use larder_lab::plot::{Axis, Plot, Unit};

use super::Measurements;
use super::cell::{Measured, Point};
use super::claims::{ENOUGH, enough};
use super::plan::{
    CLIENTS, COST_US, EVICTING, INSTANCES, LATENCY, POLICIES, POLICY, SHARES, SITUATIONS, SIZE,
};
use super::ways::Way;
use crate::Interval;
use crate::findings::{Figure, Grid};

/// A line: its name, and the measured values at each place.
type Line = (String, BTreeMap<u64, Vec<f64>>);

/// The description of a picture with lines.
struct Frame<'a> {
    name: &'a str,
    title: &'a str,
    x: (Axis, &'a str),
    y: Axis,
    caption: String,
}

/// The unit of places whose axis shows another unit: microseconds in a millisecond.
const MICROSECONDS: f64 = 1e3;
const COST: &str = "cost in us";

pub(super) fn pictures(seen: &Measurements) -> Vec<Figure> {
    let cells = &seen.cells;
    if cells.is_empty() {
        return Vec::new();
    }
    let mut figures = requests(cells);
    figures.extend([costs(cells), shares(cells), clients(cells), instances(cells), sizes(seen)]);
    figures
}

fn figure(frame: Frame<'_>, lines: Vec<Line>) -> Figure {
    let Frame { name, title, x: (x, column), y, caption } = frame;
    let mut data = Grid::new(title, &["line", column, "mean", "95% to either side", "repetitions"]);
    let mut plot = Plot::new(title, x, y);
    let scale = if column == COST { MICROSECONDS } else { 1.0 };
    for (at, (line, places)) in lines.into_iter().enumerate() {
        // A way has the same colour in every picture.
        let family = Way::ALL.iter().position(|way| way.name() == line).unwrap_or(at);
        let (mut points, mut errors) = (Vec::new(), Vec::new());
        for (at, values) in places {
            let Some(interval) = Interval::of(&values) else { continue };
            let Interval { mean, count, .. } = interval;
            points.push((at as f64 / scale, mean));
            errors.extend(interval.margin().map(|margin| (at as f64 / scale, mean, margin)));
            data.row([
                line.clone(),
                at.to_string(),
                format!("{mean:.4}"),
                interval.margin_cell(4),
                count.to_string(),
            ]);
        }
        plot = plot.member((family, 0), &line, points).with_errors(errors);
    }
    Figure { name: name.to_owned(), plot, caption, data }
}

/// Returns `value` of the cells of `part` by `place`, in lines by `name`, in the order of `names`.
fn lines(
    cells: &[Measured],
    part: &str,
    names: &[&str],
    name: impl Fn(&Measured) -> &'static str,
    point: impl Fn(&Measured) -> Vec<(u64, f64)>,
) -> Vec<Line> {
    let mut lines: Vec<Line> = names.iter().map(|name| ((*name).to_owned(), BTreeMap::new())).collect();
    for measured in cells.iter().filter(|measured| measured.cell.part == part) {
        let name = name(measured);
        let Some((_, places)) = lines.iter_mut().find(|(known, _)| known == name) else { continue };
        for (at, value) in point(measured) {
            places.entry(at).or_default().push(value);
        }
    }
    lines.retain(|(_, places)| !places.is_empty());
    lines
}

fn policy(measured: &Measured) -> &'static str {
    POLICIES.into_iter().find(|policy| *policy == measured.cell.policy).unwrap_or("other")
}

fn way(measured: &Measured) -> &'static str {
    measured.cell.way.name()
}

/// Returns the values after different numbers of requests.
fn course(measured: &Measured, is_it: bool, value: fn(&Point) -> f64) -> Vec<(u64, f64)> {
    let points = measured.course.iter().filter(|_| is_it);
    points.map(|point| (point.requests, value(point))).collect()
}

fn requests(cells: &[Measured]) -> Vec<Figure> {
    let ways = Way::ALL.map(Way::name);
    let axis = || (Axis::log("requests so far", Unit::Count), "requests");
    let is_usual = |measured: &Measured| measured.cell.endpoint.cost_us == COST_US;
    let latency = Frame {
        name: "services-requests-latency",
        title: "Mean time of all requests so far, by way",
        x: axis(),
        y: Axis::linear("mean time in ms", Unit::Number),
        caption: "One client, answers of 2 ms, a cache with room for all answers. Times decrease until popular answers are \
         stored, and are constant then: confirmed hits save no time."
            .to_owned(),
    };
    let latency = figure(
        latency,
        lines(cells, LATENCY, &ways, way, |one| course(one, is_usual(one), |point| point.mean_ms)),
    );
    let policies = Frame {
        name: "services-requests-policies",
        title: "Mean time of all requests so far, by policy",
        x: axis(),
        y: Axis::linear("mean time in ms", Unit::Number),
        caption: format!("One client, answers of 2 ms, a validating cache of {EVICTING}% that evicts."),
    };
    let policies = figure(
        policies,
        lines(cells, POLICY, &POLICIES, policy, |one| course(one, true, |point| point.mean_ms)),
    );
    let ratio = |name, title, caption: &str, value: fn(&Point) -> f64| {
        let y = Axis::linear(
            if name == "services-requests-bytes" { "byte hit ratio" } else { "hit ratio" },
            Unit::Share,
        );
        let frame = Frame { name, title, x: axis(), y, caption: caption.to_owned() };
        let evicts = |one: &Measured| one.cell.percent == EVICTING;
        figure(frame, lines(cells, SIZE, &POLICIES, policy, |one| course(one, evicts(one), value)))
    };
    vec![
        latency,
        policies,
        ratio(
            "services-requests-hits",
            "Hit ratio of all GETs so far, in a cache that evicts",
            "Hits over GETs. In the seed report, caches did not evict, so all policies had the same line. In a cache of a tenth, \
             they differ.",
            |point| point.hit_ratio,
        ),
        ratio(
            "services-requests-bytes",
            "Byte hit ratio of all GETs so far, in a cache that evicts",
            "Bytes from the cache over bytes served. A policy that prefers small answers has more hits and fewer bytes.",
            |point| point.byte_hit_ratio,
        ),
    ]
}

/// Returns a picture of time against the cost of answers.
fn costs(cells: &[Measured]) -> Figure {
    let frame = Frame {
        name: "services-costs",
        title: "Mean time of all requests, by the cost of an answer",
        x: (Axis::log("cost of an answer in ms", Unit::Number), COST),
        y: Axis::log("mean time in ms", Unit::Number),
        caption: "One client. A configuration below the line of the services alone is faster. The savings of a cache grow with \
         the cost of an answer; its own cost is constant."
            .to_owned(),
    };
    let ways = Way::ALL.map(Way::name);
    let place = |one: &Measured| vec![(u64::from(one.cell.endpoint.cost_us), one.all.mean)];
    figure(frame, lines(cells, LATENCY, &ways, way, place))
}

/// Returns a picture of time against the share of writes.
fn shares(cells: &[Measured]) -> Figure {
    let frame = Frame {
        name: "services-writes",
        title: "Mean time of all requests, by the share of writes",
        x: (Axis::linear("writes in 100 requests", Unit::Count), "writes in %"),
        y: Axis::linear("mean time in ms", Unit::Number),
        caption: "One client, answers of 2 ms. A cache saves less with more writes: each write blanks a pool, and the services \
         make its answers again."
            .to_owned(),
    };
    let ways = Way::ALL.map(Way::name);
    let place = |one: &Measured| vec![(u64::from(one.cell.written), one.all.mean)];
    let usual = |one: &Measured| {
        let is_usual = one.cell.endpoint.cost_us == COST_US && one.cell.way != Way::Beside;
        if is_usual { place(one) } else { Vec::new() }
    };
    let fewer = lines(cells, SHARES, &ways, way, place);
    figure(frame, joined(fewer, lines(cells, LATENCY, &ways, way, usual)))
}

/// Merges the places of lines with equal names.
fn joined(mut lines: Vec<Line>, others: Vec<Line>) -> Vec<Line> {
    for (name, places) in others {
        if let Some((_, own)) = lines.iter_mut().find(|(known, _)| *known == name) {
            own.extend(places);
        }
    }
    lines
}

fn clients(cells: &[Measured]) -> Figure {
    let frame = Frame {
        name: "services-clients",
        title: "Mean time of all requests, by the number of clients",
        x: (Axis::doubling("clients", Unit::Count), "clients"),
        y: Axis::log("mean time in ms", Unit::Number),
        caption: "Answers of 2 ms. Lines are flat while the services only wait. They rise when the machine's processors, which \
         all programs share, are busy."
            .to_owned(),
    };
    let ways = Way::ALL.map(Way::name);
    let place = |one: &Measured| vec![(u64::from(one.cell.clients), one.all.mean)];
    // A single client is measured together with the costs.
    let alone = lines(cells, LATENCY, &ways, way, |one| {
        if one.cell.endpoint.cost_us == COST_US { place(one) } else { Vec::new() }
    });
    figure(frame, joined(lines(cells, CLIENTS, &ways, way, place), alone))
}

fn instances(cells: &[Measured]) -> Figure {
    let frame = Frame {
        name: "services-instances",
        title: "Mean time of all requests, by the number of caches",
        x: (Axis::doubling("clients", Unit::Count), "clients"),
        y: Axis::linear("mean time in ms", Unit::Number),
        caption: "Answers of 2 ms, validating caches, LRU. Each key has one cache, and clients know it."
            .to_owned(),
    };
    let names = ["one cache", "two caches", "three caches"];
    let name = |one: &Measured| names[(one.cell.instances - 1).min(2)];
    let place = |one: &Measured| vec![(u64::from(one.cell.clients), one.all.mean)];
    figure(frame, lines(cells, INSTANCES, &names, name, place))
}

/// Returns a picture of simulated curves, with live runs.
fn sizes(seen: &Measurements) -> Figure {
    let title = "Hit ratio by cache size: simulated, and live";
    let mut data = Grid::new(title, &["policy", "how", "cache size in bytes", "hit ratio"]);
    let axis = Axis::doubling("cache size", Unit::Bytes);
    let mut plot = Plot::new(title, axis, Axis::linear("hit ratio", Unit::Share));
    let mut row = |policy: &str, how: &str, (size, ratio): (f64, f64)| {
        data.row([policy.to_owned(), how.to_owned(), format!("{size:.0}"), format!("{ratio:.4}")]);
    };
    for policy in POLICIES {
        let first = seen.curves.iter().find(|curve| curve.policy == policy && curve.repetition == 0);
        let steps = first.map_or(&[][..], |curve| &curve.steps);
        let points: Vec<_> = steps.iter().map(|step| (step.capacity as f64, step.hit_ratio)).collect();
        points.iter().for_each(|point| row(policy, "simulated", *point));
        plot = plot.line(policy, points);
    }
    for (family, policy) in POLICIES.into_iter().enumerate() {
        let of = seen.cells.iter().filter(|measured| {
            let cell = &measured.cell;
            cell.part == SIZE && cell.policy == policy && cell.repetition == 0 && cell.percent > 0
        });
        let points: Vec<_> = of.map(|measured| (measured.capacity as f64, measured.hit_ratio)).collect();
        points.iter().for_each(|point| row(policy, "live", *point));
        plot = plot.member_marks(family, &format!("{policy}, live"), points);
    }
    let caption = format!(
        "The requests of the first repetition. Marks are live runs. Sizes that keep {:.0}% of all possible hits: {}.",
        ENOUGH * 100.0,
        knees(seen).join(", ")
    );
    Figure { name: "services-sizes".to_owned(), plot, caption, data }
}

fn knees(seen: &Measurements) -> Vec<String> {
    let told = |policy: &&str| Some(format!("{policy} {:.0} kB", enough(seen, policy)? / 1e3));
    POLICIES.iter().filter_map(told).collect()
}

pub(super) fn tables(seen: &Measurements) -> Vec<Grid> {
    vec![situations(&seen.cells), enough_table(seen), prices(seen), all(&seen.cells)]
}

/// Returns the mean of `value` as text.
fn mean(of: &[&Measured], value: impl Fn(&Measured) -> f64, decimals: usize) -> String {
    let values: Vec<f64> = of.iter().map(|measured| value(measured)).collect();
    Interval::of(&values).map_or_else(String::new, |interval| format!("{:.decimals$}", interval.mean))
}

fn situations(cells: &[Measured]) -> Grid {
    let columns = [
        "services",
        "writes in %",
        "way",
        "mean time in ms",
        "GETs in ms",
        "99% of GETs within ms",
        "hit ratio",
        "without the services",
        "services' processor time per request in ms",
        "kB on the line per request",
    ];
    let mut grid = Grid::new("Savings of a cache in the situations that the seed report named", &columns);
    for (name, about) in SITUATIONS {
        let own: Vec<_> = cells.iter().filter(|one| one.cell.part == name).collect();
        let kinds: BTreeSet<_> = own.iter().map(|one| (one.cell.written, one.cell.way)).collect();
        for (written, way) in kinds {
            let is_it = |one: &&&Measured| (one.cell.written, one.cell.way) == (written, way);
            let of: Vec<_> = own.iter().filter(is_it).copied().collect();
            grid.row([
                about.to_owned(),
                written.to_string(),
                way.name().to_owned(),
                mean(&of, |one| one.all.mean, 1),
                mean(&of, |one| one.reads.mean, 1),
                mean(&of, |one| one.reads.p99, 1),
                mean(&of, |one| one.hit_ratio, 3),
                mean(&of, |one| one.unasked, 3),
                mean(&of, |one| one.services_us / 1e3, 2),
                mean(&of, |one| one.line_bytes.unwrap_or(0.0) / 1e3, 0),
            ]);
        }
    }
    grid
}

fn enough_table(seen: &Measurements) -> Grid {
    let title = "The smallest cache that keeps 90% of the hits, and the cheapest machine with room for it";
    let mut grid = Grid::new(title, &["policy", "cache in kB", "machine", "price for a month"]);
    for policy in POLICIES {
        let (Some(size), Some(prices)) = (enough(seen, policy), &seen.prices) else { continue };
        let machine = prices.cheapest(size as u64);
        let [name, price] = machine.map_or_else(
            || ["none has enough memory".to_owned(), String::new()],
            |machine| [machine.name.clone(), format!("{:.2} {}", machine.price, prices.currency)],
        );
        grid.row([policy.to_owned(), format!("{:.0}", size / 1e3), name, price]);
    }
    grid
}

fn prices(seen: &Measurements) -> Grid {
    let columns = ["machine", "memory in MB", "room for a cache in MB", "price for a month"];
    let mut grid = Grid::new("The price table", &columns);
    let Some(prices) = &seen.prices else { return grid };
    for machine in &prices.machines {
        grid.row([
            machine.name.clone(),
            format!("{:.0}", machine.memory as f64 / 1e6),
            format!("{:.0}", machine.memory.saturating_sub(prices.beside) as f64 / 1e6),
            format!("{:.2} {}", machine.price, prices.currency),
        ]);
    }
    grid
}

/// Returns a table of all means: a row for measurements that differ only in the repetition.
fn all(cells: &[Measured]) -> Grid {
    let columns = [
        "part",
        "way",
        "cost in ms",
        "writes in %",
        "clients",
        "caches",
        "policy",
        "cache size in %",
        "mean time in ms",
        "GETs in ms",
        "half of GETs within ms",
        "99% of GETs within ms",
        "hit ratio",
        "byte hit ratio",
        "without the services",
        "simulated hit ratio",
        "proxies' processor time per request in us",
        "services' in us",
    ];
    let mut grid = Grid::new("Means over the repetitions", &columns);
    let kind = |one: &Measured| super::cell::Cell { repetition: 0, ..one.cell.clone() }.key();
    let kinds: BTreeSet<String> = cells.iter().map(kind).collect();
    for key in kinds {
        let of: Vec<_> = cells.iter().filter(|one| kind(one) == key).collect();
        let Some(Measured { cell, simulated, .. }) = of.first() else { continue };
        let size = if cell.percent == 0 { "all".to_owned() } else { cell.percent.to_string() };
        grid.row([
            cell.part.clone(),
            cell.way.name().to_owned(),
            (f64::from(cell.endpoint.cost_us) / 1e3).to_string(),
            cell.written.to_string(),
            cell.clients.to_string(),
            cell.instances.to_string(),
            cell.policy.clone(),
            size,
            mean(&of, |one| one.all.mean, 3),
            mean(&of, |one| one.reads.mean, 3),
            mean(&of, |one| one.reads.p50, 3),
            mean(&of, |one| one.reads.p99, 3),
            mean(&of, |one| one.hit_ratio, 4),
            mean(&of, |one| one.byte_hit_ratio, 4),
            mean(&of, |one| one.unasked, 4),
            simulated.map_or_else(String::new, |_| mean(&of, |one| one.simulated.unwrap_or(0.0), 4)),
            mean(&of, |one| one.proxies_us, 0),
            mean(&of, |one| one.services_us, 0),
        ]);
    }
    grid
}
