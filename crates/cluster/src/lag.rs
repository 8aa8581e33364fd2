//! The time for which a node may serve its stored responses: arithmetic on its own monotonic clock.
//!
//! A node has every purge that was in the stream when it *sent* its read, once it has applied the answer. From then on,
//! until the allowed lag has passed since it sent that read, every purge that it does not have is younger than the lag. The
//! same holds from the moment at which it marks everything for revalidation: later answers are the origin's from after
//! that moment. So both are valid for the same time, and no clock but the node's own is involved.

use std::time::Duration;

/// The error of a coarse clock, and of rounding, in milliseconds.
const BLUR: u64 = 20;
/// The longest wait before a node reads the stream again, in milliseconds.
const WAIT: u64 = 1_000;

/// The allowed lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    millis: u64,
}

impl Lag {
    /// The least lag: beyond the error of clocks, there has to be time for a read.
    pub const LEAST: Duration = Duration::from_millis(100);

    /// Returns this lag, or the least one.
    pub fn new(allowed: Duration) -> Self {
        let millis = u64::try_from(allowed.max(Self::LEAST).as_millis()).unwrap_or(u64::MAX);
        Self { millis }
    }

    /// Returns the time (milliseconds) until which a node may answer with stored responses, if it has applied
    /// the result of a read sent at `asked`, or has had all responses revalidated since then.
    pub fn until(self, asked: u64) -> u64 {
        asked.saturating_add(self.millis - BLUR)
    }

    /// Returns the wait between two reads: short enough that a read may be slow, and may even fail once,
    /// before the lag is over.
    pub fn wait(self) -> Duration {
        Duration::from_millis((self.millis / 4).min(WAIT))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lag_of_nothing_is_the_least() {
        assert_eq!(Lag::new(Duration::ZERO), Lag::new(Lag::LEAST));
        assert!(Lag::new(Duration::ZERO).until(0) > 0);
        assert_eq!(Lag::new(Duration::MAX).until(100), u64::MAX);
    }

    #[test]
    fn there_is_time_to_ask_twice() {
        for millis in [100, 500, 2_000, 5_000, 60_000] {
            let lag = Lag::new(Duration::from_millis(millis));
            let wait = lag.wait().as_millis() as u64;
            assert!(lag.until(0) > 3 * wait, "{millis}");
            assert!(wait >= 10, "{millis}");
        }
    }

    /// An event of a node, at some millisecond.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// A purge of any node is in the stream.
        Purged,
        /// The node reads the stream, and has applied the result this many milliseconds later; or the read fails.
        Asked(Option<u64>),
        /// A request arrives.
        Request,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Purged),
            (0..400_u64).prop_map(|took| Event::Asked(Some(took))),
            Just(Event::Asked(None)),
            Just(Event::Request),
        ]
    }

    proptest! {
        /// For all reads, losses and sleeps of a node: each response that it serves was purged less than the
        /// lag ago, or not at all, as far as the node does not know of the purge.
        #[test]
        fn a_node_serves_no_response_purged_longer_ago_than_the_lag(
            lag in 100..1_000_u64,
            events in prop::collection::vec((0..300_u64, event()), 1..60),
        ) {
            let allowed = Lag::new(Duration::from_millis(lag));
            let (mut now, mut until, mut known) = (0, 0, 0);
            let (mut purged, mut answers) = (Vec::new(), Vec::new());
            for (pause, event) in events {
                now += pause;
                // Results that have arrived by now are applied.
                answers.retain(|&(asked, obeyed): &(u64, u64)| {
                    if obeyed <= now {
                        (until, known) = (until.max(allowed.until(asked)), known.max(asked));
                    }
                    obeyed > now
                });
                match event {
                    Event::Purged => purged.push(now),
                    Event::Asked(Some(took)) => answers.push((now, now + took)),
                    Event::Asked(None) => {}
                    Event::Request if now < until => {
                        let missed = purged.iter().filter(|&&purge| purge > known);
                        for purge in missed {
                            prop_assert!(now - purge <= lag, "{now}: {purge} is not known");
                        }
                    }
                    Event::Request => {
                        (until, known) = (allowed.until(now), now);
                    }
                }
            }
        }
    }
}
