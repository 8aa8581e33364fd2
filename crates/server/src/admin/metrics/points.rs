//! The samples of one metric as points of OTLP.

use crate::counts::histogram::Distribution;
use crate::observe::otlp::Value;
use crate::observe::otlp::protobuf::Message;

/// The bounds of histograms, as powers of two, in microseconds.
pub(super) const POWERS: std::ops::RangeInclusive<u32> = 4..=26;
/// The field of a message that has the points of a metric.
const POINTS: u32 = 1;

/// The points of one metric.
pub(super) struct Points {
    begun: u64,
    now: u64,
    pub(super) all: Message,
}

impl Points {
    /// Returns no points yet, for counts from `begun` until `now`, in nanoseconds since 1970.
    pub(super) fn new(begun: u64, now: u64) -> Self {
        Self { begun, now, all: Message::default() }
    }

    /// Adds a figure in decimal digits, for these names and values of labels: an integer if it is a count, and otherwise a
    /// floating-point number, so that the type of a metric's points never changes.
    pub(super) fn put(&mut self, names: &[&str], labels: &[&str], figure: &str, is_count: bool) {
        let point = self.point(names, labels, 7);
        let point = match figure.parse::<i64>().ok().filter(|_| is_count) {
            Some(figure) => point.fixed(6, figure as u64),
            None => point.double(4, figure.parse().unwrap_or(f64::NAN)),
        };
        self.add(&point);
    }

    /// Adds a distribution.
    pub(super) fn put_times(&mut self, names: &[&str], labels: &[&str], times: &Distribution) {
        let up_to: Vec<_> = POWERS.map(|power| times.below(power)).chain([times.count()]).collect();
        let counts = up_to.iter().scan(0, |before, count| Some(count - std::mem::replace(before, *count)));
        let bounds = POWERS.map(|power| (f64::from(1_u32 << power) / 1e6).to_bits());
        let point = self.point(names, labels, 9).fixed(4, times.count()).double(5, times.sum as f64 / 1e6);
        self.add(&point.packed(6, counts).packed(7, bounds));
    }

    fn point(&self, names: &[&str], labels: &[&str], attributes: u32) -> Message {
        let point = Message::default().fixed(2, self.begun).fixed(3, self.now);
        let labels = names.iter().zip(labels);
        labels.fold(point, |point, (label, value)| point.attribute(attributes, label, &Value::Text(value)))
    }

    fn add(&mut self, point: &Message) {
        self.all = std::mem::take(&mut self.all).message(POINTS, point);
    }
}
