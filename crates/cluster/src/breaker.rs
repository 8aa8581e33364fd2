//! A circuit breaker for an optional service: after several consecutive failures it stops all use, for a time that
//! grows with each further failure. Then one caller tries; if it succeeds, all callers may use the service again.

use larder_words::{named, with_defaults};

/// The consecutive failures that open the breaker.
const FAILURES: u32 = 3;
/// The time for which it stays open, in milliseconds: at first, and at most.
const PAUSE: (u64, u64) = (500, 60_000);

with_defaults! {
    /// The state of the breaker. Times are milliseconds of any monotonic clock.
    #[derive(Clone, Debug)]
    pub struct Breaker {
        state: State = State::Closed,
        failures: u32 = 0,
        pause: u64 = PAUSE.0,
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    /// No request is sent before this time.
    Open(u64),
    /// One caller tries; if it has not reported a result by this time, another caller tries.
    Trying(u64),
}

named! {
    /// The state of the breaker, for users.
    pub enum BreakerState, word {
        /// All callers may send requests.
        Closed = "closed",
        /// No request is sent.
        Open = "open",
        /// Half-open: one caller tries, or the next one will.
        Trying = "trying",
    }
}

impl Breaker {
    /// Whether a call is permitted now. The caller must report its result.
    pub fn admits(&mut self, now: u64) -> bool {
        match self.state {
            State::Closed => true,
            State::Open(until) | State::Trying(until) if now < until => false,
            State::Open(_) | State::Trying(_) => {
                self.state = State::Trying(now.saturating_add(self.pause));
                true
            }
        }
    }

    /// Records a success. A late success of a request from before the breaker opened has no effect.
    pub fn succeeded(&mut self) {
        if !matches!(self.state, State::Open(_)) {
            *self = Self::default();
        }
    }

    /// Records a failure or a timeout. Returns true if the breaker opens.
    pub fn failed(&mut self, now: u64) -> bool {
        match self.state {
            State::Open(_) => return false,
            State::Closed => self.failures += 1,
            State::Trying(_) => self.pause = (self.pause * 2).min(PAUSE.1),
        }
        let opens = self.failures >= FAILURES;
        if opens {
            self.state = State::Open(now.saturating_add(self.pause));
        }
        opens
    }

    /// Returns the state.
    pub fn standing(&self, now: u64) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open(until) if now < until => BreakerState::Open,
            State::Open(_) | State::Trying(_) => BreakerState::Trying,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(now: u64) -> Breaker {
        let mut breaker = Breaker::default();
        let opens = [(); FAILURES as usize].map(|()| breaker.failed(now));
        assert_eq!(opens, [false, false, true]);
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_others_do_not() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            assert!(!breaker.failed(0) && !breaker.failed(0));
            breaker.succeeded();
        }
        assert_eq!((breaker.standing(0), breaker.admits(0)), (BreakerState::Closed, true));
        assert_eq!((opened(0).standing(0), opened(0).admits(0)), (BreakerState::Open, false));
    }

    #[test]
    fn one_tries_and_if_that_goes_well_all_may() {
        let mut breaker = opened(0);
        assert_eq!(breaker.standing(PAUSE.0), BreakerState::Trying);
        assert_eq!([breaker.admits(PAUSE.0), breaker.admits(PAUSE.0)], [true, false]);
        breaker.succeeded();
        assert_eq!([breaker.admits(PAUSE.0), breaker.admits(PAUSE.0)], [true, true]);
    }

    #[test]
    fn an_open_breaker_waits_longer_after_each_failure_up_to_a_minute() {
        let (mut breaker, mut now, mut pauses) = (opened(0), 0, Vec::new());
        for _ in 0..9 {
            let begun = now;
            while !breaker.admits(now) {
                now += 1;
            }
            pauses.push(now - begun);
            breaker.failed(now);
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    }

    #[test]
    fn a_late_answer_does_not_close_it() {
        let mut breaker = opened(0);
        breaker.succeeded();
        assert!(!breaker.admits(0));
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Asks,
        Succeeds,
        Fails,
        Passes(u64),
    }

    proptest! {
        /// For all events: the breaker does not stay open for ever, and while it is open, no request is sent.
        #[test]
        fn an_open_breaker_sends_no_request_and_admits_one_after_its_pause(events in prop::collection::vec(prop_oneof![
            Just(Event::Asks), Just(Event::Succeeds), Just(Event::Fails), (0..100_000_u64).prop_map(Event::Passes),
        ], 0..200)) {
            let (mut breaker, mut now) = (Breaker::default(), 0);
            for event in events {
                match event {
                    Event::Asks => {
                        let standing = breaker.standing(now);
                        let admitted = breaker.admits(now);
                        prop_assert!(!(admitted && standing == BreakerState::Open));
                        prop_assert!(admitted || standing != BreakerState::Closed);
                    }
                    Event::Succeeds => breaker.succeeded(),
                    Event::Fails => drop(breaker.failed(now)),
                    Event::Passes(millis) => now += millis,
                }
                prop_assert!(breaker.clone().admits(now + PAUSE.1));
            }
        }
    }
}
