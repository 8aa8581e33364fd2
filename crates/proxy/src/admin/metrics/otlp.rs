//! The metrics for a collector of OpenTelemetry: the rows of the table as messages of OTLP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::table::METRICS;
use super::text::{Form, Metric, MetricKind, POWERS, Samples};
use super::{Moment, State};
use crate::counts::histogram::Distribution;
use crate::observe::otlp::protobuf::Message;
use crate::observe::otlp::{Collector, Value, nanos};

/// Counts are those since the start, in the numbers of OTLP.
const CUMULATIVE: u64 = 2;
/// The field of a message that has the points of a metric.
const POINTS: u32 = 1;

/// The points of one metric, at one time.
pub(super) struct Points {
    begun: u64,
    now: u64,
    all: Message,
}

impl Points {
    /// Adds a figure in decimal digits.
    pub(super) fn put(&mut self, metric: &Metric, labels: &[&str], figure: &str) {
        let point = self.point(metric, labels, 7);
        let point = match figure.parse::<i64>() {
            Ok(figure) => point.fixed(6, figure as u64),
            Err(_) => point.double(4, figure.parse().unwrap_or(f64::NAN)),
        };
        self.add(&point);
    }

    /// Adds a distribution.
    pub(super) fn put_times(&mut self, metric: &Metric, labels: &[&str], times: &Distribution) {
        let up_to: Vec<_> = POWERS.map(|power| times.below(power)).chain([times.count()]).collect();
        let counts = up_to.iter().scan(0, |before, count| Some(count - std::mem::replace(before, *count)));
        let bounds = POWERS.map(|power| (f64::from(1_u32 << power) / 1e6).to_bits());
        let point = self.point(metric, labels, 9).fixed(4, times.count()).double(5, times.sum as f64 / 1e6);
        self.add(&point.packed(6, counts).packed(7, bounds));
    }

    fn point(&self, metric: &Metric, labels: &[&str], attributes: u32) -> Message {
        let point = Message::default().fixed(2, self.begun).fixed(3, self.now);
        let labels = metric.labels.iter().zip(labels);
        labels.fold(point, |point, (label, value)| point.attribute(attributes, label, &Value::Text(value)))
    }

    fn add(&mut self, point: &Message) {
        self.all = std::mem::take(&mut self.all).message(POINTS, point);
    }
}

/// Sends all metrics to the collector, at once and at each interval of the settings.
pub(in crate::admin) async fn send(state: Arc<State>, collector: Collector, every: Duration) {
    let begun = nanos(SystemTime::now());
    loop {
        let metrics = messages(&Moment::gather(&state), begun, nanos(SystemTime::now()));
        // A failure is in the log, and the next message has all counts again.
        collector.send(&metrics).await;
        tokio::time::sleep(every).await;
    }
}

/// Returns the metrics that have figures. Counts have begun at `begun`, in nanoseconds since 1970.
fn messages(moment: &Moment, begun: u64, now: u64) -> Vec<Message> {
    let message = |metric: &'static Metric| {
        let mut points = Points { begun, now, all: Message::default() };
        (metric.collect)(moment, &mut Samples::of(metric, Form::Points(&mut points)));
        let message = Message::default().text(1, metric.name).text(2, metric.about);
        let all = &points.all;
        (!all.is_empty()).then(|| match metric.kind {
            MetricKind::Gauge => message.message(5, all),
            MetricKind::Counter => message.message(7, &all.clone().number(2, CUMULATIVE).number(3, 1)),
            MetricKind::Histogram => message.message(9, &all.clone().number(2, CUMULATIVE)),
        })
    };
    METRICS.iter().filter_map(message).collect()
}
