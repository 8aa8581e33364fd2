//! The axes of a plot: their range, ticks and labels.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// The unit of the numbers along an axis, for their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Counts: `12k`. Only whole numbers have labels.
    Count,
    /// Any number: `1.5`.
    Number,
    /// Bytes: `4 MiB`.
    Bytes,
    /// Shares from 0 to 1: `25%`.
    Share,
    /// Seconds: `90`.
    Seconds,
}

/// A linear axis begins at 0, unless its minimum is more than this share of the maximum.
const FAR: f64 = 0.8;

/// The room at the ends of an axis, as a share of its length.
const ROOM: f64 = 0.02;

/// The kind of steps along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// Equal differences.
    Even,
    /// Equal ratios with this factor.
    Times(u32),
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    steps: Steps,
}

impl Axis {
    /// Returns an axis with even steps.
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self { label: label.into(), unit, steps: Steps::Even }
    }

    /// Returns an axis whose steps are factors of ten. Points at 0 or below are omitted.
    pub fn log(label: &str, unit: Unit) -> Self {
        Self { steps: Steps::Times(10), ..Self::linear(label, unit) }
    }

    /// Returns an axis whose steps are factors of two.
    pub fn doubling(label: &str, unit: Unit) -> Self {
        Self { steps: Steps::Times(2), ..Self::linear(label, unit) }
    }

    /// Whether steps are even.
    pub(super) fn is_even(&self) -> bool {
        self.steps == Steps::Even
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || self.is_even())
    }

    /// Returns the range from the minimum to the maximum of `values`, never empty. A linear axis includes 0, unless all
    /// of its values are far from it: then it [is broken](Self::is_broken).
    pub(super) fn span(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let shown = values.filter(|&value| self.shows(value));
        let (low, high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        match (low <= high, !self.is_even()) {
            (false, _) => 1.0..10.0,
            (true, true) if low == high => low / 2.0..high * 2.0,
            (true, false) if low == high => low.min(0.0)..high.max(low.min(0.0) + 1.0),
            (true, false) if low > 0.0 && low < high * FAR => 0.0..high,
            (true, false) if high < 0.0 => low..0.0,
            (true, _) => low..high,
        }
    }

    /// Returns the span with room at its ends for error bars, except at an end that is 0.
    pub(super) fn with_room(&self, span: Range<f64>) -> Range<f64> {
        let beyond = |end: f64, share: f64| match self.steps {
            Steps::Even if end == 0.0 => 0.0,
            Steps::Even => end + (span.end - span.start) * share,
            Steps::Times(_) => end * (span.end / span.start).powf(share),
        };
        beyond(span.start, -ROOM)..beyond(span.end, ROOM)
    }

    /// Returns a short label for a value on an axis with this span.
    pub(super) fn label(&self, value: f64, span: &Range<f64>) -> String {
        // The library adds steps, and so misses 0 by an error of rounding.
        let is_zero = self.is_even() && value.abs() < (span.end - span.start) * 1e-9;
        label(self.unit, if is_zero { 0.0 } else { value })
    }

    /// Whether a linear axis with this span begins at a value other than 0, which has to be marked.
    pub(super) fn is_broken(&self, span: &Range<f64>) -> bool {
        self.is_even() && span.start > 0.0
    }

    pub(super) fn coordinates(&self, span: Range<f64>) -> Scale {
        match self.steps {
            Steps::Even => Scale::Linear(span.into(), self.unit == Unit::Count),
            Steps::Times(factor) => {
                // Units of bytes are powers of two, so that those of ten are no round numbers of them.
                let factor = if self.unit == Unit::Bytes { 2 } else { factor };
                let ticks = ticks(f64::from(factor), &span);
                Scale::Log(span.log_scale().into(), ticks)
            }
        }
    }
}

/// Returns a short label for a value.
fn label(unit: Unit, value: f64) -> String {
    const COUNTS: &[(f64, &str)] = &[(1e9, "G"), (1e6, "M"), (1e3, "k")];
    const BYTES: &[(f64, &str)] =
        &[(1_099_511_627_776.0, " TiB"), (1_073_741_824.0, " GiB"), (1_048_576.0, " MiB"), (1_024.0, " KiB")];
    let scaled = |units: &[(f64, &str)], rest: &str| {
        let unit = units.iter().find(|(scale, _)| value.abs() >= *scale);
        let (scale, name) = unit.copied().unwrap_or((1.0, rest));
        format!("{}{name}", digits(value / scale))
    };
    match unit {
        Unit::Count | Unit::Number => scaled(COUNTS, ""),
        Unit::Bytes => scaled(BYTES, " B"),
        Unit::Share => format!("{}%", digits(value * 100.0)),
        Unit::Seconds => digits(value),
    }
}

/// Returns about three digits, without insignificant zeros.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.01 || size == 0.0 => 2,
        _ => return format!("{value:.0e}"),
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns the labelled values within `span`: a few powers of `factor`; if powers of ten are few, also their halves and
/// fifths.
fn ticks(factor: f64, span: &Range<f64>) -> Vec<f64> {
    const MOST: usize = 8;
    let powers = |factor: f64, parts: &[f64]| -> Vec<f64> {
        let (first, last) = (span.start.log(factor).floor() as i32, span.end.log(factor).ceil() as i32);
        let all = (first..=last).flat_map(|power| parts.iter().map(move |part| part * factor.powi(power)));
        all.filter(|value| (span.start * 0.999..=span.end * 1.001).contains(value)).collect()
    };
    let every = if factor == 10.0 { powers(factor, &[1.0, 2.0, 5.0]) } else { powers(factor, &[1.0]) };
    if every.len() <= MOST + 1 {
        return every;
    }
    let whole = powers(factor, &[1.0]);
    let step = whole.len().div_ceil(MOST);
    whole.into_iter().step_by(step).collect()
}

/// An axis of either kind, since the library has a separate type for each.
pub(super) enum Scale {
    /// The axis, and whether only whole numbers have labels.
    Linear(RangedCoordf64, bool),
    /// The axis, and the labelled values.
    Log(LogCoord<f64>, Vec<f64>),
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Self::Linear(axis, _) => axis.map(value, limit),
            Self::Log(axis, _) => axis.map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Linear(axis, is_whole) => {
                let mut points = axis.key_points(hint);
                points.retain(|point| !is_whole || point.fract() == 0.0);
                points
            }
            Self::Log(_, ticks) => ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Linear(axis, _) => axis.range(),
            Self::Log(axis, _) => axis.range(),
        }
    }
}

// The chart's builder converts its arguments to coordinates; these already are coordinates.
const _: fn() = || {
    fn takes<T: AsRangedCoord>() {}
    takes::<Scale>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        let table = [
            (Unit::Count, 1_500.0, "1.5k"),
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 20.0, "20"),
            (Unit::Bytes, 4_194_304.0, "4 MiB"),
            (Unit::Bytes, 10.0, "10 B"),
            (Unit::Share, 0.125, "12.5%"),
            (Unit::Share, 0.00001, "1e-3%"),
            (Unit::Seconds, 90.0, "90"),
        ];
        for (unit, value, expected) in table {
            assert_eq!(label(unit, value), expected);
        }
    }

    #[test]
    fn a_linear_axis_has_0_or_is_broken() {
        let axis = Axis::linear("a", Unit::Number);
        let table: [(&[f64], Range<f64>, bool); 5] = [
            (&[1.0, 9.0], 0.0..9.0, false),
            (&[6.0, 9.0], 0.0..9.0, false),
            (&[8.5, 9.0], 8.5..9.0, true),
            (&[-3.0, -1.0], -3.0..0.0, false),
            (&[-3.0, 1.0], -3.0..1.0, false),
        ];
        for (values, span, is_broken) in table {
            let found = axis.span(values.iter().copied());
            assert_eq!((axis.is_broken(&found), found), (is_broken, span));
        }
        assert!(!Axis::log("a", Unit::Number).is_broken(&(5.0..9.0)));
    }

    #[test]
    fn a_tick_that_misses_0_by_rounding_is_labelled_0() {
        let axis = Axis::linear("a", Unit::Share);
        assert_eq!(axis.label(-5.551_115e-17, &(-0.3..0.4)), "0%");
        assert_eq!(axis.label(-0.0, &(-0.3..0.4)), "0%");
        assert_eq!(axis.label(1e-5, &(0.0..2e-5)), "1e-3%");
        assert_eq!(Axis::log("a", Unit::Number).label(1.0, &(1.0..1e12)), "1");
    }

    #[test]
    fn error_bars_have_room_at_the_ends_of_an_axis() {
        let (even, log) = (Axis::linear("a", Unit::Number), Axis::log("a", Unit::Number));
        assert_eq!(even.with_room(0.0..10.0), 0.0..10.2);
        assert_eq!(even.with_room(-5.0..5.0), -5.2..5.2);
        let log = log.with_room(1.0..100.0);
        assert!(log.start < 0.95 && log.end > 105.0, "{log:?}");
    }

    #[test]
    fn only_whole_counts_are_named() {
        let points = |unit| {
            let axis = Axis::linear("nodes", unit).coordinates(0.0..3.0);
            axis.key_points(plotters::coord::ranged1d::BoldPoints(9))
        };
        assert_eq!(points(Unit::Count), [0.0, 1.0, 2.0, 3.0]);
        assert!(points(Unit::Number).len() > 4);
    }

    #[test]
    fn ticks_of_bytes_are_round_numbers_of_their_unit() {
        let span = 5.6e6..280e6;
        let axis = Axis::log("capacity", Unit::Bytes);
        let ticks = axis.coordinates(span.clone()).key_points(plotters::coord::ranged1d::BoldPoints(9));
        let labels: Vec<_> = ticks.iter().map(|tick| axis.label(*tick, &span)).collect();
        assert_eq!(labels, ["8 MiB", "16 MiB", "32 MiB", "64 MiB", "128 MiB", "256 MiB"]);
    }

    #[test]
    fn ticks_of_an_axis_are_few_and_round() {
        let table: [(f64, Range<f64>, &[f64]); 5] = [
            (2.0, 1.0..64.0, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
            (10.0, 0.3..7.0, &[0.5, 1.0, 2.0, 5.0]),
            (10.0, 1.0..10_000.0, &[1.0, 10.0, 100.0, 1_000.0, 10_000.0]),
            (10.0, 1.0..1e12, &[1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]),
            (10.0, 3.0..4.0, &[]),
        ];
        for (factor, span, expected) in table {
            let found = ticks(factor, &span);
            assert_eq!(found.len(), expected.len(), "{span:?}: {found:?}");
            assert!(
                found.iter().zip(expected).all(|(one, other)| (one / other - 1.0).abs() < 1e-9),
                "{found:?}"
            );
        }
    }
}
