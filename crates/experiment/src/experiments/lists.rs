//! Simulation of many lists of requests: it decides claims where live and simulated hits are equal.

use std::ops::RangeInclusive;

use larder_evict::{Capacity, Spec};
use larder_lab::trace::Trace;
use larder_lab::workload::Random;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::Halt;
use crate::course::Course;
use crate::replayed::{outcomes, share};
use crate::statistics::Samples;

/// The pauses between requests of a client that reads URLs from a file, in milliseconds.
const PAUSES: RangeInclusive<f64> = 100.0..=200.0;

/// The results of several policies for one list of requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct List {
    /// The kind of requests.
    pub(super) course: String,
    /// The percentage of requests that repeat a recent page on purpose; 0 for workloads without this parameter.
    pub(super) locality: u32,
    /// The number of the list.
    pub(super) number: u64,
    pub(super) runs: Vec<Run>,
}

/// The results of one policy at one cache size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) policy: String,
    /// The cache's size, in percent of the total of all pages.
    pub(super) percent: u32,
    pub(super) hit_ratio: f64,
    /// The cost of misses per request, in milliseconds.
    pub(super) cost_ms: f64,
    /// The same, if costs do not depend on sizes.
    #[serde(default)]
    pub(super) apart_ms: f64,
    /// The cost per request as long as in the seed report, measured by a clock with whole seconds, with pauses between
    /// requests.
    pub(super) clocked_ms: f64,
    /// The same measured by an exact clock.
    pub(super) exact_ms: f64,
}

impl List {
    pub(super) fn key(course: &str, locality: u32, number: u64) -> String {
        format!("list/{course}/{locality:03}/{number:04}")
    }

    /// Replays `course` under each of `policies` at each size. Fails if a policy is unknown.
    pub(super) fn new(
        (name, locality, number): (&str, u32, u64),
        (course, trace): (&Course, &Trace),
        policies: &[&str],
        (percents, slow): (&[u32], f64),
        capacity: impl Fn(u32) -> Capacity,
    ) -> Result<Self, Halt> {
        let (mut runs, mut random) = (Vec::new(), Random::seed_from_u64(number));
        let apart = costs_apart(course, &mut random);
        let pauses: Vec<f64> = course.order.iter().map(|_| random.random_range(PAUSES)).collect();
        for policy in policies {
            let spec = Spec::parse(policy).map_err(|error| Halt::Failed(error.to_string()))?;
            for &percent in percents {
                let hits = outcomes(trace, &spec, capacity(percent), number);
                let [cost_ms, clocked_ms, exact_ms] = times(course, &hits, slow, &pauses);
                let missed = course.order.iter().zip(&hits).filter(|(_, is_hit)| !**is_hit);
                let apart_ms: f64 = missed.map(|(page, _)| apart[*page as usize]).sum();
                let apart_ms = larder_lab::replay::ratio(apart_ms, hits.len() as f64);
                let (policy, hit_ratio) = ((*policy).to_owned(), share(&hits));
                runs.push(Run { policy, percent, hit_ratio, cost_ms, apart_ms, clocked_ms, exact_ms });
            }
        }
        Ok(Self { course: name.to_owned(), locality, number, runs })
    }

    /// Returns the run of a policy at a size.
    pub(super) fn run(&self, policy: &str, percent: u32) -> Option<&Run> {
        self.runs.iter().find(|run| run.policy == policy && run.percent == percent)
    }
}

/// Returns the costs of the pages' misses in milliseconds if they are those of other pages, so that they do not depend on
/// sizes.
fn costs_apart(course: &Course, random: &mut Random) -> Vec<f64> {
    let mut costs: Vec<f64> = course.pages.iter().map(|page| f64::from(page.cost) / 1e3).collect();
    costs.shuffle(random);
    costs
}

/// Returns milliseconds per request: the cost of misses, and `slow` times that by a clock of whole seconds and by an
/// exact clock, with a pause before each request. Without pauses, the readings of the clock would cancel.
fn times(course: &Course, hits: &[bool], slow: f64, pauses: &[f64]) -> [f64; 3] {
    let (mut cost, mut exact, mut clocked, mut now) = (0.0, 0.0, 0.0, 0.0_f64);
    for ((&page, is_hit), pause) in course.order.iter().zip(hits).zip(pauses) {
        let took = if *is_hit { 0.0 } else { f64::from(course.pages[page as usize].cost) / 1e3 };
        let begun = now + pause;
        now = begun + took * slow;
        // The printed value is the difference of two readings.
        clocked += ((now / 1e3).floor() - (begun / 1e3).floor()) * 1e3;
        cost += took;
        exact += took * slow;
    }
    [cost, clocked, exact].map(|all| larder_lab::replay::ratio(all, hits.len() as f64))
}

/// Returns the sizes of the lists, ascending.
pub(super) fn percents(lists: &[&List]) -> Vec<u32> {
    let mut all: Vec<u32> = lists.iter().flat_map(|list| list.runs.iter().map(|run| run.percent)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns by how much `value` is larger under one policy than under each of the others, by cache size.
pub(super) fn ahead(lists: &[&List], (one, others): (&str, &[&str]), value: impl Fn(&Run) -> f64) -> Samples {
    let mut samples = Samples::default();
    for percent in percents(lists) {
        for other in others.iter().filter(|other| **other != one) {
            let difference = |list: &&&List| {
                let (one, other) = (list.run(one, percent)?, list.run(other, percent)?);
                Some((list.number, value(one) - value(other)))
            };
            samples.add(&format!("{percent}%"), lists.iter().filter_map(|list| difference(&list)));
        }
    }
    samples
}

pub(super) fn those<'a>(lists: &'a [List], course: &str, locality: u32) -> Vec<&'a List> {
    lists.iter().filter(|list| list.course == course && list.locality == locality).collect()
}

/// A fall of the hit ratio: the list, the policy, the size at which it falls, and by how much.
type Fall<'l> = (&'l List, &'l str, u32, f64);

/// Compares neighbouring sizes. Returns the number of lists and policies whose hit ratio never falls, the number of
/// all, and the deepest fall.
pub(super) fn growth(lists: &[List]) -> ((u64, u64), Option<Fall<'_>>) {
    let (mut so, mut of, mut worst) = (0, 0, None::<Fall<'_>>);
    for list in lists {
        for runs in list.runs.chunk_by(|one, next| one.policy == next.policy) {
            // A policy with random choices at each size can be worse by chance.
            if runs.iter().any(|run| run.policy == "rand") {
                continue;
            }
            let falls = runs.windows(2).map(|pair| (pair[0].hit_ratio - pair[1].hit_ratio, &pair[1]));
            let deepest = falls.max_by(|one, other| one.0.total_cmp(&other.0));
            of += 1;
            match deepest {
                Some((fall, run)) if fall > 0.0 => {
                    if worst.is_none_or(|(.., known)| fall > known) {
                        worst = Some((list, &run.policy, run.percent, fall));
                    }
                }
                _ => so += 1,
            }
        }
    }
    ((so, of), worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::Page;

    fn course(order: &[u32]) -> Course {
        Course { order: order.to_vec(), ..Course::once(3, Page { size: 100, cost: 700 }) }
    }

    #[test]
    fn a_clock_of_whole_seconds_counts_the_seconds_that_begin() {
        let hits = [false, true, false, false];
        // 0.7 s each at a thousand times the cost, from 0.1, 1.1 and 1.9: a second begins in the last only.
        let [cost, clocked, exact] = times(&course(&[0, 0, 1, 2]), &hits, 1e3, &[100.0, 150.0, 150.0, 100.0]);
        assert!((cost - 0.525).abs() < 1e-9 && (exact - 525.0).abs() < 1e-6 && clocked == 250.0);
    }

    #[test]
    fn costs_apart_from_sizes_are_those_of_other_pages() {
        let mut course = course(&[0, 1, 2]);
        (0..).zip(&mut course.pages).for_each(|(at, page)| page.cost = at * 1_000);
        let mut costs = costs_apart(&course, &mut Random::seed_from_u64(3));
        costs.sort_by(f64::total_cmp);
        assert_eq!(costs, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn a_fall_of_the_hit_ratio_is_found() {
        let run = |percent, hit_ratio| Run {
            policy: "maxs".to_owned(),
            percent,
            hit_ratio,
            cost_ms: 0.0,
            apart_ms: 0.0,
            clocked_ms: 0.0,
            exact_ms: 0.0,
        };
        let list = |ratios: [f64; 3]| List {
            course: "staged".to_owned(),
            locality: 0,
            number: 0,
            runs: [10, 20, 40].into_iter().zip(ratios).map(|(percent, ratio)| run(percent, ratio)).collect(),
        };
        let lists = [list([0.1, 0.2, 0.3]), list([0.1, 0.4, 0.3])];
        let ((so, of), worst) = growth(&lists);
        let (_, policy, percent, fall) = worst.unwrap();
        assert_eq!((so, of, policy, percent), (1, 2, "maxs", 40));
        assert!((fall - 0.1).abs() < 1e-12);
    }
}
