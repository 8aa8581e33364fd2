//! Pictures and tables: the measurements against requests, costs, clients, instances and cache size.

use std::collections::BTreeMap;

use larder_lab::plot::{Axis, Plot, Unit};

use super::Measurements;
use super::cell::{CellResult, Point};
use super::claims::{ENOUGH, enough};
use super::conditions::Way;
use super::plan::{
    CLIENTS, COST_US, EVICTING, INSTANCES, LATENCY, POLICIES, POLICY, SHARES, SITUATIONS, SIZE,
};
use crate::Interval;
use crate::findings::{Column, Figure, Grid, MeanPlot, colour};

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
    let mut picture = MeanPlot::new(title, (x, y), &["line", column], ("repetitions", 4));
    let scale = if column == COST { MICROSECONDS } else { 1.0 };
    for (at, (line, places)) in lines.into_iter().enumerate() {
        // A way, and a policy, has the same colour in every picture.
        let family = match Way::ALL.iter().position(|way| way.name() == line) {
            Some(family) => family,
            None if POLICIES.contains(&line.as_str()) => colour(&line),
            None => at,
        };
        let mean = |(at, values): (&u64, &Vec<f64>)| {
            Some((vec![line.clone(), at.to_string()], *at as f64 / scale, Interval::of(values)?))
        };
        picture = picture.line(Some((family, 0)), &line, places.iter().filter_map(mean));
    }
    picture.figure(name, caption)
}

/// Returns `value` of the cells of `part` by `place`, in lines by `name`, in the order of `names`.
fn lines(
    cells: &[CellResult],
    part: &str,
    names: &[&str],
    name: impl Fn(&CellResult) -> &'static str,
    point: impl Fn(&CellResult) -> Vec<(u64, f64)>,
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

fn policy(measured: &CellResult) -> &'static str {
    POLICIES.into_iter().find(|policy| *policy == measured.cell.policy).unwrap_or("other")
}

fn way(measured: &CellResult) -> &'static str {
    measured.cell.way.name()
}

/// Returns the values after different numbers of requests.
fn course(measured: &CellResult, is_it: bool, value: fn(&Point) -> f64) -> Vec<(u64, f64)> {
    let points = measured.course.iter().filter(|_| is_it);
    points.map(|point| (point.requests, value(point))).collect()
}

fn requests(cells: &[CellResult]) -> Vec<Figure> {
    let ways = Way::ALL.map(Way::name);
    let axis = || (Axis::log("requests so far", Unit::Count), "requests");
    let is_usual = |measured: &CellResult| measured.cell.endpoint.cost_us == COST_US;
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
        let evicts = |one: &CellResult| one.cell.percent == EVICTING;
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
            |point| point.gets.hit_ratio,
        ),
        ratio(
            "services-requests-bytes",
            "Byte hit ratio of all GETs so far, in a cache that evicts",
            "Bytes from the cache over bytes served. A policy that prefers small answers has more hits and fewer bytes.",
            |point| point.gets.byte_hit_ratio,
        ),
    ]
}

/// Returns a picture of time against the cost of answers.
fn costs(cells: &[CellResult]) -> Figure {
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
    let place = |one: &CellResult| vec![(u64::from(one.cell.endpoint.cost_us), one.all.mean)];
    figure(frame, lines(cells, LATENCY, &ways, way, place))
}

/// Returns a picture of time against the share of writes.
fn shares(cells: &[CellResult]) -> Figure {
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
    let place = |one: &CellResult| vec![(u64::from(one.cell.written), one.all.mean)];
    let usual = |one: &CellResult| {
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

fn clients(cells: &[CellResult]) -> Figure {
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
    let place = |one: &CellResult| vec![(u64::from(one.cell.clients), one.all.mean)];
    // A single client is measured together with the costs.
    let alone = lines(cells, LATENCY, &ways, way, |one| {
        if one.cell.endpoint.cost_us == COST_US { place(one) } else { Vec::new() }
    });
    figure(frame, joined(lines(cells, CLIENTS, &ways, way, place), alone))
}

fn instances(cells: &[CellResult]) -> Figure {
    let frame = Frame {
        name: "services-instances",
        title: "Mean time of all requests, by the number of caches",
        x: (Axis::doubling("clients", Unit::Count), "clients"),
        y: Axis::linear("mean time in ms", Unit::Number),
        caption: "Answers of 2 ms, validating caches, LRU. Each key has one cache, and clients know it."
            .to_owned(),
    };
    let names = ["one cache", "two caches", "three caches"];
    let name = |one: &CellResult| names[(one.cell.instances - 1).min(2)];
    let place = |one: &CellResult| vec![(u64::from(one.cell.clients), one.all.mean)];
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
        plot = plot.member((colour(policy), 0), policy, points);
    }
    for policy in POLICIES {
        let of = seen.cells.iter().filter(|measured| {
            let cell = &measured.cell;
            cell.part == SIZE && cell.policy == policy && cell.repetition == 0 && cell.percent > 0
        });
        let points: Vec<_> = of.map(|measured| (measured.capacity as f64, measured.gets.hit_ratio)).collect();
        points.iter().for_each(|point| row(policy, "live", *point));
        plot = plot.member_marks(colour(policy), &format!("{policy}, live"), points);
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
fn mean(of: &[&CellResult], value: impl Fn(&CellResult) -> f64, decimals: usize) -> String {
    Interval::mean_cell(of.iter().map(|measured| value(measured)), decimals)
}

fn situations<'a>(cells: &'a [CellResult]) -> Grid {
    /// The services, and the measurements of one way and share of writes.
    type Row<'a> = (&'static str, Vec<&'a CellResult>);
    let columns: [Column<'_, Row<'a>>; 10] = [
        ("services", &|(about, _)| (*about).to_owned()),
        ("writes in %", &|(_, of)| of[0].cell.written.to_string()),
        ("way", &|(_, of)| of[0].cell.way.name().to_owned()),
        ("mean time in ms", &|(_, of)| mean(of, |one| one.all.mean, 1)),
        ("GETs in ms", &|(_, of)| mean(of, |one| one.reads.mean, 1)),
        ("99% of GETs within ms", &|(_, of)| mean(of, |one| one.reads.p99, 1)),
        ("hit ratio", &|(_, of)| mean(of, |one| one.gets.hit_ratio, 3)),
        ("without the services", &|(_, of)| mean(of, |one| one.gets.unasked, 3)),
        ("services' processor time per request in ms", &|(_, of)| mean(of, |one| one.services_us / 1e3, 2)),
        ("kB on the line per request", &|(_, of)| mean(of, |one| one.line_bytes.unwrap_or(0.0) / 1e3, 0)),
    ];
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (name, about) in SITUATIONS {
        let own = cells.iter().filter(|one| one.cell.part == name);
        let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
        own.for_each(|one| kinds.entry((one.cell.written, one.cell.way)).or_default().push(one));
        rows.extend(kinds.into_values().map(|of| (about, of)));
    }
    Grid::of("Savings of a cache in the situations that the seed report named", &columns, rows)
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
fn all<'a>(cells: &'a [CellResult]) -> Grid {
    let simulated = |of: &[&CellResult]| match of[0].simulated {
        Some(_) => mean(of, |one| one.simulated.unwrap_or(0.0), 4),
        None => String::new(),
    };
    let size = |percent: u32| if percent == 0 { "all".to_owned() } else { percent.to_string() };
    let columns: [Column<'_, Vec<&'a CellResult>>; 18] = [
        ("part", &|of| of[0].cell.part.clone()),
        ("way", &|of| of[0].cell.way.name().to_owned()),
        ("cost in ms", &|of| (f64::from(of[0].cell.endpoint.cost_us) / 1e3).to_string()),
        ("writes in %", &|of| of[0].cell.written.to_string()),
        ("clients", &|of| of[0].cell.clients.to_string()),
        ("caches", &|of| of[0].cell.instances.to_string()),
        ("policy", &|of| of[0].cell.policy.clone()),
        ("cache size in %", &|of| size(of[0].cell.percent)),
        ("mean time in ms", &|of| mean(of, |one| one.all.mean, 3)),
        ("GETs in ms", &|of| mean(of, |one| one.reads.mean, 3)),
        ("half of GETs within ms", &|of| mean(of, |one| one.reads.p50, 3)),
        ("99% of GETs within ms", &|of| mean(of, |one| one.reads.p99, 3)),
        ("hit ratio", &|of| mean(of, |one| one.gets.hit_ratio, 4)),
        ("byte hit ratio", &|of| mean(of, |one| one.gets.byte_hit_ratio, 4)),
        ("without the services", &|of| mean(of, |one| one.gets.unasked, 4)),
        ("simulated hit ratio", &|of| simulated(of)),
        ("proxies' processor time per request in us", &|of| mean(of, |one| one.proxies_us, 0)),
        ("services' in us", &|of| mean(of, |one| one.services_us, 0)),
    ];
    let mut kinds: BTreeMap<String, Vec<&'a CellResult>> = BTreeMap::new();
    for one in cells {
        let kind = super::conditions::Cell { repetition: 0, ..one.cell.clone() }.key();
        kinds.entry(kind).or_default().push(one);
    }
    Grid::of("Means over the repetitions", &columns, kinds.into_values())
}
