//! The effect of policies and cache size on hits and times, and the price of the size.

use super::super::cell::CellResult;
use super::super::plan::{EVICTING, POLICIES, POLICY, SIZE};
use super::super::simulated::{SimulatedRatio, knee};
use super::super::{Curve, Measurements, seed};
use super::{Bound, Conditions, LARDER, PERCENT, POINTS, Ruling, SAME, average, paired, slower, those};
use crate::findings::Finding;
use crate::{ClaimKind, Prices};

/// The share of the largest hit ratio that is enough, as in the report.
pub(in super::super) const ENOUGH: f64 = 0.9;
/// The maximum mean difference between live and simulated hit ratios.
const MOST_APART: f64 = 0.01;
/// The difference up to which hit ratios count as equal.
const ALIKE: f64 = 0.005;

pub(super) fn claims(seen: &Measurements) -> Vec<Finding> {
    let cells = &seen.cells;
    vec![
        tinylfu(cells),
        simple_is_faster(cells),
        all_alike(cells),
        few_megabytes(seen),
        little_is_enough(seen),
        below(seen, "lfu", Bound::Below(0.0)),
        below(seen, "tinylfu", Bound::Above(0.0)),
        price(seen),
        agreement(cells),
    ]
}

fn of_policy<'a>(cells: &'a [CellResult], policy: &str) -> Vec<&'a CellResult> {
    those(cells, POLICY, |cell| cell.policy == policy)
}

fn tinylfu(cells: &[CellResult]) -> Finding {
    let (one, other) = (of_policy(cells, "tinylfu"), of_policy(cells, "lru"));
    let mut conditions = Conditions::default();
    conditions.add(format!("{EVICTING}%"), paired(&one, &other, slower));
    let text = format!(
        "In a validating cache of {EVICTING}% that evicts, TinyLFU had {:.1}% hits and took {:.0} us of CPU time for a request; \
         LRU had {:.1}% and took {:.0} us. In the seed report, TinyLFU was sometimes much slower.",
        average(&one, |measured| measured.gets.hit_ratio) * 100.0,
        average(&one, |measured| measured.proxies_us),
        average(&other, |measured| measured.gets.hit_ratio) * 100.0,
        average(&other, |measured| measured.proxies_us),
    );
    let claim = format!("Under TinyLFU requests take at most {:.0}% longer than under LRU", SAME * 100.0);
    conditions.decide(claim, LARDER, Bound::Below(SAME), PERCENT, text).because(
        &[Ruling::Holds],
        "The seed report suspected the lock of TinyLFU's counters. Here counting is a few additions under the shard's lock, \
         which each request takes anyway.",
    )
}

fn simple_is_faster(cells: &[CellResult]) -> Finding {
    let mut conditions = Conditions::default();
    for dear in ["gds", "gdsf", "tinylfu"] {
        for simple in ["lru", "lfu"] {
            let name = format!("{} against {}", dear.to_uppercase(), simple.to_uppercase());
            conditions.add(name, paired(&of_policy(cells, dear), &of_policy(cells, simple), slower));
        }
    }
    let spent = |policy: &&str| {
        let of = of_policy(cells, policy);
        format!("{} {:.0} us", policy.to_uppercase(), average(&of, |measured| measured.proxies_us))
    };
    let text = format!(
        "The value is the additional time of requests. CPU time for a request, of cache and gateway together: {}.",
        POLICIES.iter().map(spent).collect::<Vec<_>>().join(", ")
    );
    let claim = "LRU and LFU are faster than GDS, GDSF and TinyLFU, because they do less bookkeeping";
    let source =
        seed("The conventional eviction policies, LRU and LFU, perform slightly better than others.");
    conditions.decide(claim, source, Bound::Above(0.0), PERCENT, text).because(
        &[Ruling::Fails, Ruling::Depends],
        "A policy's work is a small part of a request's time. Policies differ more in the number of answers that they keep.",
    )
}

/// Returns the hit ratios of the policies if there are no evictions.
fn all_alike(cells: &[CellResult]) -> Finding {
    let lru = those(cells, SIZE, |cell| cell.percent == 0 && cell.policy == "lru");
    let apart = |policy: &&str| {
        let of = those(cells, SIZE, |cell| cell.percent == 0 && cell.policy == **policy);
        paired(&of, &lru, |one, other| {
            let (hits, bytes) = (
                one.gets.hit_ratio - other.gets.hit_ratio,
                one.gets.byte_hit_ratio - other.gets.byte_hit_ratio,
            );
            hits.abs().max(bytes.abs())
        })
    };
    let all: Vec<f64> =
        POLICIES.iter().filter(|policy| **policy != "lru").flat_map(apart).map(|(_, apart)| apart).collect();
    let worst = all.iter().copied().fold(0.0, f64::max);
    let evicting = those(cells, SIZE, |cell| cell.percent == EVICTING);
    let ratios = POLICIES.map(|policy| {
        let of: Vec<_> = evicting.iter().filter(|measured| measured.cell.policy == policy).copied().collect();
        format!("{} {:.1}%", policy.to_uppercase(), average(&of, |measured| measured.gets.hit_ratio) * 100.0)
    });
    let why = "A policy only selects objects for eviction. Without evictions, all policies are the same.";
    let claim = "With room for all answers, all policies have equal hit ratios and byte hit ratios";
    let source = seed("the Hit Ratio and Byte Hit Ratio are nearly identical for all eviction policies.");
    let finding = Finding::given(claim, source, why, (!all.is_empty()).then_some(worst <= ALIKE));
    if all.is_empty() {
        return finding;
    }
    finding
        .with_effect(format!("at most {:.2} points of hit ratio apart", worst * 100.0))
        .saying(format!("In a cache of {EVICTING}%, which evicts: {}.", ratios.join(", ")))
}

/// Returns, for each repetition of a policy, the curve and the smallest size that is enough.
fn knees<'a>(seen: &'a Measurements, policy: &str) -> Vec<(&'a Curve, SimulatedRatio)> {
    let of = seen.curves.iter().filter(|curve| curve.policy == policy);
    of.filter_map(|curve| Some((curve, knee(&curve.steps, ENOUGH)?))).collect()
}

/// Returns the mean of the smallest sizes that are enough for `policy`, in bytes.
pub(in super::super) fn enough(seen: &Measurements, policy: &str) -> Option<f64> {
    let sizes: Vec<f64> = knees(seen, policy).iter().map(|(_, step)| step.capacity as f64).collect();
    (!sizes.is_empty()).then(|| super::mean(&sizes))
}

/// Decides the seed report's size of a cache.
fn few_megabytes(seen: &Measurements) -> Finding {
    const CLAIMED: f64 = 7e6;
    let largest = POLICIES.iter().filter_map(|policy| enough(seen, policy)).reduce(f64::max);
    let claim = "A cache of 7 MB keeps 90% of the hits under every policy";
    let source = seed(
        "In Figure 11 we can see that for all eviction policies a cache size of 7\u{d7}10^6 bytes (or almost 7 MB) is sufficient to \
         obtain 90% of the performance (in terms of hit ratio) of the full proxy cache.",
    );
    let why = "The services are a model of the authors', so the size of all answers together is the model's.";
    let finding = Finding::given(claim, source, why, largest.map(|largest| largest <= CLAIMED));
    match largest {
        Some(largest) => finding.with_effect(format!("at most {:.2} MB are needed", largest / 1e6)),
        None => finding,
    }
}

fn little_is_enough(seen: &Measurements) -> Finding {
    let mut conditions = Conditions::default();
    for policy in POLICIES {
        let share = |(curve, step): &(&Curve, SimulatedRatio)| {
            let most = curve.steps.last().map_or(1, |last| last.capacity.max(1));
            // The last size is a tenth larger than all storable objects.
            (curve.repetition, step.capacity as f64 / most as f64 * 1.1)
        };
        conditions.add(policy.to_uppercase(), knees(seen, policy).iter().map(share).collect());
    }
    let sizes = POLICIES.iter().filter_map(|policy| {
        Some(format!("{} {:.0} kB", policy.to_uppercase(), enough(seen, policy)? / 1e3))
    });
    let text = format!(
        "The smallest caches that keep {:.0}% of the hits of a cache with room for all answers: {}. Simulated with the requests \
         of the live runs; the picture also shows live runs.",
        ENOUGH * 100.0,
        sizes.collect::<Vec<_>>().join(", ")
    );
    let claim = "A cache for half of all answers keeps 90% of the hits";
    conditions.decide(claim, LARDER, Bound::Below(0.5), (100.0, "% of the size of all answers"), text)
}

/// Compares a policy in caches that are too small with the mean of the others.
fn below(seen: &Measurements, policy: &str, bound: Bound) -> Finding {
    let mut conditions = Conditions::default();
    for part in [EVICTING / 2, EVICTING] {
        let of = seen.curves.iter().filter(|curve| curve.policy == policy);
        let lead = |own: &Curve| {
            let (at, ratio) = own.at_percent(part)?;
            let is_other = |curve: &&Curve| curve.repetition == own.repetition && curve.policy != policy;
            let others = seen.curves.iter().filter(is_other);
            let others: Vec<_> = others.filter_map(|curve| Some(curve.steps.get(at)?.hit_ratio)).collect();
            (!others.is_empty()).then(|| (own.repetition, ratio - super::mean(&others)))
        };
        conditions.add(format!("{part}%"), of.filter_map(lead).collect());
    }
    let text =
        "Simulated, compared with the mean of the other four. Live hit ratios are those of the simulation."
            .to_owned();
    let source = seed(
        "If the cache would be smaller than this, the the LFU policy performs considerably worse and the TinyLFU policy slight better \
         than the other eviction algorithms.",
    );
    match bound {
        Bound::Below(_) => {
            let claim = "In caches that are too small, LFU has fewer hits than the others";
            conditions.decide(claim, source, bound, POINTS, text).because(
                &[Ruling::Fails],
                "The popularity of endpoints is constant in a run, so counts identify the popular ones, and a confirmed answer \
                 keeps its count. In a cache that stores a confirmed answer as a new object, LFU loses the count at each use. \
                 This could explain the seed report's result.",
            )
        }
        Bound::Above(_) => {
            let claim = "In caches that are too small, TinyLFU has more hits than the others";
            conditions.decide(claim, source, bound, POINTS, text).because(
                &[Ruling::Holds],
                "TinyLFU admits an answer only if it had more requests than the answer that it would evict. It also counts \
                 requests for answers that were never stored.",
            )
        }
    }
}

/// Decides whether the smallest machine is enough.
fn price(seen: &Measurements) -> Finding {
    let claim = "A machine with half a gigabyte is enough for the cache, and costs a twentieth of the most expensive one";
    let why =
        "The prices come from a table, and the data fit each machine of it. --prices takes another table.";
    let source = seed(
        "Here we have 0.5 GB of memory to our availability, which is more than enough to run the cache with similar performance as the \
         one deployed on the Azure App service.",
    );
    let sizes = POLICIES.iter().filter_map(|policy| enough(seen, policy));
    let (Some(prices), Some(largest)) = (&seen.prices, sizes.max_by(f64::total_cmp)) else {
        return Finding::given(claim, source, why, None);
    };
    let (is_so, effect) = rent(prices, largest as u64);
    Finding::given(claim, source, why, Some(is_so)).with_effect(effect).saying(format!(
        "The cheapest machine of the table with memory for the cache and {:.0} MB, compared with the most expensive machine.",
        prices.beside as f64 / 1e6
    ))
}

fn rent(prices: &Prices, cache: u64) -> (bool, String) {
    let dearest = prices.machines.iter().max_by(|a, b| a.price.total_cmp(&b.price));
    let (Some(cheap), Some(dear)) = (prices.cheapest(cache), dearest) else {
        return (false, "no machine of the table has room".to_owned());
    };
    let currency = &prices.currency;
    let effect = format!(
        "{} for {:.2} {currency} a month, against {} for {:.2}",
        cheap.name, cheap.price, dear.name, dear.price
    );
    let is_so = cheap.memory <= 512 << 20 && cheap.price * 20.0 <= dear.price;
    (is_so, effect)
}

fn agreement(cells: &[CellResult]) -> Finding {
    let mut conditions = Conditions::default();
    for policy in POLICIES {
        let of = those(cells, SIZE, |cell| cell.policy == policy);
        let apart = |measured: &&CellResult| {
            Some((measured.cell.repetition, (measured.gets.hit_ratio - measured.simulated?).abs()))
        };
        conditions.add(policy.to_uppercase(), of.iter().filter_map(apart).collect());
    }
    let worst =
        conditions.0.iter().flat_map(|(_, values)| values).map(|(_, apart)| *apart).fold(0.0, f64::max);
    let text = format!(
        "Differences between live caches of all sizes and the simulation of the same requests: {}; in a single run at most {:.2} \
         points. The simulation adds the mean size of a head to each answer's content; a live cache counts each head.",
        conditions.means(|value| format!("{:.2} points", value * 100.0)),
        worst * 100.0
    );
    let claim = "Simulated and live hit ratios of the same requests are less than a point apart on average";
    conditions.decide_as(ClaimKind::OnAverage, claim, LARDER, Bound::Below(MOST_APART), POINTS, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn a_rented_machine_must_have_room_for_the_cache_and_be_cheap() {
        let machine = |memory: u64, price| Machine { name: "m".to_owned(), memory: memory << 20, price };
        let prices = |small| Prices {
            origin: None,
            currency: "USD".to_owned(),
            beside: 200 << 20,
            machines: vec![machine(512, small), machine(4_096, 80.0)],
        };
        for (small, cache, expected) in
            [(3.0, 7, true), (5.0, 7, false), (3.0, 400, false), (3.0, 5_000, false)]
        {
            assert_eq!(rent(&prices(small), cache << 20).0, expected, "{small} {cache}");
        }
    }
}
