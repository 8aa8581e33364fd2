//! Conclusions from a few repetitions: means with their confidence, and verdicts on claims.
//!
//! Repetitions are paired: both sides of a comparison were measured with the same requests, so that the difference of each
//! pair counts and not the difference of workloads (Student's t for paired samples).

/// Student's t that holds 95 times in 100 to both sides, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A mean, and where the true one lies 95 times in 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean of what was measured.
    pub mean: f64,
    /// How far the truth may be to either side; infinite for a single measurement.
    pub margin: f64,
    /// How many measurements there were.
    pub count: usize,
    /// Their standard deviation; 0 for a single one.
    pub deviation: f64,
}

impl Interval {
    /// Of measurements that do not depend on each other; nothing without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        if count == 1 {
            return Some(Self { mean, margin: f64::INFINITY, count, deviation: 0.0 });
        }
        let deviation = (squares / (count - 1) as f64).sqrt();
        let margin = student(count - 1) * deviation / (count as f64).sqrt();
        Some(Self { mean, margin, count, deviation })
    }

    /// Whether the truth is surely above 0.
    pub fn is_above(&self) -> bool {
        self.mean - self.margin > 0.0
    }

    /// Whether the truth is surely below 0.
    pub fn is_below(&self) -> bool {
        self.mean + self.margin < 0.0
    }

    /// The mean in standard deviations (Cohen's d for paired samples); nothing where all measurements are alike.
    pub fn effect(&self) -> Option<f64> {
        (self.deviation > 0.0).then(|| self.mean / self.deviation)
    }
}

fn student(freedom: usize) -> f64 {
    // Beyond the table, the first terms of its expansion around the normal's 1.96.
    T.get(freedom.saturating_sub(1)).copied().unwrap_or_else(|| 1.96 + 2.37 / freedom as f64)
}

/// Whether a claim stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// The contrary does, or nothing of it is there.
    Fails,
    /// It does in some conditions, and in others the contrary: which.
    Depends(String),
    /// The measurements do not say: why.
    Open(String),
}

/// A claim that something is above 0, as measured in several conditions.
#[derive(Clone, Debug, Default)]
pub struct Contrast {
    conditions: Vec<(String, Vec<f64>)>,
}

impl Contrast {
    /// Adds what was measured in a condition, such as `10%`, once for each repetition.
    pub fn add(&mut self, condition: &str, values: Vec<f64>) {
        self.conditions.push((condition.to_owned(), values));
    }

    /// The mean over the conditions, from one value for each repetition that has them all.
    pub fn overall(&self) -> Option<Interval> {
        let repetitions = self.conditions.iter().map(|(_, values)| values.len()).min()?;
        let mean = |at: usize| {
            let sum: f64 = self.conditions.iter().map(|(_, values)| values[at]).sum();
            sum / self.conditions.len() as f64
        };
        Interval::of(&(0..repetitions).map(mean).collect::<Vec<_>>())
    }

    /// The conditions in which it is surely so, and those in which the contrary is.
    pub fn sides(&self) -> (Vec<&str>, Vec<&str>) {
        let within = |is_side: fn(&Interval) -> bool| {
            let sure = self.conditions.iter();
            let sure =
                sure.filter(|(_, values)| Interval::of(values).is_some_and(|interval| is_side(&interval)));
            sure.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        (within(Interval::is_above), within(Interval::is_below))
    }

    /// Whether it is so.
    pub fn verdict(&self) -> Verdict {
        let Some(overall) = self.overall() else { return Verdict::Open("it was not measured".to_owned()) };
        match self.sides() {
            (above, below) if !above.is_empty() && !below.is_empty() => Verdict::Depends(format!(
                "it holds at {}, and the contrary at {}",
                above.join(", "),
                below.join(", ")
            )),
            (_, below) if overall.is_above() && below.is_empty() => Verdict::Holds,
            (above, _) if overall.is_below() && above.is_empty() => Verdict::Fails,
            (above, _) if !above.is_empty() => {
                Verdict::Depends(format!("it holds at {}, and elsewhere chance decides", above.join(", ")))
            }
            (_, below) if !below.is_empty() => Verdict::Depends(format!(
                "the contrary holds at {}, and elsewhere chance decides",
                below.join(", ")
            )),
            _ if overall.deviation == 0.0 && overall.mean == 0.0 && overall.count > 1 => Verdict::Fails,
            _ => Verdict::Open(format!("{} repetitions cannot tell it from chance", overall.count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, and a value for each repetition.
    type Conditions<'a> = &'a [(&'a str, &'a [f64])];

    fn contrast(conditions: Conditions) -> Contrast {
        let mut contrast = Contrast::default();
        conditions.iter().for_each(|(name, values)| contrast.add(name, values.to_vec()));
        contrast
    }

    #[test]
    fn intervals_are_students() {
        // Worked by hand: mean 4, deviation sqrt(2.5), 4 degrees of freedom.
        let interval = Interval::of(&[2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!((interval.mean, interval.count), (4.0, 5));
        assert!((interval.deviation - 1.581_139).abs() < 1e-6);
        assert!((interval.margin - 1.962_931).abs() < 1e-3, "{}", interval.margin);
        assert!((interval.effect().unwrap() - 2.529_822).abs() < 1e-6);
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[1.0]).unwrap().margin, f64::INFINITY);
    }

    #[test]
    fn the_quantiles_meet_the_normals() {
        assert!((1..200).all(|freedom| student(freedom) > student(freedom + 1)));
        for (freedom, published) in [(40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((student(freedom) - published).abs() < 2e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn verdicts_follow_the_intervals() {
        let (up, down, noise) = (&[1.0, 1.1, 0.9][..], &[-1.0, -1.1, -0.9][..], &[1.0, -1.0, 0.1][..]);
        let depends = |text: &str| Verdict::Depends(text.to_owned());
        let table: [(Conditions, Verdict); 7] = [
            (&[("10%", up), ("20%", up)], Verdict::Holds),
            (&[("10%", down), ("20%", down)], Verdict::Fails),
            (&[("10%", up), ("20%", down)], depends("it holds at 10%, and the contrary at 20%")),
            (&[("10%", up), ("20%", noise)], depends("it holds at 10%, and elsewhere chance decides")),
            (&[("10%", noise)], Verdict::Open("3 repetitions cannot tell it from chance".to_owned())),
            (&[("10%", &[0.0, 0.0])], Verdict::Fails),
            (&[], Verdict::Open("it was not measured".to_owned())),
        ];
        for (conditions, expected) in table {
            assert_eq!(contrast(conditions).verdict(), expected, "{conditions:?}");
        }
    }
}
