//! The purge schedule: the times of scans of the cache, and the responses that they remove.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Zoned;
use larder_semantics::freshness::{Flags, Freshness};
use larder_words::with_defaults;

with_defaults! {
    /// The schedule of automatic removals from the cache.
    #[derive(Clone, Debug)]
    pub struct Schedule {
        /// Interval between scans of the whole cache.
        pub every: Duration = Duration::from_secs(600),
        /// Time for which a response may be stale and unusable before it is removed; `None`: unlimited.
        pub expired: Option<Duration> = None,
        /// Time for which a response may be without requests before it is removed; `None`: unlimited.
        pub unused: Option<Duration> = None,
        /// The times at which all responses are removed; `None`: never.
        pub everything: Option<Times> = None,
        /// Maximum of scanned objects per second.
        pub rate: u64 = 10_000,
    }
}

impl Schedule {
    /// Whether responses are removed because of their age or disuse.
    pub fn looks_through(&self) -> bool {
        self.expired.is_some() || self.unused.is_some()
    }
}

/// Whether a response with this `freshness` has been unusable for more than `patience` seconds at `now`: it is stale,
/// and beyond its time for stale use.
pub fn is_spent(freshness: &Freshness, now: u32, patience: u64) -> bool {
    let on_error = if freshness.flags.contains(Flags::STALE_IF_ERROR) { freshness.stale_if_error } else { 0 };
    let of_use = u64::from(freshness.stale_while_revalidate.max(on_error));
    u64::from(freshness.staleness(now)) > of_use.saturating_add(patience)
}

/// Recurring times in cron syntax: minute, hour, day of the month, month, day of the week, in local time.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(croner::Cron);

impl Times {
    /// Returns the first of these times after `now`; `None` if there is none.
    pub fn next(&self, now: &Zoned) -> Option<Zoned> {
        self.0.find_next_occurrence(now, false).ok()
    }
}

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write minute, hour, day, month and weekday, as in '30 4 * * 0'";
        let wrong = |_: croner::errors::CronError| format!("'{text}' is not a schedule: {example}");
        text.parse().map(Self).map_err(wrong)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn a_response_is_spent_when_it_can_no_longer_stand_in() {
        let fresh = Freshness { received: 1_000, lifetime: 60, ..Freshness::default() };
        let lenient = Freshness { stale_while_revalidate: 100, ..fresh };
        let flags = Flags::STALE_IF_ERROR;
        let standby = Freshness { stale_if_error: 500, flags, ..fresh };
        let table = [
            (fresh, 1_060, 0, false),
            (fresh, 1_061, 0, true),
            (fresh, 1_161, 100, true),
            (fresh, 1_160, 100, false),
            (lenient, 1_160, 0, false),
            (lenient, 1_161, 0, true),
            (standby, 1_560, 0, false),
            (standby, 1_561, 0, true),
        ];
        for (freshness, now, patience, expected) in table {
            assert_eq!(is_spent(&freshness, now, patience), expected, "{freshness:?} at {now}, {patience}");
        }
    }

    #[test]
    fn times_come_again_and_bad_ones_are_explained() {
        let times: Times = "30 4 * * *".parse().unwrap();
        let at = |day| date(2026, 3, day).at(4, 30, 0, 0).to_zoned(TimeZone::UTC).unwrap();
        assert_eq!(times.next(&at(10)), Some(at(11)));
        assert_eq!(times.to_string(), "30 4 * * *");
        let error = "at noon".parse::<Times>().unwrap_err();
        assert!(
            error.starts_with("'at noon' is not a schedule: ") && error.contains("'30 4 * * 0'"),
            "{error}"
        );
    }
}
