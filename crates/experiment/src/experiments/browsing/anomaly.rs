//! Belady's anomaly: more capacity causes more misses (Belady, Nelson and Shedler, 1969). The experiment searches for
//! it by simulation, with every capacity, and shows it live on the sequence from the paper.

use larder_evict::{By, Capacity, Spec};
use larder_lab::plot::{Axis, Plot, Unit};
use larder_load::Via;
use serde::{Deserialize, Serialize};

use super::{COURSES, Plan, seed};
use crate::course::{Course, Page};
use crate::experiments::LARDER;
use crate::experiments::cell::{Cell, CellResult, Trial};
use crate::findings::{Figure, Finding, Grid, Ruling, colour};
use crate::origin::Model;
use crate::replayed::outcomes;
use crate::{Bench, ClaimKind, Halt, Journal};

/// The policies that are searched. LRU cannot have the anomaly: a larger cache always holds all objects of a smaller
/// one.
const SEARCHED: [&str; 3] = ["fifo", "rand", "lru"];

/// The sequence of pages for which the anomaly was published.
const SEQUENCE: [u32; 12] = [0, 1, 2, 3, 0, 1, 4, 0, 1, 2, 3, 4];

/// Misses of a policy on one list of requests, by capacity from 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Curve {
    course: String,
    policy: String,
    number: u64,
    misses: Vec<u32>,
    /// The requests that hit with one capacity, and miss with the next larger one.
    #[serde(default)]
    turned: u32,
}

impl Curve {
    /// Returns the worst pair of neighbouring capacities: the smaller capacity, and the number of additional misses
    /// with the larger one.
    fn worst(&self) -> Option<(usize, u32)> {
        let steps = self.misses.windows(2).enumerate();
        let rises = steps.filter_map(|(at, pair)| Some((at + 1, pair[1].checked_sub(pair[0])?)));
        rises.filter(|(_, more)| *more > 0).max_by_key(|(_, more)| *more)
    }
}

pub(super) fn measure(bench: &mut Bench, plan: &Plan) -> Result<(), Halt> {
    let scale = bench.scale;
    let lists =
        COURSES.iter().flat_map(|(course, _)| (0..plan.searched).map(move |number| (*course, number)));
    let runs: Vec<_> =
        lists.flat_map(|(course, number)| SEARCHED.map(|policy| (course, number, policy))).collect();
    bench.measure_together(
        &runs,
        |(course, number, policy)| format!("curve/{course}/{number:04}/{policy}"),
        |_, (course, number, policy)| {
            curve(&plan.course(course, scale.of(*number)), (course, *number, policy))
        },
    )?;
    bench.measure(
        &[3, 4],
        |capacity| format!("sequence/{capacity}"),
        |bench, capacity| sequence(bench, *capacity),
    )
}

fn curve(course: &Course, (name, number, policy): (&str, u64, &str)) -> Result<Curve, Halt> {
    let spec = Spec::parse(policy).map_err(|error| Halt::Failed(error.to_string()))?;
    let trace = course.trace();
    let hits = |amount| outcomes(&trace, &spec, Capacity { by: By::Entries, amount }, number);
    let all: Vec<Vec<bool>> = (1..=course.pages.len() as u64).map(hits).collect();
    let misses = all.iter().map(|hits| hits.iter().filter(|is_hit| !**is_hit).count() as u32).collect();
    let turned = |pair: &[Vec<bool>]| {
        pair[0].iter().zip(&pair[1]).filter(|(small, large)| **small && !**large).count()
    };
    let turned = all.windows(2).map(turned).sum::<usize>() as u32;
    Ok(Curve { course: name.to_owned(), policy: policy.to_owned(), number, misses, turned })
}

/// Measures the published sequence live under FIFO.
fn sequence(bench: &Bench, capacity: u64) -> Result<CellResult, Halt> {
    let course = Course { order: SEQUENCE.to_vec(), ..Course::once(5, Page { size: 1_000, cost: 0 }) };
    let trial = Trial {
        model: Model::of(&course.pages),
        via: Via::Onc,
        capacity: Capacity { by: By::Entries, amount: capacity },
        course: &course,
    };
    let cell = Cell {
        course: "sequence".to_owned(),
        latency: "none".to_owned(),
        policy: "fifo".to_owned(),
        percent: (capacity * 20) as u32,
        repetition: 0,
    };
    trial.take(bench, &cell)
}

/// Returns the picture of the worst case, and the claims about the anomaly.
pub(super) fn conclude(journal: &Journal) -> (Option<Figure>, Vec<Finding>) {
    let curves: Vec<Curve> = journal.all("curve/");
    let live: Vec<CellResult> = journal.all("sequence/");
    let worst = curves.iter().filter(|curve| curve.policy == "fifo");
    let worst = worst.max_by_key(|curve| curve.worst().map_or(0, |(_, more)| more));
    let worst = worst.filter(|curve| curve.worst().is_some()).cloned();
    let mut findings: Vec<Finding> = ["fifo", "rand"].map(|policy| turned(&curves, policy)).into();
    findings.extend([fifo(&curves, worst.as_ref(), &live), rand(&curves), lru(&curves)]);
    (worst.map(|curve| picture(&curve, &curves)), findings)
}

/// Returns the number of lists with the anomaly under a policy, and the number of all lists.
fn counts(curves: &[Curve], policy: &str) -> (u64, u64) {
    let of = curves.iter().filter(|curve| curve.policy == policy);
    (of.clone().filter(|curve| curve.worst().is_some()).count() as u64, of.count() as u64)
}

/// Decides the seed report's observation, of single requests.
fn turned(curves: &[Curve], policy: &str) -> Finding {
    let of = || curves.iter().filter(|curve| curve.policy == policy);
    let (so, of) = (of().filter(|curve| curve.turned > 0).count() as u64, of().count() as u64);
    let claim =
        format!("Under {}, some request hits in a cache and misses in a larger one", policy.to_uppercase());
    let source = seed(
        "For FIFO and RAND, we noticed a situation where a cache block which was hit when cache size is less was missed when we \
         increased the cache size.",
    );
    Finding::counted(claim, source, ClaimKind::Exists, (so, of))
        .saying("The simulation covers every capacity for each list of the datasets; a case is a list.")
        .because(
            &[Ruling::Holds],
            "This alone is not Belady's anomaly, by which all requests together miss more in the larger cache.",
        )
}

/// Decides the claim for FIFO. The published sequence counts as an example, like those that are found.
fn fifo(curves: &[Curve], worst: Option<&Curve>, live: &[CellResult]) -> Finding {
    let (found, searched) = counts(curves, "fifo");
    let misses: Vec<_> = live.iter().map(|run| (run.capacity, run.outcomes.matches('m').count())).collect();
    let is_live =
        misses.iter().any(|(small, few)| misses.iter().any(|(large, many)| small < large && few < many));
    let shown = if misses.len() > 1 { (u64::from(is_live), 1) } else { (0, 0) };
    let told = misses.iter().map(|(capacity, misses)| format!("{misses} misses with room for {capacity}"));
    let told = told.collect::<Vec<_>>().join(" and ");
    let effect = worst.and_then(|curve| Some((curve, curve.worst()?))).map_or_else(
        || format!("{found} of {searched} lists of the datasets"),
        |(curve, (small, more))| {
            format!(
                "{found} of {searched} lists of the datasets; the largest difference is {more} more misses with room for {} URLs \
                 than for {small} (dataset {})",
                small + 1,
                curve.course
            )
        },
    );
    let claim = "For some requests, FIFO misses more in a larger cache (Belady's anomaly)";
    let finding = Finding::counted(claim, LARDER, ClaimKind::Exists, (found + shown.0, searched + shown.1));
    let finding = if searched > 0 { finding.with_effect(effect) } else { finding };
    finding.saying(format!(
        "The simulation covers every capacity for {searched} lists of the two datasets. Live, the published sequence 1 2 3 4 1 2 \
         5 1 2 3 4 5 had {}.",
        if told.is_empty() { "no run" } else { &told }
    ))
}

fn rand(curves: &[Curve]) -> Finding {
    let claim = "For some requests, RAND misses more in a larger cache with the same random numbers";
    Finding::counted(claim, LARDER, ClaimKind::Exists, counts(curves, "rand"))
        .saying("The simulation covers every capacity for each list; a case is a list.")
        .because(
            &[Ruling::Holds],
            "RAND may evict the page of the next request. This is chance, not a property of the requests: the same random \
             numbers choose other pages in a larger cache.",
        )
}

fn lru(curves: &[Curve]) -> Finding {
    let (found, searched) = counts(curves, "lru");
    let why = "LRU is a stack algorithm (Mattson and others, 1970): a larger cache stores every page that a smaller one stores.";
    let finding = Finding::given(
        "LRU never misses more in a larger cache",
        LARDER,
        why,
        (searched > 0).then_some(found == 0),
    );
    if searched > 0 {
        finding.with_effect(format!("{found} of {searched} lists have the anomaly"))
    } else {
        finding
    }
}

fn picture(worst: &Curve, curves: &[Curve]) -> Figure {
    let title =
        format!("Misses by cache size, for the list with the largest anomaly (dataset {})", worst.course);
    let mut data = Grid::new(&title, &["policy", "cache size in URLs", "misses"]);
    let mut plot = Plot::new(
        &title,
        Axis::linear("cache size in URLs", Unit::Count),
        Axis::linear("misses", Unit::Count),
    );
    let same = curves.iter().filter(|curve| (&curve.course, curve.number) == (&worst.course, worst.number));
    for curve in same {
        let points: Vec<_> =
            (1..).zip(&curve.misses).map(|(size, misses)| (f64::from(size), f64::from(*misses))).collect();
        for (size, misses) in &points {
            data.row([curve.policy.clone(), size.to_string(), misses.to_string()]);
        }
        plot = plot.member((colour(&curve.policy), 0), &curve.policy, points);
    }
    let caption = match worst.worst() {
        Some((size, more)) => {
            let at = [size, size + 1].map(|size| (size as f64, f64::from(worst.misses[size - 1])));
            plot = plot.marks("anomaly", at.to_vec());
            format!("Simulated. From {size} to {} URLs, FIFO has {more} more misses.", size + 1)
        }
        None => "Simulated.".to_owned(),
    };
    Figure { name: "browsing-anomaly".to_owned(), plot, caption, data }
}
