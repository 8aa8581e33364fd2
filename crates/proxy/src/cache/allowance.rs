//! The CPU time that shadow caches may take: a small share of that of the process, and more while the process is nearly idle.
//! A thread that takes more has to do less.

use std::mem;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The share of the CPU time of the process.
const OF_BUSY: f64 = 0.012;
/// The share of one core while the process is idle: less the more it takes, and none once it takes the `IDLE`th part of a core.
const OF_IDLE: f64 = 0.02;
const IDLE: f64 = 8.0;
/// The most seconds that are saved for later, as many as a process has when it starts: the first requests, or those after a quiet
/// time, are too few for a small sample. They are spent no faster than this share of one core.
const SAVED: f64 = 0.25;
const OF_SAVED: f64 = 0.02;
/// The part of a core beyond which a process spends nothing that it saved but what a second gives. As much is left after too much
/// work, since the next work may take somewhat longer than usual by chance.
const BUSY: f64 = 0.5;
/// The least time over which the share of the thread is judged: what it takes of less is chance.
const SHORTEST: Duration = Duration::from_millis(100);
/// The factor by which work takes longer than in a release: without it, tests would see small samples.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 20 } else { 1 };
/// The part of the seconds given that leaves room for twice the work, and the least of them by which that is known.
const AMPLE: f64 = 0.4;
const LEAST: f64 = 0.05;
/// The seconds that this takes, and those until it is asked again once it was so.
const TRIED: f64 = 300.0;
const TRIED_AGAIN: f64 = 60.0;

/// Seconds of CPU time that are left.
pub(super) struct Allowance {
    left: f64,
    /// The CPU time taken since the last ones were given.
    used: Duration,
    /// The time and the CPU time of the process at which the last ones were given.
    given: Instant,
    busy: Duration,
    /// The seconds given and taken since it was too much, or since the last answer whether they are ample.
    granted: f64,
    taken: f64,
    /// The seconds since then, and those that it takes to answer.
    tried: f64,
    needed: f64,
}

impl Allowance {
    pub(super) fn new() -> Self {
        Self {
            left: SAVED,
            used: Duration::ZERO,
            given: Instant::now(),
            busy: cpu_time(ClockId::ProcessCPUTime),
            granted: 0.0,
            taken: 0.0,
            tried: 0.0,
            needed: TRIED,
        }
    }

    /// Notes that work has taken this CPU time.
    pub(super) fn charge(&mut self, used: Duration) {
        self.used += used;
    }

    /// Notes that a report, or a change of what shadows see, has taken this CPU time. It delays the next growth, but makes nothing
    /// smaller: reports take as long for a smaller sample, and a large sample takes the longest to be halved, so that a half would
    /// soon become an eighth.
    pub(super) fn charge_change(&mut self, used: Duration) {
        self.taken += used.as_secs_f64();
    }

    /// Takes the time charged since the last call. Returns whether that was too much; if so, nothing is owed for it.
    pub(super) fn is_exceeded(&mut self) -> bool {
        let (now, busy) = (Instant::now(), cpu_time(ClockId::ProcessCPUTime));
        let time = now.duration_since(self.given);
        if time < SHORTEST {
            return false;
        }
        let worked = busy.saturating_sub(self.busy).as_secs_f64();
        (self.given, self.busy) = (now, busy);
        let used = mem::take(&mut self.used) / SLOWNESS;
        self.take(used.as_secs_f64(), time.as_secs_f64(), worked)
    }

    /// Does this after a `time` in which the process has taken this CPU time, all in seconds.
    fn take(&mut self, taken: f64, time: f64, worked: f64) -> bool {
        let idle = (time - IDLE * worked).max(0.0);
        let granted = OF_BUSY * worked + OF_IDLE * idle;
        let of_second = granted / time;
        let (is_busy, spendable) = (worked > BUSY * time, of_second.max(OF_SAVED * time));
        if is_busy {
            self.left = self.left.min(of_second);
        }
        let is_exceeded = taken > granted + self.left.min(spendable);
        self.left = (self.left + granted - taken).clamp(0.0, SAVED);
        self.granted += granted;
        self.taken += taken;
        self.tried += time;
        if is_exceeded {
            self.left = self.left.max(of_second);
            self.restart(TRIED);
        }
        is_exceeded
    }

    /// Begins again to find out whether the time is ample, which takes so many seconds.
    fn restart(&mut self, needed: f64) {
        (self.granted, self.taken, self.tried, self.needed) = (0.0, 0.0, 0.0, needed);
    }

    /// Notes that requests were lost: more work is out of the question for some minutes.
    pub(super) fn lose(&mut self) {
        self.restart(TRIED);
    }

    /// Returns whether the time taken since the last answer leaves room for twice the work; `false` as long as that time was short.
    pub(super) fn is_ample(&mut self) -> bool {
        if self.tried < self.needed || self.granted < LEAST {
            return false;
        }
        let is_ample = self.taken < AMPLE * self.granted;
        self.restart(if is_ample { TRIED_AGAIN } else { TRIED });
        is_ample
    }
}

/// Does some work. Returns its result and the CPU time that it took.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = cpu_time(ClockId::ThreadCPUTime);
    let result = work();
    (result, cpu_time(ClockId::ThreadCPUTime).saturating_sub(begun))
}

fn cpu_time(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_exceeds_what_a_quiet_process_may_take() {
        let mut allowance = Allowance::new();
        assert_eq!([0.001, 1.0, 0.0].map(|taken| allowance.take(taken, 0.25, 0.0)), [false, true, false]);
        assert!(!allowance.is_ample(), "little time was given");
    }

    #[test]
    fn a_busy_process_has_no_time_that_it_saved_while_idle() {
        let mut allowance = Allowance::new();
        assert!(!allowance.take(0.021, 1.0, 0.5));
        assert!(allowance.take(0.029, 1.0, 1.0));
    }

    #[test]
    fn a_process_with_little_to_do_spends_what_it_saved_slowly() {
        let mut allowance = Allowance::new();
        assert_eq!((1..).find(|_| allowance.take(0.02, 1.0, 0.2)), Some(15));
        assert!(Allowance::new().take(0.04, 1.0, 0.2), "all at once");
    }

    #[test]
    fn little_work_is_ample_after_five_minutes_then_each_minute() {
        let mut allowance = Allowance::new();
        // A process that takes a bit more than an eighth of a core has the least time for shadows.
        let mut ample = |from: u32, to: u32, taken: f64| -> Vec<_> {
            let is_ample = |_: &u32| !allowance.take(taken, 1.0, 0.13) && allowance.is_ample();
            (from..=to).filter(is_ample).collect()
        };
        assert_eq!(ample(1, 480, 0.000_5), [300, 360, 420, 480]);
        assert_eq!(ample(481, 500, 0.1), [0; 0], "too much");
        assert_eq!(ample(501, 860, 0.000_5), [800, 860]);
    }

    #[test]
    fn twice_the_share_of_a_busy_process_is_known_after_a_second() {
        for busy in [0.8, 1.0, 16.0] {
            let mut allowance = Allowance::new();
            let taken = 1.9 * OF_BUSY * busy / 4.0;
            let exceeded = (1..).find(|_| allowance.take(taken, 0.25, busy / 4.0));
            assert_eq!(exceeded, Some(5), "{busy} cores");
            allowance.charge_change(Duration::from_secs(1));
            assert!(!allowance.take(taken, 0.25, busy / 4.0), "the change was not work");
        }
    }
}
