//! Claims about clusters, and their verdicts.

use std::collections::BTreeSet;

use super::Seen;
use super::cell::{Cell, Measured};
use super::plan::{ONE, SETS, THREE};
use crate::live::findings::{Finding, told};
use crate::live::{Contrast, Interval, Verdict};

const LARDER: &str = "Larder";
/// How many times one node's time half of three nodes' answers may take where everything fits.
const SLOWER: f64 = 1.1;
/// What three nodes may ask of the origin, of what one does whose memory is too small.
const LEFT: f64 = 0.5;
/// The share of requests between nodes that copies spare.
const SPARED: f64 = 1.0 / 3.0;
/// By how much live and simulated hit ratios may differ.
const MOST_APART: f64 = 0.02;

pub(super) fn claims(seen: &Seen) -> Vec<Finding> {
    let [beside_one, beside_apart] = times(seen);
    vec![beside_one, beside_apart, origin(seen), copies(seen), agreement(seen)]
}

/// The measurement of so many nodes of `set`.
fn find<'a>(
    seen: &'a Seen,
    set: &str,
    (nodes, copies): (u16, bool),
    repetition: u64,
) -> Option<&'a Measured> {
    let is_it = |cell: &Cell| {
        let Cell { set: of, nodes: count, copies: has, apart, repetition: at } = cell;
        !apart && (of.as_str(), *count, *has, *at) == (set, nodes, copies, repetition)
    };
    seen.cells.iter().find(|measured| is_it(&measured.cell))
}

/// What `compare` says of two clusters with the same requests, once for each repetition that has both.
fn compare(
    seen: &Seen,
    set: &str,
    [one, other]: [(u16, bool); 2],
    compare: impl Fn(&Measured, &Measured) -> Option<f64>,
) -> Vec<f64> {
    let repetitions: BTreeSet<u64> = seen.cells.iter().map(|measured| measured.cell.repetition).collect();
    let pair = |&at: &u64| compare(find(seen, set, one, at)?, find(seen, set, other, at)?);
    repetitions.iter().filter_map(pair).collect()
}

/// The mean over the repetitions.
pub(super) fn mean(
    seen: &Seen,
    set: &str,
    (nodes, copies): (u16, bool),
    value: impl Fn(&Measured) -> Option<f64>,
) -> Option<Interval> {
    let of = |cell: &Cell| !cell.apart && cell.set == set && (cell.nodes, cell.copies) == (nodes, copies);
    let values: Vec<f64> = seen.cells.iter().filter(|one| of(&one.cell)).filter_map(value).collect();
    Interval::of(&values)
}

/// That a ratio is at most `most`, where there is any; in the words of `unit`.
fn at_most(claim: String, most: f64, ratios: &[f64], unit: &str, text: String) -> Finding {
    let mut contrast = Contrast::default();
    if !ratios.is_empty() {
        contrast.add("all", ratios.iter().map(|ratio| most - ratio).collect());
    }
    let effect = Interval::of(ratios).map_or_else(String::new, |ratio| plain(&ratio, 1.0, unit));
    Finding { claim, source: LARDER, verdict: contrast.verdict(), effect, text }
}

/// An interval in words, of what is no difference.
fn plain(interval: &Interval, scale: f64, unit: &str) -> String {
    told(interval, scale, unit).replace('+', "")
}

/// Nodes that know nothing of each other, and have everything.
fn apart(seen: &Seen, value: impl Fn(&Measured) -> Option<f64>) -> Option<Interval> {
    let of = seen.cells.iter().filter(|measured| measured.cell.apart);
    Interval::of(&of.filter_map(value).collect::<Vec<_>>())
}

/// What half of the answers take of three nodes, beside one node, and beside three that are no cluster.
fn times(seen: &Seen) -> [Finding; 2] {
    let p50 = |measured: &Measured| Some(measured.alone?.p50);
    let p99 = |measured: &Measured| Some(measured.alone?.p99);
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
        told("three that are no cluster", (apart(seen, p50), apart(seen, p99))),
        told("three with copies", of((3, true))),
        told("three without", of((3, false))),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    let text = format!(
        "What is popular has a copy on every node, so that most requests are answered where they arrive; the others go to their \
         owner and back. One client, everything a hit; half of all answers, and 99 of 100, within: {}.",
        if all.is_empty() { "not measured".to_owned() } else { all.join(", ") }
    );
    let fair = "One client that asks three processes on one machine in turn finds each of them cold: the processor has forgotten it \
                since its last request. On machines of their own that is not so. What the cluster adds is seen beside three larders \
                that know nothing of each other, have everything, and are asked in the same turn.";
    [
        at_most(
            format!(
                "Where everything fits one node, three with copies answer half of all requests within {SLOWER} times its time"
            ),
            SLOWER,
            &beside_one,
            "times one node's p50",
            text,
        ),
        at_most(
            format!("The same within {SLOWER} times what three nodes take that are no cluster"),
            SLOWER,
            &beside_apart,
            "times their p50",
            fair.to_owned(),
        ),
    ]
}

fn origin(seen: &Seen) -> Finding {
    let asked = |measured: &Measured| measured.origin_requests as f64 / measured.requests as f64;
    let ratio = |three: &Measured, one: &Measured| Some(asked(three) / asked(one));
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
    let text = format!(
        "Each key has one owner, so that three memories are as large as their sum, less what copies take. A set that does not fit \
         even that gains less, as it would from a larger memory of one node. The origin was asked for: {}.",
        if all.is_empty() { "not measured".to_owned() } else { all.join("; ") }
    );
    let claim = "Where one node's memory is too small and three nodes' is enough, three ask the origin at most half as often";
    at_most(claim.to_owned(), LEFT, &ratios(THREE), "times one node's origin requests", text)
}

fn copies(seen: &Seen) -> Finding {
    let mut contrast = Contrast::default();
    let mut told_of = Vec::new();
    for (set, about, _) in SETS {
        let spared = |with: &Measured, without: &Measured| Some(1.0 - with.crossings / without.crossings);
        let values = compare(seen, set, [(3, true), (3, false)], spared);
        if values.is_empty() {
            continue;
        }
        contrast.add(&format!("the set that {about}"), values.iter().map(|spared| spared - SPARED).collect());
        let crossings = |copies| mean(seen, set, (3, copies), |one| Some(one.crossings));
        if let (Some(with), Some(without)) = (crossings(true), crossings(false)) {
            told_of.push(format!("{:.2} in place of {:.2} where the set {about}", with.mean, without.mean));
        }
    }
    let effect = contrast.overall().map_or_else(String::new, |overall| {
        let spared = Interval { mean: overall.mean + SPARED, ..overall };
        plain(&spared, 100.0, "% of the requests between three nodes")
    });
    let text = format!(
        "Without copies two of three requests go from one of three nodes to another, whatever is popular. A tenth of each node's \
         memory for copies left for each request: {}. The larger a memory is against the set, the more of what is asked for \
         fits into its tenth.",
        if told_of.is_empty() { "not measured".to_owned() } else { told_of.join(", ") }
    );
    Finding {
        claim: "Copies in a tenth of each memory spare a third of the requests between three nodes"
            .to_owned(),
        source: LARDER,
        verdict: contrast.verdict(),
        effect,
        text,
    }
}

/// Live hit ratios and crossings beside simulated ones, pair by pair.
pub(super) fn pairs(seen: &Seen) -> Vec<(&Measured, &super::cell::Step)> {
    let step = |measured: &Measured| seen.simulated.iter().find_map(|all| all.of(&measured.cell));
    seen.cells.iter().filter_map(|measured| Some((measured, step(measured)?))).collect()
}

fn agreement(seen: &Seen) -> Finding {
    let pairs = pairs(seen);
    let worst = |difference: fn(&(&Measured, &super::cell::Step)) -> f64| {
        pairs.iter().map(difference).map(f64::abs).fold(0.0, f64::max)
    };
    let hits = worst(|(live, simulated)| live.hit_ratio() - simulated.hit_ratio);
    let crossings = worst(|(live, simulated)| live.crossings - simulated.crossings);
    let verdict = match pairs.len() {
        0 => Verdict::Open("it was not measured".to_owned()),
        _ if hits <= MOST_APART => Verdict::Holds,
        _ => Verdict::Fails,
    };
    let effect = match pairs.len() {
        0 => String::new(),
        _ => format!("at most {:.2} points apart", hits * 100.0),
    };
    let text = format!(
        "Of {} runs of one to three nodes, with many clients at once. They cannot be equal: keys have other owners, clients overtake each \
         other, and the simulation keeps copies by a policy that is near what a node does and not the same. Requests between \
         nodes differ by {crossings:.3} for each request at most. Beyond three nodes the simulation speaks alone.",
        pairs.len()
    );
    let claim = format!(
        "Live hit ratios of clusters are within {:.0} points of the simulated ones",
        MOST_APART * 100.0
    );
    Finding { claim, source: LARDER, verdict, effect, text }
}
