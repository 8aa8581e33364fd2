//! Belady's anomaly: more capacity, more misses (Belady, Nelson and Shedler, 1969). Searched by simulation, with every
//! capacity, and shown live on the sequence from the paper.

use larder_evict::{By, Capacity, Spec};
use serde::{Deserialize, Serialize};

use super::{COURSES, Plan, REPORT};
use crate::live::course::{Course, Page};
use crate::live::experiments::cell::{Cell, Measured, Trial};
use crate::live::findings::{Figure, Finding, Grid};
use crate::live::load::Via;
use crate::live::origin::Model;
use crate::live::replayed::outcomes;
use crate::live::{Bench, Halt, Journal, Verdict};
use crate::plot::{Axis, Plot, Unit};

/// Policies that are searched. LRU cannot have it: what a smaller cache holds, a larger one holds as well.
const SEARCHED: [&str; 3] = ["fifo", "rand", "lru"];

/// Pages in the order that made the anomaly known.
const SEQUENCE: [u32; 12] = [0, 1, 2, 3, 0, 1, 4, 0, 1, 2, 3, 4];

/// Misses of a policy on one list of requests, by capacity from 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Curve {
    course: String,
    policy: String,
    number: u64,
    misses: Vec<u32>,
}

impl Curve {
    /// The worst pair of neighbouring capacities: the smaller one, and how many misses more the larger has.
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
    bench.measure(
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
    let trace = course.trace(0, |_| 1);
    let misses = |amount| {
        let found = outcomes(&trace, &spec, Capacity { by: By::Entries, amount }, number);
        found.iter().filter(|is_hit| !**is_hit).count() as u32
    };
    let misses = (1..=course.pages.len() as u64).map(misses).collect();
    Ok(Curve { course: name.to_owned(), policy: policy.to_owned(), number, misses })
}

/// The known sequence, live under FIFO.
fn sequence(bench: &Bench, capacity: u64) -> Result<Measured, Halt> {
    let course = Course { order: SEQUENCE.to_vec(), ..Course::once(5, Page { size: 1_000, cost: 0 }) };
    let trial = Trial {
        model: Model::of(&course.pages),
        via: Via::Onc,
        capacity: Capacity { by: By::Entries, amount: capacity },
        trace: &course.trace(0, |_| 1),
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

/// The picture of the worst case, and whether there is one.
pub(super) fn conclude(journal: &Journal) -> (Option<Figure>, Finding) {
    let curves: Vec<Curve> = journal.all("curve/");
    let live: Vec<Measured> = journal.all("sequence/");
    let of = |policy: &str| curves.iter().filter(|curve| curve.policy == policy).collect::<Vec<_>>();
    let with = |policy: &str| of(policy).iter().filter(|curve| curve.worst().is_some()).count();
    let worst = of("fifo").into_iter().max_by_key(|curve| curve.worst().map_or(0, |(_, more)| more)).cloned();
    let worst = worst.filter(|curve| curve.worst().is_some());
    let (fifo, rand, lru) = (with("fifo"), with("rand"), with("lru"));
    let verdict = match curves.len() {
        0 => Verdict::Open("it was not measured".to_owned()),
        _ if fifo > 0 && rand > 0 && lru == 0 => Verdict::Holds,
        _ => Verdict::Fails,
    };
    let seen = live.iter().map(|run| {
        let misses = run.outcomes.matches('m').count();
        format!("{misses} misses with room for {}", run.capacity)
    });
    let seen = seen.collect::<Vec<_>>().join(" and ");
    let told = worst.as_ref().and_then(|curve| Some((curve, curve.worst()?))).map_or_else(
        || "no list of requests shows it under FIFO".to_owned(),
        |(curve, (small, more))| {
            format!(
                "FIFO at worst: {more} misses more with room for {} than for {small} (dataset {})",
                small + 1,
                curve.course
            )
        },
    );
    let finding = Finding {
        claim: "FIFO and RAND can miss more with more room (Belady's anomaly); LRU cannot".to_owned(),
        source: REPORT,
        verdict,
        effect: told,
        text: format!(
            "Every capacity was simulated for {} lists of requests. FIFO had the anomaly on {fifo} of them, RAND on {rand} \
             with the same lots drawn, LRU on {lru}. Live, the sequence 1 2 3 4 1 2 5 1 2 3 4 5 under FIFO had {seen}.",
            of("fifo").len()
        ),
    };
    (worst.map(|curve| picture(&curve, &curves)), finding)
}

fn picture(worst: &Curve, curves: &[Curve]) -> Figure {
    let title =
        format!("Misses against cache size where Belady's anomaly is worst (dataset {})", worst.course);
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
        plot = plot.line(&curve.policy, points);
    }
    let caption = match worst.worst() {
        Some((size, more)) => {
            let at = [size, size + 1].map(|size| (size as f64, f64::from(worst.misses[size - 1])));
            plot = plot.marks("anomaly", at.to_vec());
            format!(
                "By simulation. From {size} to {} URLs, FIFO misses {more} times more, not less.",
                size + 1
            )
        }
        None => "By simulation.".to_owned(),
    };
    Figure { name: "browsing-anomaly".to_owned(), plot, caption, data }
}
