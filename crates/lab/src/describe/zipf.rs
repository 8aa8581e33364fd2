//! The exponent of a Zipf distribution, by maximum likelihood.
//!
//! A line through the logarithms of rank and count is the common way, but it is biased: it gives the many objects with
//! one or two requests, whose counts are steps, the same weight as the few objects with most requests.

/// The upper bound of the exponent.
const STEEPEST: f64 = 20.0;

/// The number of bisection steps of the exponent's interval.
const HALVINGS: u32 = 50;

/// Ranks up to this one are summed one by one; beyond, in steps of a fixed share of the rank.
const EXACT: usize = 1024;

/// Returns the exponent `s` that maximises the likelihood of `counts`, the largest first, if the object of rank `r` is
/// requested with a probability proportional to `r^-s`. Returns `None` if there are fewer than two objects.
pub(super) fn exponent(counts: &[u64]) -> Option<f64> {
    if counts.len() < 2 {
        return None;
    }
    let ranks = counts.iter().zip(1u64..);
    let (requests, logarithms) = ranks.fold((0.0, 0.0), |(requests, logarithms), (&count, rank)| {
        (requests + count as f64, logarithms + count as f64 * (rank as f64).ln())
    });
    // The likelihood is greatest where the observed mean logarithm of the rank equals the expected one, which falls
    // with s.
    let observed = logarithms / requests;
    let steps = steps(counts.len());
    let (mut low, mut high) = (0.0, STEEPEST);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if expected(&steps, middle) > observed { low = middle } else { high = middle }
    }
    Some((low + high) / 2.0)
}

/// Returns the mean of the logarithm of the rank.
fn expected(steps: &[(f64, f64)], exponent: f64) -> f64 {
    let (mut weights, mut logarithms) = (0.0, 0.0);
    for &(logarithm, ranks) in steps {
        let weight = ranks * (-exponent * logarithm).exp();
        weights += weight;
        logarithms += weight * logarithm;
    }
    logarithms / weights
}

/// Returns the logarithms of the ranks, each with the number of ranks that it represents.
fn steps(objects: usize) -> Vec<(f64, f64)> {
    let mut steps = Vec::new();
    let mut rank = 1;
    while rank <= objects {
        let width = if rank <= EXACT { 1 } else { rank / EXACT }.min(objects - rank + 1);
        let middle = rank as f64 + (width - 1) as f64 / 2.0;
        steps.push((middle.ln(), width as f64));
        rank += width;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_exact_counts_is_found() {
        for (objects, exact) in [(10, 0.0), (100, 1.0), (50_000, 0.8), (50_000, 1.2), (300, 2.5)] {
            let count = |rank: u32| (1e12 * f64::from(rank).powf(-exact)) as u64;
            let counts: Vec<_> = (1..=objects).map(count).collect();
            let found = exponent(&counts).unwrap();
            assert!((found - exact).abs() < 1e-3, "{found} instead of {exact} for {objects}");
        }
        assert_eq!(exponent(&[7]), None);
        assert_eq!(exponent(&[]), None);
    }
}
