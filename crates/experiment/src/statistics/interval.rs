//! A mean with its uncertainty.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The mean of independent values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Number of values.
    pub count: usize,
    /// Their standard deviation; 0 for a single one.
    pub deviation: f64,
    /// The standard error of the mean; `None` for a single value.
    error: Option<f64>,
    freedom: f64,
}

impl Interval {
    /// Returns the interval of independent values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        if count < 2 {
            return (count == 1).then_some(Self { mean, count, deviation: 0.0, error: None, freedom: 0.0 });
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let freedom = (count - 1) as f64;
        let deviation = (squares / freedom).sqrt();
        // Rounding errors of equal values are not a deviation.
        let deviation = if deviation <= mean.abs() * 1e-12 { 0.0 } else { deviation };
        Some(Self { mean, count, deviation, error: Some(deviation / (count as f64).sqrt()), freedom })
    }

    /// Returns the mean of independent means (Welch and Satterthwaite); `None` if there are none.
    pub(super) fn mean_of(parts: &[Self]) -> Option<Self> {
        let (first, share) = (parts.first()?, 1.0 / parts.len() as f64);
        if parts.len() == 1 {
            return Some(*first);
        }
        let mean = parts.iter().map(|part| part.mean).sum::<f64>() * share;
        let count = parts.iter().map(|part| part.count).sum();
        let errors: Option<Vec<f64>> = parts.iter().map(|part| part.error).collect();
        let Some(errors) = errors else {
            return Some(Self { mean, count, deviation: 0.0, error: None, freedom: 0.0 });
        };
        let variances: Vec<f64> = errors.iter().map(|error| (error * share).powi(2)).collect();
        let variance: f64 = variances.iter().sum();
        let spread: f64 = variances.iter().zip(parts).map(|(one, part)| one.powi(2) / part.freedom).sum();
        let freedom = if spread > 0.0 { variance.powi(2) / spread } else { 1.0 };
        let deviation = (parts.iter().map(|part| part.deviation.powi(2)).sum::<f64>() * share).sqrt();
        Some(Self { mean, count, deviation, error: Some(variance.sqrt()), freedom })
    }

    /// Returns the half-width of the 95% confidence interval; `None` for a single value.
    pub fn margin(&self) -> Option<f64> {
        Some(self.quantile(0.975)? * self.error?)
    }

    /// Returns the mean of `values` as a cell of a table, empty if there are none.
    pub fn mean_cell(values: impl IntoIterator<Item = f64>, decimals: usize) -> String {
        let interval = Self::of(&values.into_iter().collect::<Vec<_>>());
        interval.map_or_else(String::new, |interval| format!("{:.decimals$}", interval.mean))
    }

    /// Returns [`margin`](Self::margin) as a cell of a table, empty for a single value.
    pub fn margin_cell(&self, decimals: usize) -> String {
        self.margin().map_or_else(String::new, |margin| format!("{margin:.decimals$}"))
    }

    /// Returns the probability of such a mean or a larger one if the true value is `threshold`.
    ///
    /// Equal values have no deviation for a comparison: the test is whether all are on one side (the sign test).
    pub fn chance_above(&self, threshold: f64) -> f64 {
        let distance = self.mean - threshold;
        match self.error {
            None => 1.0,
            Some(error) if error > 0.0 => self.student().map_or(1.0, |student| student.sf(distance / error)),
            Some(_) if distance > 0.0 => 0.5_f64.powi(i32::try_from(self.count).unwrap_or(i32::MAX)),
            Some(_) => 1.0,
        }
    }

    /// Returns the same for a smaller mean.
    pub fn chance_below(&self, threshold: f64) -> f64 {
        Self { mean: -self.mean, ..*self }.chance_above(-threshold)
    }

    /// Returns the distance to `threshold` in standard deviations of the values (Cohen's d for paired samples).
    pub fn effect(&self, threshold: f64) -> Option<f64> {
        (self.deviation > 0.0).then(|| (self.mean - threshold) / self.deviation)
    }

    /// Returns the smallest distance to a threshold that is detected four times in five at a two-sided `level`.
    pub fn detectable(&self, level: f64) -> Option<f64> {
        let error = self.error.filter(|error| *error > 0.0)?;
        Some((self.quantile(1.0 - level / 2.0)? + self.quantile(0.8)?) * error)
    }

    fn quantile(&self, share: f64) -> Option<f64> {
        Some(self.student()?.inverse_cdf(share))
    }

    fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        // Computed by hand: mean 4, deviation sqrt(2.5), 4 degrees of freedom.
        let interval = Interval::of(&[2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!((interval.mean, interval.count), (4.0, 5));
        assert!((interval.deviation - 1.581_139).abs() < 1e-6);
        assert!((interval.margin().unwrap() - 1.963_243).abs() < 1e-5, "{:?}", interval.margin());
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn probabilities_are_those_of_published_tables() {
        // Quantiles of Student's t: degrees of freedom, t, and the share beyond it.
        for (count, t, beyond) in
            [(2, 12.706, 0.025), (3, 4.303, 0.025), (5, 3.747, 0.01), (31, 2.042, 0.025)]
        {
            let interval =
                Interval { mean: t, count, deviation: 1.0, error: Some(1.0), freedom: (count - 1) as f64 };
            assert!((interval.chance_above(0.0) - beyond).abs() < 2e-5, "{count}");
            assert!((interval.chance_below(2.0 * t) - beyond).abs() < 2e-5, "{count}");
        }
    }

    #[test]
    fn an_effect_is_the_distance_to_the_threshold() {
        let interval = Interval::of(&[1.0, 1.1, 1.2]).unwrap();
        assert!((interval.effect(1.1).unwrap()).abs() < 1e-9);
        assert!((interval.effect(1.0).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_value_and_equal_values_are_no_certainty() {
        let one = Interval::of(&[7.0]).unwrap();
        assert_eq!((one.margin(), one.chance_above(0.0), one.effect(0.0)), (None, 1.0, None));
        assert_eq!(one.margin_cell(2), "");
        let equal = Interval::of(&[0.1; 3]).unwrap();
        assert_eq!((equal.chance_above(0.0), equal.chance_below(0.0), equal.effect(0.0)), (0.125, 1.0, None));
    }
}
