//! Claims about clusters, and their verdicts.

use std::collections::BTreeSet;

use super::Measurements;
use super::cell::CellResult;
use super::conditions::Cell;
use super::plan::{ONE, SETS, THREE};
use crate::experiments::LARDER;
use crate::findings::{Finding, Ruling};
use crate::{Bound, ClaimKind, Interval, Samples};

/// The maximum of three nodes' median time over one node's, if everything fits.
const SLOWER: f64 = 1.1;
/// The maximum of three nodes' requests to the origin over one node's, if one node's memory is too small.
const LEFT: f64 = 0.5;
/// The share of requests between nodes that copies save.
const SPARED: f64 = 1.0 / 3.0;
/// The maximum difference between live and simulated hit ratios.
const MOST_APART: f64 = 0.02;

pub(super) fn claims(seen: &Measurements) -> Vec<Finding> {
    let [beside_one, beside_apart] = times(seen);
    vec![beside_one, beside_apart, origin(seen), copies(seen), agreement(seen)]
}

/// Returns the measurement of a number of nodes with `set`.
fn find<'a>(
    seen: &'a Measurements,
    set: &str,
    (nodes, copies): (u16, bool),
    repetition: u64,
) -> Option<&'a CellResult> {
    let is_it = |cell: &Cell| {
        let Cell { set: of, nodes: count, copies: has, apart, repetition: at } = cell;
        !apart && (of.as_str(), *count, *has, *at) == (set, nodes, copies, repetition)
    };
    seen.cells.iter().find(|measured| is_it(&measured.cell))
}

/// Returns the results of `compare` for two clusters with the same requests, once for each repetition that has both.
fn compare(
    seen: &Measurements,
    set: &str,
    [one, other]: [(u16, bool); 2],
    compare: impl Fn(&CellResult, &CellResult) -> Option<f64>,
) -> Vec<(u64, f64)> {
    let repetitions: BTreeSet<u64> = seen.cells.iter().map(|measured| measured.cell.repetition).collect();
    let pair = |&at: &u64| Some((at, compare(find(seen, set, one, at)?, find(seen, set, other, at)?)?));
    repetitions.iter().filter_map(pair).collect()
}

/// Returns the mean over the repetitions.
pub(super) fn mean(
    seen: &Measurements,
    set: &str,
    (nodes, copies): (u16, bool),
    value: impl Fn(&CellResult) -> Option<f64>,
) -> Option<Interval> {
    let of = |cell: &Cell| !cell.apart && cell.set == set && (cell.nodes, cell.copies) == (nodes, copies);
    let values: Vec<f64> = seen.cells.iter().filter(|one| of(&one.cell)).filter_map(value).collect();
    Interval::of(&values)
}

/// Decides the claim that the mean of a ratio is at most `most`, expressed in `unit`.
fn at_most(
    claim: String,
    most: f64,
    ratios: Vec<(u64, f64)>,
    unit: &'static str,
    text: impl Into<String>,
) -> Finding {
    let mut samples = Samples::default();
    samples.add("all", ratios);
    let decided = (samples, Bound::Below(most));
    Finding::sampled(claim, LARDER, ClaimKind::OnAverage, decided, (1.0, unit)).saying(text)
}

/// Returns the mean of independent nodes that hold all objects.
fn apart(seen: &Measurements, value: impl Fn(&CellResult) -> Option<f64>) -> Option<Interval> {
    let of = seen.cells.iter().filter(|measured| measured.cell.apart);
    Interval::of(&of.filter_map(value).collect::<Vec<_>>())
}

/// Compares the median time of three nodes with that of one node, and with that of three independent nodes.
fn times(seen: &Measurements) -> [Finding; 2] {
    let p50 = |measured: &CellResult| Some(measured.alone?.p50);
    let p99 = |measured: &CellResult| Some(measured.alone?.p99);
    let beside_one = compare(seen, ONE, [(3, true), (1, false)], |three, one| Some(p50(three)? / p50(one)?));
    let lone = |at: u64| seen.cells.iter().find(|one| one.cell.apart && one.cell.repetition == at);
    let beside_apart = compare(seen, ONE, [(3, true), (3, true)], |three, _| {
        Some(p50(three)? / p50(lone(three.cell.repetition)?)?)
    });
    let us = |interval: Option<Interval>| interval.map(|interval| interval.mean * 1e3);
    let told = |name: &str, (half, most): (Option<Interval>, Option<Interval>)| {
        Some(format!("{name} {:.0} and {:.0} us", us(half)?, us(most)?))
    };
    let of = |cluster| (mean(seen, ONE, cluster, p50), mean(seen, ONE, cluster, p99));
    let all = [
        told("one node", of((1, false))),
        told("three separate nodes", (apart(seen, p50), apart(seen, p99))),
        told("three with copies", of((3, true))),
        told("three without", of((3, false))),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    let text = format!(
        "One client, all requests are hits. Half and 99% of the answers arrive within: {}.",
        if all.is_empty() { "not measured".to_owned() } else { all.join(", ") }
    );
    let fair = "On one machine, requests to three processes in turn find data of the other processes in the processor's caches. \
     So three nodes are also compared with three separate nodes that store all pages and get requests in the same turn.";
    [
        at_most(
            format!(
                "If all pages fit one node, three nodes with copies answer half of all requests within {SLOWER} times the time \
                 of one node"
            ),
            SLOWER,
            beside_one,
            "times one node's p50",
            text,
        )
        .because(
            &[Ruling::Holds],
            "Every node has copies of popular pages, so most requests need no other node.",
        ),
        at_most(
            format!("If all pages fit one node, three nodes with copies answer half of all requests within {SLOWER} times the \
             time of three separate nodes"),
            SLOWER,
            beside_apart,
            "times their p50",
            fair,
        ),
    ]
}

fn origin(seen: &Measurements) -> Finding {
    let asked = |measured: &CellResult| measured.origin_requests as f64 / measured.requests as f64;
    let ratio = |three: &CellResult, one: &CellResult| Some(asked(three) / asked(one));
    let ratios = |set| compare(seen, set, [(3, true), (1, false)], ratio);
    let percent = |set: &str, cluster| Some(mean(seen, set, cluster, |one| Some(asked(one)))?.mean * 100.0);
    let told = |(set, about, _): (&str, &str, u64)| {
        let [one, three] = [(1, false), (3, true)].map(|cluster| percent(set, cluster));
        Some(format!(
            "{:.1} of 100 requests by one node and {:.1} by three, of a set that {about}",
            one?, three?
        ))
    };
    let all: Vec<_> = SETS.into_iter().filter_map(told).collect();
    let found = ratios(THREE);
    let worst = found.iter().map(|(_, ratio)| *ratio).reduce(f64::max);
    let claim = "If the memory of one node is too small and that of three is enough, three nodes send at most half as many \
     requests to the origin";
    let why = "Each key has one owner, so three memories are as large as their sum; the working set is chosen to fit that, and every page \
               of it is requested once before anything counts.";
    let finding = Finding::given(claim, LARDER, why, worst.map(|worst| worst <= LEFT));
    let Some(worst) = worst else { return finding };
    finding.with_effect(format!("at most {worst:.2} times one node's origin requests")).saying(format!(
        "Requests to the origin: {}.",
        if all.is_empty() { "not measured".to_owned() } else { all.join("; ") }
    ))
}

fn copies(seen: &Measurements) -> Finding {
    let (mut samples, mut told_of) = (Samples::default(), Vec::new());
    for (set, about, _) in SETS {
        let spared = |with: &CellResult, without: &CellResult| Some(1.0 - with.crossings / without.crossings);
        let values = compare(seen, set, [(3, true), (3, false)], spared);
        if values.is_empty() {
            continue;
        }
        samples.add(&format!("the set that {about}"), values);
        let crossings = |copies| mean(seen, set, (3, copies), |one| Some(one.crossings));
        if let (Some(with), Some(without)) = (crossings(true), crossings(false)) {
            told_of.push(format!("{:.2} in place of {:.2} where the set {about}", with.mean, without.mean));
        }
    }
    let claim = "Copies in a tenth of each memory spare a third of the requests between three nodes";
    let unit = (100.0, "% of the requests between three nodes");
    let decided = (samples, Bound::Above(SPARED));
    Finding::sampled(claim, LARDER, ClaimKind::DependsOn("working set"), decided, unit)
        .saying(format!(
            "Without copies, two of three requests go from one of three nodes to another. With copies in a tenth of each node's \
             memory, the number for each request is: {}.",
            if told_of.is_empty() { "not measured".to_owned() } else { told_of.join(", ") }
        ))
        .because(
            &[Ruling::Depends],
            "A larger memory, relative to the set, has room for more of the requested pages in its tenth.",
        )
}

/// Returns live hit ratios and crossings with the simulated ones, pair by pair.
pub(super) fn pairs(seen: &Measurements) -> Vec<(&CellResult, &super::cell::SimulatedNodes)> {
    let step = |measured: &CellResult| seen.simulated.iter().find_map(|all| all.of(&measured.cell));
    seen.cells.iter().filter_map(|measured| Some((measured, step(measured)?))).collect()
}

fn agreement(seen: &Measurements) -> Finding {
    let pairs = pairs(seen);
    let worst = |difference: fn(&(&CellResult, &super::cell::SimulatedNodes)) -> f64| {
        pairs.iter().map(difference).map(f64::abs).fold(0.0, f64::max)
    };
    let hits = worst(|(live, simulated)| live.hit_ratio() - simulated.hit_ratio);
    let crossings = worst(|(live, simulated)| live.crossings - simulated.crossings);
    let within =
        pairs.iter().filter(|(live, simulated)| (live.hit_ratio() - simulated.hit_ratio).abs() <= MOST_APART);
    let counts = (within.count() as u64, pairs.len() as u64);
    let claim = format!(
        "Live hit ratios of clusters are within {:.0} points of the simulated ones",
        MOST_APART * 100.0
    );
    let found = Finding::counted(claim, LARDER, ClaimKind::Always, counts);
    let found = match pairs.len() {
        0 => found,
        runs => found.with_effect(format!("at most {:.2} points apart in {runs} runs", hits * 100.0)),
    };
    found.saying(format!(
        "One to three nodes, with many clients at once. Live and simulated ratios cannot be equal: keys have other owners, \
         clients overtake each other, and the simulation's policy for copies only approximates that of a node. Requests between \
         nodes differ by at most {crossings:.3} for each request. More than three nodes are only simulated."
    ))
}
