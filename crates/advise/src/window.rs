//! The counts of the last hours, in intervals.

use std::collections::VecDeque;
use std::ops::AddAssign;

use crate::counts::{Counts, Sums, Traffic};
use crate::request::Request;
use crate::sample::GROUPS;

/// The length of the intervals of a report, in seconds.
pub const INTERVAL: u32 = 300;

/// The number of intervals that are kept.
const MOST: usize = 48;

/// The counts of some time.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    /// The first second (UNIX), and the one after the last.
    pub(crate) begun: u32,
    pub(crate) ended: u32,
    pub(crate) traffic: Traffic,
    /// Requests of the sample that were lost.
    pub(crate) lost: u64,
    /// The objects that the shadow of the running configuration evicted.
    pub(crate) evictions: u64,
    /// What this shadow gave beyond the answers of the cache to the same requests, by groups of all keys.
    pub(crate) wrong: [Sums; GROUPS],
    /// The requests for responses that may not be stored.
    pub(crate) unstorable: f64,
    /// What shadows have seen of the requests that were not counted exactly, and the shadow without a limit.
    pub(crate) seen: SampleCounts,
    pub(crate) seen_endless: SampleCounts,
    /// In the order of the shadows.
    pub(crate) shadows: Vec<Counts>,
}

/// The requests for keys of a sample, and those that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SampleCounts {
    requests: f64,
    stand_for: f64,
}

/// The last intervals.
pub(crate) struct Window {
    intervals: VecDeque<Interval>,
    shadows: usize,
}

impl Interval {
    fn new(now: u32, shadows: usize) -> Self {
        Self {
            begun: now,
            ended: now,
            traffic: Traffic::default(),
            lost: 0,
            evictions: 0,
            wrong: [Sums::default(); GROUPS],
            unstorable: 0.0,
            seen: SampleCounts::default(),
            seen_endless: SampleCounts::default(),
            shadows: vec![Counts::default(); shadows],
        }
    }
}

impl SampleCounts {
    /// Counts a request of a group that `counts`, and what it stands for.
    pub(crate) fn count(&mut self, counts: bool, group: Option<usize>, (request, asked): (&Request, &Sums)) {
        if counts && group.is_some() {
            self.requests += f64::from(request.requests);
            self.stand_for += asked.requests;
        }
    }

    /// Returns the share of the keys, a mean if the sample changed.
    pub(crate) fn share(self) -> f64 {
        if self.stand_for > 0.0 { self.requests / self.stand_for } else { 1.0 }
    }
}

impl AddAssign for SampleCounts {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.stand_for += other.stand_for;
    }
}

impl Window {
    pub(crate) fn new(shadows: usize) -> Self {
        Self { intervals: VecDeque::new(), shadows }
    }

    /// Returns the interval of a request at `now` (UNIX seconds).
    pub(crate) fn at(&mut self, now: u32) -> &mut Interval {
        // Intervals end with the hour, so that those of an hour can be summed.
        let is_over = |last: &Interval| now / INTERVAL > last.begun / INTERVAL;
        if self.intervals.back().is_none_or(is_over) {
            if self.intervals.len() == MOST {
                self.intervals.pop_front();
            }
            self.intervals.push_back(Interval::new(now, self.shadows));
        }
        let last = self.intervals.len() - 1;
        self.intervals[last].ended = self.intervals[last].ended.max(now);
        &mut self.intervals[last]
    }

    /// Returns the sum of the intervals that ended at `since` (UNIX seconds) or later.
    pub(crate) fn sum(&self, since: u32) -> Interval {
        let mut intervals = self.intervals.iter().filter(|interval| interval.ended >= since);
        let Some(mut sum) = intervals.next().cloned() else { return Interval::new(since, self.shadows) };
        for interval in intervals {
            sum.ended = interval.ended;
            sum.traffic += interval.traffic;
            sum.lost += interval.lost;
            sum.evictions += interval.evictions;
            sum.wrong.iter_mut().zip(interval.wrong).for_each(|(sum, wrong)| *sum += wrong);
            sum.unstorable += interval.unstorable;
            sum.seen += interval.seen;
            sum.seen_endless += interval.seen_endless;
            sum.shadows.iter_mut().zip(&interval.shadows).for_each(|(sum, counts)| *sum += counts);
        }
        sum
    }

    pub(crate) fn bytes(&self) -> usize {
        self.intervals.len() * self.shadows * size_of::<Counts>()
    }
}
