//! The effect of policies and cache size on hits and times, and the price of the size.

use super::super::cell::Measured;
use super::super::plan::{EVICTING, POLICIES, POLICY, SIZE};
use super::super::simulated::{Step, knee};
use super::super::{Curve, REPORT, Seen};
use super::{Bound, Conditions, LARDER, PERCENT, POINTS, SAME, average, distinct, paired, slower, those};
use crate::live::findings::Finding;
use crate::live::{Prices, Verdict};

/// The share of the largest hit ratio that is enough: the report's.
pub(in super::super) const ENOUGH: f64 = 0.9;
/// By how much live and simulated hit ratios may differ on average.
const MOST_APART: f64 = 0.01;
/// Hit ratios that are the same.
const ALIKE: f64 = 0.005;

pub(super) fn claims(seen: &Seen) -> Vec<Finding> {
    let cells = &seen.cells;
    vec![
        tinylfu(cells),
        simple_is_faster(cells),
        all_alike(cells),
        little_is_enough(seen),
        below(cells, "lfu", Bound::Below(0.0)),
        below(cells, "tinylfu", Bound::Above(0.0)),
        price(seen),
        agreement(cells),
    ]
}

fn of_policy<'a>(cells: &'a [Measured], policy: &str) -> Vec<&'a Measured> {
    those(cells, POLICY, |cell| cell.policy == policy)
}

fn tinylfu(cells: &[Measured]) -> Finding {
    let (one, other) = (of_policy(cells, "tinylfu"), of_policy(cells, "lru"));
    let mut conditions = Conditions::default();
    conditions.add(format!("{EVICTING}%"), paired(&one, &other, slower));
    let text = format!(
        "In a cache of {EVICTING}% that asks, and evicts: TinyLFU had {:.1}% hits and took {:.0} us of the processor for a request, LRU \
         {:.1}% and {:.0} us. The report found TinyLFU much slower now and then, and thought of the lock around its counters. Here \
         counting is a few additions to memory that only the shard's holder sees.",
        average(&one, |measured| measured.hit_ratio) * 100.0,
        average(&one, |measured| measured.proxies_us),
        average(&other, |measured| measured.hit_ratio) * 100.0,
        average(&other, |measured| measured.proxies_us),
    );
    let claim = format!("Under TinyLFU requests take at most {:.0}% longer than under LRU", SAME * 100.0);
    conditions.decide(claim, LARDER, Bound::Below(SAME), PERCENT, text)
}

fn simple_is_faster(cells: &[Measured]) -> Finding {
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
        "How much longer requests take; processor time for a request, cache and gateway together: {}. What a policy's books take \
         is a small part of any of these; what differs beyond chance is how many answers it keeps.",
        POLICIES.iter().map(spent).collect::<Vec<_>>().join(", ")
    );
    let claim = "LRU and LFU are faster than GDS, GDSF and TinyLFU, since they keep fewer books";
    conditions.decide(claim, REPORT, Bound::Above(0.0), PERCENT, text)
}

/// Hit ratios of the policies where nothing is evicted.
fn all_alike(cells: &[Measured]) -> Finding {
    let mut conditions = Conditions::default();
    let lru = those(cells, SIZE, |cell| cell.percent == 0 && cell.policy == "lru");
    for policy in POLICIES.iter().filter(|policy| **policy != "lru") {
        let of = those(cells, SIZE, |cell| cell.percent == 0 && cell.policy == *policy);
        let apart = |one: &Measured, other: &Measured| {
            let (hits, bytes) = (one.hit_ratio - other.hit_ratio, one.byte_hit_ratio - other.byte_hit_ratio);
            hits.abs().max(bytes.abs())
        };
        conditions.add(policy.to_uppercase(), paired(&of, &lru, apart));
    }
    let evicting = those(cells, SIZE, |cell| cell.percent == EVICTING);
    let ratios = POLICIES.map(|policy| {
        let of: Vec<_> = evicting.iter().filter(|measured| measured.cell.policy == policy).copied().collect();
        format!("{} {:.1}%", policy.to_uppercase(), average(&of, |measured| measured.hit_ratio) * 100.0)
    });
    let text = format!(
        "The larger of the differences of hit ratio and byte hit ratio to LRU. Where nothing has to leave, no policy is ever asked. \
         In a cache of {EVICTING}% it is: {}.",
        ratios.join(", ")
    );
    let claim = "With room for all, all policies hit alike, by requests and by bytes";
    conditions.decide(claim, REPORT, Bound::Below(ALIKE), POINTS, text)
}

/// For each policy, the smallest sizes that are enough, by repetition, over what a cache with room for all keeps.
fn knees<'a>(seen: &'a Seen, policy: &str) -> Vec<(&'a Curve, Step)> {
    let of = seen.curves.iter().filter(|curve| curve.policy == policy);
    of.filter_map(|curve| Some((curve, knee(&curve.steps, ENOUGH)?))).collect()
}

/// The mean of the smallest sizes that are enough for `policy`, in bytes.
pub(in super::super) fn enough(seen: &Seen, policy: &str) -> Option<f64> {
    let sizes: Vec<f64> = knees(seen, policy).iter().map(|(_, step)| step.capacity as f64).collect();
    (!sizes.is_empty()).then(|| super::mean(&sizes))
}

fn little_is_enough(seen: &Seen) -> Finding {
    let mut conditions = Conditions::default();
    for policy in POLICIES {
        let share = |(curve, step): &(&Curve, Step)| {
            let most = curve.steps.last().map_or(1, |last| last.capacity.max(1));
            // The last size has a tenth more than there is to store.
            step.capacity as f64 / most as f64 * 1.1
        };
        conditions.add(policy.to_uppercase(), knees(seen, policy).iter().map(share).collect());
    }
    let sizes = POLICIES.iter().filter_map(|policy| {
        Some(format!("{} {:.0} kB", policy.to_uppercase(), enough(seen, policy)? / 1e3))
    });
    let text = format!(
        "The smallest sizes from which on a cache keeps {:.0}% of the hits of one with room for all: {}. By simulation of the live \
         runs' requests; live runs stand beside it. In the report 7 MB were enough, of 2.5 GB that its cache had: there was not much \
         more to store. Answers here are smaller, and there are fewer.",
        ENOUGH * 100.0,
        sizes.collect::<Vec<_>>().join(", ")
    );
    let claim = "Half of what there is to store keeps 90% of the hits";
    conditions.decide(claim, REPORT, Bound::Below(0.5), (100.0, "% of what there is to store"), text)
}

/// How a policy does in caches that are too small, against the mean of the others.
fn below(cells: &[Measured], policy: &str, bound: Bound) -> Finding {
    let mut conditions = Conditions::default();
    let small = those(cells, SIZE, |cell| (1..=EVICTING).contains(&cell.percent));
    for percent in distinct(&small, |cell| cell.percent) {
        let of = those(cells, SIZE, |cell| cell.percent == percent && cell.policy == policy);
        let lead = |own: &&Measured| {
            let is_other = |cell: &&&Measured| {
                let other = &cell.cell;
                other.percent == percent && other.policy != policy && other.repetition == own.cell.repetition
            };
            let others: Vec<_> = small.iter().filter(is_other).copied().collect();
            (!others.is_empty()).then(|| own.hit_ratio - average(&others, |measured| measured.hit_ratio))
        };
        conditions.add(format!("{percent}%"), of.iter().filter_map(lead).collect());
    }
    let (claim, text) = match bound {
        Bound::Below(_) => (
            "In caches that are too small, LFU hits less than the others",
            "Against the mean of the other four. The endpoints' popularity does not change in a run, and counting finds the popular \
             ones; an answer that was confirmed keeps its count. A cache that puts a confirmed answer in as new makes LFU forget at \
             each use, and puts it behind the others: that may be what the report saw.",
        ),
        Bound::Above(_) => (
            "In caches that are too small, TinyLFU hits more than the others",
            "Against the mean of the other four. It lets in only what was asked for more often than what would leave, counting what \
             was never stored as well. GDS and GDSF, which prefer small answers, keep more answers in the same room.",
        ),
    };
    conditions.decide(claim, REPORT, bound, POINTS, text.to_owned())
}

/// Whether the smallest machine will do.
fn price(seen: &Seen) -> Finding {
    let claim = "A machine of half a gigabyte is enough for the cache, and costs a twentieth".to_owned();
    let undecided = Verdict::Open("it was not measured".to_owned());
    let sizes = POLICIES.iter().filter_map(|policy| enough(seen, policy));
    let (Some(prices), Some(largest)) = (&seen.prices, sizes.max_by(f64::total_cmp)) else {
        return Finding {
            claim,
            source: REPORT,
            verdict: undecided,
            effect: String::new(),
            text: String::new(),
        };
    };
    let (verdict, effect) = rent(prices, largest as u64);
    let text = format!(
        "The cheapest machine of the price table whose memory holds {:.0} MB beside the cache, against the dearest in the table, which \
         is what a cache would be given without looking. The report compares 3.7 with 83.95 dollars. For so little data \
         the smallest machine has room for everything; what a size is worth shows when the data are a thousand times as much. \
         --prices takes a table of yours.",
        prices.beside as f64 / 1e6
    );
    Finding { claim, source: REPORT, verdict, effect, text }
}

fn rent(prices: &Prices, cache: u64) -> (Verdict, String) {
    let dearest = prices.machines.iter().max_by(|a, b| a.price.total_cmp(&b.price));
    let (Some(cheap), Some(dear)) = (prices.cheapest(cache), dearest) else {
        return (Verdict::Fails, "no machine of the table has room".to_owned());
    };
    let currency = &prices.currency;
    let effect = format!(
        "{} for {:.2} {currency} a month, against {} for {:.2}",
        cheap.name, cheap.price, dear.name, dear.price
    );
    let is_so = cheap.memory <= 512 << 20 && cheap.price * 20.0 <= dear.price;
    (if is_so { Verdict::Holds } else { Verdict::Fails }, effect)
}

fn agreement(cells: &[Measured]) -> Finding {
    let mut conditions = Conditions::default();
    for policy in POLICIES {
        let of = those(cells, SIZE, |cell| cell.policy == policy);
        let apart = |measured: &&Measured| Some((measured.hit_ratio - measured.simulated?).abs());
        conditions.add(policy.to_uppercase(), of.iter().filter_map(apart).collect());
    }
    let worst = conditions.0.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    let text = format!(
        "How far live caches of all sizes are from the simulation of the same requests: {}; a single run at most {:.2} points. The \
         simulation decides with the same code. It weighs each answer as its content and what a stored answer takes beside on \
         average, where a live cache weighs each head.",
        conditions.means(|value| format!("{:.2} points", value * 100.0)),
        worst * 100.0
    );
    let claim = "Simulated and live hit ratios of the same requests are less than a point apart";
    conditions.decide(claim, LARDER, Bound::Below(MOST_APART), POINTS, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Machine;

    #[test]
    fn a_machine_of_half_a_gigabyte_has_to_have_room_and_be_cheap() {
        let machine = |memory: u64, price| Machine { name: "m".to_owned(), memory: memory << 20, price };
        let prices = |small| Prices {
            currency: "USD".to_owned(),
            beside: 200 << 20,
            machines: vec![machine(512, small), machine(4_096, 80.0)],
        };
        for (small, cache, expected) in [
            (3.0, 7, Verdict::Holds),
            (5.0, 7, Verdict::Fails),
            (3.0, 400, Verdict::Fails),
            (3.0, 5_000, Verdict::Fails),
        ] {
            assert_eq!(rent(&prices(small), cache << 20).0, expected, "{small} {cache}");
        }
    }
}
