//! Chooses one of several origins for a request, by their weights. An origin that may not be chosen has the weight 0.

/// Returns the origin for the turn `turn`. In a cycle of as many turns as the sum of the weights, each origin has as
/// many turns as its weight, spread over the cycle. `None` if all weights are 0.
pub(super) fn in_turn(weights: &[u32], turn: usize) -> Option<usize> {
    let (sum, largest) = (sum(weights), weights.iter().copied().max()?);
    if weights.iter().all(|weight| *weight == 0 || *weight == largest) {
        let place = (turn as u64).checked_rem(sum / u64::from(largest.max(1)))?;
        return holder(weights, place * u64::from(largest), None);
    }
    holder(weights, turn as u64 % sum * stride(sum) % sum, None)
}

/// Draws two origins by their weights and returns the one with less load relative to its weight, or the first one drawn
/// if they are equal. `draw` returns a number below its argument, all with equal probability.
/// `None` if all weights are 0.
pub(super) fn of_two(
    weights: &[u32],
    load: impl Fn(usize) -> u64,
    mut draw: impl FnMut(u64) -> u64,
) -> Option<usize> {
    let sum = sum(weights);
    if sum == 0 {
        return None;
    }
    let first = holder(weights, draw(sum), None)?;
    let rest = sum - u64::from(weights[first]);
    if rest == 0 {
        return Some(first);
    }
    let second = holder(weights, draw(rest), Some(first))?;
    let relative = |at: usize, other: usize| u128::from(load(at)) * u128::from(weights[other]);
    let is_less = relative(second, first) < relative(first, second);
    Some(if is_less { second } else { first })
}

/// Returns the origin whose number for a key is the greatest in relation to its weight (rendezvous hashing): each has the
/// keys of its share, and only the keys of an origin that leaves get another. `number` returns a number for each origin,
/// all with equal probability. `None` if all weights are 0.
pub(super) fn by_key(weights: &[u32], number: impl Fn(usize) -> u64) -> Option<usize> {
    // In (0, 1): 53 bits fill a float.
    let unit = |at: usize| ((number(at) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let score = |at: usize| f64::from(weights[at]) / -unit(at).ln();
    let able = (0..weights.len()).filter(|at| weights[*at] > 0);
    able.max_by(|one, other| score(*one).total_cmp(&score(*other)))
}

/// Draws an origin by the weights. `draw` is as for [`of_two`]. `None` if all weights are 0.
pub(super) fn drawn(weights: &[u32], draw: impl FnOnce(u64) -> u64) -> Option<usize> {
    let sum = sum(weights);
    (sum > 0).then(|| holder(weights, draw(sum), None)).flatten()
}

fn sum(weights: &[u32]) -> u64 {
    weights.iter().copied().map(u64::from).sum()
}

/// Returns the origin at `place` when the weights, except that of `excluded`, are laid side by side.
fn holder(weights: &[u32], mut place: u64, excluded: Option<usize>) -> Option<usize> {
    weights.iter().enumerate().filter(|(at, _)| Some(*at) != excluded).find_map(|(at, weight)| {
        let is_here = place < u64::from(*weight);
        place = place.saturating_sub(u64::from(*weight));
        is_here.then_some(at)
    })
}

/// Returns a number near the golden section of `sum` that is coprime to it. So its multiples reach every place once,
/// and consecutive ones are far apart.
fn stride(sum: u64) -> u64 {
    let near = (sum * 5).div_ceil(8).max(1);
    (near..).find(|stride| gcd(*stride, sum) == 1).unwrap_or(1)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    use super::*;

    fn counts(weights: &[u32], chosen: impl Iterator<Item = usize>) -> Vec<u32> {
        let mut counts = vec![0; weights.len()];
        chosen.for_each(|at| counts[at] += 1);
        counts
    }

    proptest! {
        #[test]
        fn in_turn_each_has_exactly_its_weight_wherever_one_begins(
            weights in vec(0..20_u32, 1..8),
            begin in 0..10_000_usize,
        ) {
            let sum: u32 = weights.iter().sum();
            let turns = begin..begin + sum as usize;
            let chosen: Option<Vec<_>> = turns.map(|turn| in_turn(&weights, turn)).collect();
            prop_assert_eq!(counts(&weights, chosen.unwrap().into_iter()), weights);
            prop_assert!(sum > 0 || in_turn(&[0, 0], begin).is_none());
        }

        #[test]
        fn of_two_never_chooses_the_busiest_for_its_weight(
            members in vec((0..20_u32, 0..50_u32), 2..8),
            seed: u64,
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let (weights, in_progress): (Vec<_>, Vec<_>) = members.into_iter().unzip();
            let share = |at: usize| f64::from(in_progress[at]) / f64::from(weights[at]);
            let able: Vec<_> = (0..weights.len()).filter(|at| weights[*at] > 0).collect();
            for _ in 0..20 {
                let chosen = of_two(&weights, |at| in_progress[at].into(), |below| random.u64(..below));
                prop_assert_eq!(chosen.is_some(), !able.is_empty());
                let Some(chosen) = chosen else { return Ok(()) };
                prop_assert!(weights[chosen] > 0);
                let is_less = |at: &usize| *at == chosen || share(*at) < share(chosen) - 1e-9;
                prop_assert!(able.len() == 1 || !able.iter().all(is_less), "{chosen} is the busiest");
            }
        }
    }

    #[test]
    fn origins_take_turns_in_order_and_by_their_weights() {
        let turns = |weights: &[u32]| (0..8).map(|turn| in_turn(weights, turn).unwrap()).collect::<Vec<_>>();
        assert_eq!(turns(&[1, 1, 1]), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(turns(&[1, 0, 1]), [0, 2, 0, 2, 0, 2, 0, 2]);
        assert_eq!(turns(&[3, 1]), [0, 1, 0, 0, 0, 1, 0, 0]);
        assert_eq!(turns(&[4, 4]), [0, 1, 0, 1, 0, 1, 0, 1]);
    }

    /// Without requests in progress, the first origin drawn is chosen, so each of n requests goes to an origin of the
    /// share p with the probability p, independently. By Hoeffding's inequality the measured share differs from p by
    /// more than e with a probability of at most 2 exp(-2 n e^2). For n = 100,000, e = 0.012 and 5 origins that is 10
    /// exp(-28.8) < 4 * 10^-12.
    #[test]
    fn of_two_idle_origins_share_requests_by_their_weights() {
        let (weights, n) = ([1, 2, 0, 5, 10, 7], 100_000);
        let chosen = (0..n).map(|_| of_two(&weights, |_| 0, |below| fastrand::u64(..below)).unwrap());
        for (count, weight) in counts(&weights, chosen).into_iter().zip(weights) {
            let (found, expected) = (f64::from(count) / f64::from(n), f64::from(weight) / 25.0);
            assert!((found - expected).abs() <= 0.012, "{found} and not {expected}");
        }
    }

    #[test]
    fn keys_stay_with_their_origin_while_it_is_there() {
        let number = |key| move |at: usize| SipHasher13::new_with_keys(key, at as u64).finish();
        let (all, without) = ([1, 2, 0, 5], [1, 0, 0, 5]);
        let chosen: Vec<_> = (0..8_000).map(|key| by_key(&all, number(key)).unwrap()).collect();
        for (key, at) in chosen.iter().enumerate().filter(|(_, at)| **at != 1) {
            assert_eq!(by_key(&without, number(key as u64)), Some(*at));
        }
        // The keys are fixed, and so are the counts.
        for (count, weight) in counts(&all, chosen.into_iter()).into_iter().zip(all) {
            assert!(count.abs_diff(1_000 * weight) <= 150, "{count} of {weight}");
        }
        assert_eq!(by_key(&[0, 0], number(1)), None);
    }

    /// With two origins, both are drawn each time, so each request goes to the one with fewer requests in progress.
    #[test]
    fn two_origins_whose_requests_do_not_end_stay_level() {
        let mut in_progress = [0_u32; 2];
        for _ in 0..10_000 {
            let chosen =
                of_two(&[1, 1], |at| in_progress[at].into(), |below| fastrand::u64(..below)).unwrap();
            in_progress[chosen] += 1;
            assert!(in_progress[0].abs_diff(in_progress[1]) <= 1, "{in_progress:?}");
        }
    }
}
