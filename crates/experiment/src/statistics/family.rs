//! Corrections for many tests.

/// Returns the level at which each claim of a report is decided, so that at most a share `allowed` of the verdicts is
/// false: the procedure of Benjamini and Hochberg over one probability for each claim.
///
/// If this procedure selects a number of claims, each of them and its conditions are tested at this level (Benjamini
/// and Bogomolov).
pub(crate) fn level(chances: &[f64], allowed: f64) -> f64 {
    let mut sorted = chances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len().max(1) as f64;
    let pass = |(at, chance): (usize, &f64)| (*chance <= (at + 1) as f64 / count * allowed).then_some(at + 1);
    let selected = sorted.iter().enumerate().filter_map(pass).next_back().unwrap_or(1);
    allowed * selected as f64 / count
}

/// Returns the probabilities adjusted by Holm's method, in the same order: each may be compared with the common level.
pub(super) fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|one, other| chances[*one].total_cmp(&chances[*other]));
    let (mut adjusted, mut largest) = (vec![1.0; chances.len()], 0.0_f64);
    for (passed, &at) in order.iter().enumerate() {
        largest = largest.max(chances[at] * (chances.len() - passed) as f64).min(1.0);
        adjusted[at] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_is_as_worked_by_hand() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[]), [0.0; 0]);
        assert_eq!(holm(&[0.9, 0.9]), [1.0, 1.0]);
    }

    #[test]
    fn the_level_is_that_of_benjamini_and_hochberg() {
        // The example of the publication: 15 probabilities, of which four are below their thresholds.
        let published = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        assert!((level(&published, 0.05) - 0.05 * 4.0 / 15.0).abs() < 1e-12);
        // If no claim passes, the level is that of a single selected claim.
        assert!((level(&[0.5, 0.6], 0.05) - 0.025).abs() < 1e-12);
        assert_eq!((level(&[], 0.05), level(&[0.04], 0.05)), (0.05, 0.05));
    }
}
