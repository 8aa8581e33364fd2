//! `GET /recent`: the last ten minutes, second by second. They are kept even if no client asks, so that a user who
//! looks after an event still sees it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use larder_store::memory::Usage;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::{Call, Outcome, Refusal, State, text};
use crate::base::clock;
use crate::counts::counters::{Counts, Totals};
use crate::counts::histogram::{Distributions, Latency};
use crate::flow::worker::ProcessState;

const EVERY: Duration = Duration::from_secs(1);
/// The number of seconds that are kept.
const KEPT: usize = 600;

/// The counts of about one second.
#[derive(Debug, Serialize)]
struct Row {
    /// The end of the interval, in milliseconds since 1970.
    time: u64,
    /// The actual length of the interval, in seconds.
    seconds: f64,
    #[serde(flatten)]
    totals: Totals,
    admissions: u64,
    rejections: u64,
    evictions: u64,
    latency: Latency,
}

/// The last ten minutes.
#[derive(Debug, Default)]
pub(crate) struct RecentMinutes(Mutex<VecDeque<Row>>);

impl RecentMinutes {
    fn add(&self, row: Row) {
        let mut rows = self.0.lock();
        if rows.len() == KEPT {
            rows.pop_front();
        }
        rows.push_back(row);
    }
}

/// All counts at one moment.
struct Moment {
    at: Instant,
    counts: Counts,
    times: Distributions,
    memory: Usage,
}

impl Moment {
    fn of(shared: &ProcessState) -> Self {
        Self {
            at: Instant::now(),
            counts: shared.observers.accounts.counts(),
            times: shared.times(),
            memory: shared.cache.store.memory.usage(),
        }
    }

    /// Returns the counts since `earlier`.
    fn since(&self, earlier: &Self) -> Row {
        Row {
            time: clock::unix_millis(),
            seconds: (self.at - earlier.at).as_secs_f64(),
            totals: self.counts.since(&earlier.counts).totals(),
            admissions: self.memory.admissions - earlier.memory.admissions,
            rejections: self.memory.rejections - earlier.memory.rejections,
            evictions: self.memory.evictions - earlier.memory.evictions,
            latency: self.times.since(&earlier.times).latency(),
        }
    }
}

/// Reads the counts every second, for as long as the process lives.
pub(super) async fn watch(state: Arc<State>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Moment::of(&state.shared);
    loop {
        ticks.tick().await;
        let now = Moment::of(&state.shared);
        state.recent.add(now.since(&last));
        last = now;
    }
}

/// Answers with the seconds that ended after `after`, in milliseconds since 1970; with all of them if `after` is
/// absent.
pub(super) fn answer(call: &Call<'_>) -> Outcome {
    let after = call.query.parse("after", "milliseconds since 1970", |text| text.parse().ok())?;
    let after: u64 = after.unwrap_or(0);
    let rows = call.state.recent.0.lock();
    // Without line breaks and indentation: there are hundreds of rows.
    match serde_json::to_string(&rows.iter().filter(|row| row.time > after).collect::<Vec<_>>()) {
        Ok(rows) => Ok(text(StatusCode::OK, "application/json", rows)),
        Err(error) => Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}
