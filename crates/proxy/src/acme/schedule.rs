//! The times of renewals, and the backoff after failed orders. Times are in UNIX seconds.

use std::time::Duration;

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: u64,
    pub(super) until: u64,
}

/// The window of renewal that the authority suggests (RFC 9773 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The cause of a failed order, which decides about the backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The authority did not answer, so the try does not count against its limits.
    Unanswered,
    /// The authority refused. Authorities limit refused tries per hour.
    Refused,
}

/// Shares of a lifetime, in thirtieths: renewal is due after the first at the latest, after the second at the earliest
/// ...
const DUE: (u64, u64) = (20, 19);
/// ... and after this one at the latest, regardless of the authority's suggestion.
const LATEST: u64 = 27;
/// The first and the longest wait after failures, by their cause. After refusals, there are fewer than five tries per
/// hour.
const UNANSWERED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3_600));
const REFUSED: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(12 * 3_600));
/// The longest wait that an authority can request.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// The minimum and the maximum time between two queries for the window of renewal (RFC 9773 section 4.3.2), and the
/// time after a failed query.
const INQUIRY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));
pub(super) const INQUIRE_AGAIN: Duration = Duration::from_secs(6 * 3_600);

/// Returns the time of a renewal: within the authority's `window`, or else at two thirds of the lifetime or up to a
/// thirtieth of it earlier. `share`, from 0 to 1, selects the moment in that range, so that certificates of the same
/// day are not renewed at once.
pub(super) fn renewal(validity: Validity, window: Option<Window>, share: f64) -> u64 {
    let lifetime = validity.until.saturating_sub(validity.from);
    let after = |thirtieths: u64| validity.from + lifetime * thirtieths / 30;
    let between = |start: u64, end: u64| start + (end.saturating_sub(start) as f64 * share) as u64;
    match window.filter(|window| window.start < window.end) {
        Some(window) => between(window.start, window.end).min(after(LATEST)),
        None => between(after(DUE.1), after(DUE.0)),
    }
}

/// Returns the wait after this number of consecutive failures, the last one by `cause`: it doubles with each failure,
/// varies by a fifth with `share`, from 0 to 1, and is at least the time that the authority has `asked` for.
pub(super) fn backoff(failures: u32, cause: Cause, asked: Option<Duration>, share: f64) -> Duration {
    let (first, longest) = match cause {
        Cause::Unanswered => UNANSWERED,
        Cause::Refused => REFUSED,
    };
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest);
    doubled.mul_f64(0.8 + 0.4 * share).max(asked.unwrap_or_default().min(LONGEST))
}

/// Returns the time until the next query for the window of renewal.
pub(super) fn until_inquiry(asked: Duration) -> Duration {
    asked.clamp(INQUIRY.0, INQUIRY.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_lifetime() {
        let ninety = Validity { from: 0, until: 90 * DAY };
        let window = |start: u64, end: u64| Some(Window { start: start * DAY, end: end * DAY });
        let table = [
            (ninety, None, 1.0, 60 * DAY),
            (ninety, None, 0.0, 57 * DAY),
            (ninety, None, 0.5, 58 * DAY + DAY / 2),
            (Validity { from: 100, until: 160 }, None, 1.0, 140),
            (Validity { from: 100, until: 160 }, None, 0.0, 138),
            // The authority's window has precedence if it is valid.
            (ninety, window(50, 52), 0.5, 51 * DAY),
            (ninety, window(0, 1), 0.0, 0),
            (ninety, window(88, 89), 1.0, 81 * DAY),
            (ninety, window(52, 50), 1.0, 60 * DAY),
            (Validity { from: 160, until: 100 }, None, 1.0, 160),
        ];
        for (validity, window, share, expected) in table {
            assert_eq!(renewal(validity, window, share), expected, "{validity:?} {window:?} {share}");
        }
    }

    #[test]
    fn each_failure_doubles_the_wait() {
        let secs = Duration::from_secs;
        let table = [
            (1, Cause::Refused, None, 0.5, secs(300)),
            (2, Cause::Refused, None, 0.5, secs(600)),
            (5, Cause::Refused, None, 0.5, secs(4_800)),
            (40, Cause::Refused, None, 0.5, secs(43_200)),
            (1, Cause::Refused, None, 0.0, secs(240)),
            (1, Cause::Refused, None, 1.0, secs(360)),
            (1, Cause::Refused, Some(secs(7_200)), 0.5, secs(7_200)),
            (1, Cause::Refused, Some(secs(60)), 0.5, secs(300)),
            (1, Cause::Refused, Some(secs(90 * DAY)), 0.5, secs(7 * DAY)),
            (1, Cause::Unanswered, None, 0.5, secs(5)),
            (3, Cause::Unanswered, None, 0.5, secs(20)),
            (40, Cause::Unanswered, None, 0.5, secs(3_600)),
            (u32::MAX, Cause::Unanswered, None, 0.5, secs(3_600)),
        ];
        for (failures, cause, asked, share, expected) in table {
            assert_eq!(
                backoff(failures, cause, asked, share),
                expected,
                "{failures} {cause:?} {asked:?} {share}"
            );
        }
    }

    /// Let's Encrypt permits five failed verifications of a name in an hour.
    #[test]
    fn no_hour_has_more_than_four_refusals() {
        let starts = (1..40).scan(0, |at, failures| {
            *at += backoff(failures, Cause::Refused, None, 0.0).as_secs();
            Some(*at)
        });
        let starts: Vec<_> = std::iter::once(0).chain(starts).collect();
        for (at, start) in starts.iter().enumerate() {
            let within = starts[at..].iter().take_while(|later| **later < start + 3_600).count();
            assert!(within <= 4, "{within} from {start}");
        }
    }

    proptest! {
        #[test]
        fn a_renewal_is_within_the_lifetime(
            from in 0..1_u64 << 33, lifetime in 1..1_u64 << 28, start in 0..1_u64 << 34, length in 1..1_u64 << 28, share in 0.0..=1.0,
        ) {
            let validity = Validity { from, until: from + lifetime };
            let at = renewal(validity, None, share);
            prop_assert!(from + lifetime / 2 <= at && at <= from + lifetime * 2 / 3);
            let at = renewal(validity, Some(Window { start, end: start + length }), share);
            prop_assert!(at <= from + lifetime * 9 / 10);
        }

        #[test]
        fn a_wait_is_bounded_and_grows(failures in 1..u32::MAX, share in 0.0..=1.0) {
            for cause in [Cause::Refused, Cause::Unanswered] {
                let (one, next) = (backoff(failures, cause, None, share), backoff(failures + 1, cause, None, share));
                prop_assert!(one <= next && next <= REFUSED.1.mul_f64(1.2));
            }
        }
    }
}
