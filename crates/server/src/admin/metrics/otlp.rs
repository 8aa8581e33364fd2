//! The metrics for a collector of OpenTelemetry: the rows of the table as messages of OTLP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::points::Points;
use super::table::METRICS;
use super::text::{Form, Metric, MetricKind, Samples};
use super::{Moment, State};
use crate::observe::otlp::protobuf::Message;
use crate::observe::otlp::{Collector, nanos};

/// Counts are those since the start, in the numbers of OTLP.
const CUMULATIVE: u64 = 2;

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
        let mut points = Points::new(begun, now);
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
