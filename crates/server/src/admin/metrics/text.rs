//! The text format of Prometheus, version 0.0.4: a metric, and the format of its samples, unless they become points of OTLP.
//!
//! This module writes it itself because the official crate writes the later format, which not all scrapers understand,
//! and needs its own counters.

use std::fmt::{Display, Write as _};

use larder_words::named;

use super::Moment;
use super::points::{POWERS, Points};
use crate::counts::histogram::Distribution;

/// One metric: its name, type, labels and meaning, and the source of its samples.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) labels: &'static [&'static str],
    /// The meaning for people, in one line.
    pub(super) about: &'static str,
    pub(super) collect: fn(&Moment, &mut Samples<'_>),
}

named! {
    /// The type of a metric.
    pub(super) enum MetricKind, word {
        /// A value that only grows, until the process ends.
        Counter = "counter",
        /// A value that goes up and down.
        Gauge = "gauge",
        /// Counts of values up to each of some bounds.
        Histogram = "histogram",
    }
}

/// Writes the samples of one metric. A metric without samples is not on the page.
pub(super) struct Samples<'p> {
    metric: &'static Metric,
    form: Form<'p>,
    begun: bool,
}

/// Where samples are written.
pub(super) enum Form<'p> {
    Page(&'p mut String),
    Points(&'p mut Points),
}

impl<'p> Samples<'p> {
    pub(super) fn of(metric: &'static Metric, form: Form<'p>) -> Self {
        Self { metric, form, begun: false }
    }

    /// Writes a sample; `labels` are the values of the metric's labels, in their order.
    pub(super) fn put(&mut self, labels: &[&str], value: impl Display) {
        match &mut self.form {
            Form::Page(_) => self.line("", labels, None, &value),
            Form::Points(points) => {
                let is_count = matches!(self.metric.kind, MetricKind::Counter);
                points.put(self.metric.labels, labels, &value.to_string(), is_count);
            }
        }
    }

    /// Writes the samples of a histogram.
    pub(super) fn put_times(&mut self, labels: &[&str], times: &Distribution) {
        if let Form::Points(points) = &mut self.form {
            return points.put_times(self.metric.labels, labels, times);
        }
        for power in POWERS {
            let bound = seconds(1 << power);
            self.line("_bucket", labels, Some(&bound), &times.below(power));
        }
        self.line("_bucket", labels, Some("+Inf"), &times.count());
        self.line("_sum", labels, None, &seconds(times.sum));
        self.line("_count", labels, None, &times.count());
    }

    fn line(&mut self, suffix: &str, labels: &[&str], bound: Option<&str>, value: &dyn Display) {
        let Form::Page(page) = &mut self.form else { return };
        let Metric { name, kind, about, .. } = *self.metric;
        // Writing to a string does not fail.
        if !std::mem::replace(&mut self.begun, true) {
            let _ = writeln!(page, "# HELP {name} {about}\n# TYPE {name} {}", kind.word());
        }
        let _ = write!(page, "{name}{suffix}");
        let labels = self.metric.labels.iter().copied().zip(labels.iter().copied());
        for (at, (label, value)) in labels.chain(bound.map(|bound| ("le", bound))).enumerate() {
            page.push(if at == 0 { '{' } else { ',' });
            let _ = write!(page, "{label}=\"{}\"", escaped(value));
        }
        if !self.metric.labels.is_empty() || bound.is_some() {
            page.push('}');
        }
        let _ = writeln!(page, " {value}");
    }
}

/// Escapes a label's value for use between quotation marks.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns microseconds as seconds, exactly.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::outcome;
    use crate::counts::histogram::{Distributions, LatencyKind, Times};

    static METRIC: Metric = Metric {
        name: "larder_test_seconds",
        kind: MetricKind::Histogram,
        labels: &["a", "b"],
        about: "a test",
        collect: |_, _| {},
    };

    #[test]
    fn samples_are_written_with_their_labels() {
        let mut page = String::new();
        let mut samples = Samples::of(&METRIC, Form::Page(&mut page));
        samples.put(&["x", "a\\b\"c\nd"], 7);
        samples.put(&["", "y"], 0.5);
        let expected = "# HELP larder_test_seconds a test\n# TYPE larder_test_seconds histogram\n\
                        larder_test_seconds{a=\"x\",b=\"a\\\\b\\\"c\\nd\"} 7\n\
                        larder_test_seconds{a=\"\",b=\"y\"} 0.5\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn histograms_count_up_to_each_bound() {
        let (times, mut all) = (Times::default(), Distributions::default());
        for micros in [15, 16, 1_000, 1_000_000, 1_000_000_000] {
            times.served(outcome::Kind::Miss, Duration::from_micros(micros));
        }
        all.add(&times);
        let mut page = String::new();
        Samples::of(&METRIC, Form::Page(&mut page)).put_times(&["x", "y"], all.of(LatencyKind::Miss));
        let value = |line: &str| {
            let start = format!("larder_test_seconds{line} ");
            page.lines()
                .find_map(|known| known.strip_prefix(&start))
                .unwrap_or_else(|| panic!("{line}: {page}"))
        };
        for (bound, count) in [
            ("0.000016", "1"),
            ("0.000032", "2"),
            ("0.000512", "2"),
            ("0.001024", "3"),
            ("1.048576", "4"),
            ("67.108864", "4"),
            ("+Inf", "5"),
        ] {
            assert_eq!(value(&format!("_bucket{{a=\"x\",b=\"y\",le=\"{bound}\"}}")), count, "{bound}");
        }
        assert_eq!(value("_sum{a=\"x\",b=\"y\"}"), "1001.001031");
        assert_eq!(value("_count{a=\"x\",b=\"y\"}"), "5");
    }

    #[test]
    fn seconds_are_exact() {
        for (micros, text) in
            [(0, "0"), (1, "0.000001"), (16, "0.000016"), (10_000_000, "10"), (1 << 26, "67.108864")]
        {
            assert_eq!(seconds(micros), text);
        }
    }
}
