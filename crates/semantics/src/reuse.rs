//! Whether a stored response may answer a request (RFC 9111 section 4).
//!
//! Selection by URI and `Vary` has happened before; [`crate::revalidate`] has the steps for a response that
//! may not answer.

use http::StatusCode;

use crate::directives::RequestDirectives;
use crate::freshness::{Flags, Freshness};
use crate::rules::Rules;
use crate::status::Why;

/// The permitted use of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The response may be sent.
    Fresh,
    /// The response may be sent, and is validated meanwhile.
    StaleWhileRevalidate,
    /// The stale response may be sent: the client accepts it.
    MaxStale,
    /// The response must be validated first.
    Revalidate(Why),
    /// The response would have to be validated, but the client forbids requests to the origin: 504. The
    /// reason is that for the validation.
    OnlyIfCached(Why),
}

/// A failed attempt to reach the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No response: no connection, a broken one, or a timeout.
    Unreachable,
    /// A response with this status.
    Status(StatusCode),
}

/// Decides about the use of a stored response.
///
/// `immutable` overrides the client's `max-age` while the response is fresh, as RFC 8246 section 2.1 requires
/// of proxies, but not `no-cache`. `max-age=0` requests a validation, and even a response of the same second
/// does not satisfy it.
pub fn reuse(stored: &Freshness, request: &RequestDirectives, now: u32) -> Reuse {
    match why_not(stored, request, now) {
        Ok(reuse) => reuse,
        Err(why) if request.only_if_cached => Reuse::OnlyIfCached(why),
        Err(why) => Reuse::Revalidate(why),
    }
}

fn why_not(stored: &Freshness, request: &RequestDirectives, now: u32) -> Result<Reuse, Why> {
    if stored.flags.contains(Flags::INVALID) {
        return Err(Why::Invalidated);
    }
    if stored.flags.contains(Flags::NO_CACHE) {
        return Err(Why::ResponseNoCache);
    }
    if request.no_cache {
        return Err(Why::RequestNoCache);
    }
    let age = stored.age(now);
    let fresh = stored.lifetime > age;
    if let Some(max_age) = request.max_age {
        let immutable = fresh && stored.flags.contains(Flags::IMMUTABLE);
        if (age > max_age || max_age == 0) && !immutable {
            return Err(Why::RequestMaxAge);
        }
    }
    if fresh {
        let short = request.min_fresh.is_some_and(|wanted| stored.lifetime - age < wanted);
        return if short { Err(Why::RequestMinFresh) } else { Ok(Reuse::Fresh) };
    }
    stale(stored, request, age - stored.lifetime)
}

/// Decides about a stale response (RFC 9111 section 4.2.4 and RFC 5861 section 3).
fn stale(stored: &Freshness, request: &RequestDirectives, staleness: u32) -> Result<Reuse, Why> {
    let ended = if stored.flags.contains(Flags::PURGED) { Why::Purged } else { Why::Expired };
    if stored.flags.contains(Flags::MUST_REVALIDATE) {
        return Err(ended);
    }
    if request.max_stale.is_some_and(|accepted| staleness <= accepted) {
        return Ok(Reuse::MaxStale);
    }
    // A client that requires a certain freshness does not get a stale response.
    let indifferent = request.max_age.is_none() && request.min_fresh.is_none() && request.max_stale.is_none();
    if indifferent && within(staleness, stored.stale_while_revalidate) {
        return Ok(Reuse::StaleWhileRevalidate);
    }
    Err(ended)
}

/// Whether a window of `allowed` seconds is still open; a window of 0 seconds never is.
fn within(staleness: u32, allowed: u32) -> bool {
    allowed > 0 && staleness <= allowed
}

/// Whether a stored response may answer although its validation failed at the origin (RFC 5861 section 4, RFC 9111
/// section 4.2.4). The limit of the client or the origin applies; where the origin gives none, that of the rules.
pub fn stale_on_error(
    stored: &Freshness,
    request: &RequestDirectives,
    rules: &Rules,
    now: u32,
    failure: Failure,
) -> bool {
    let failed = match failure {
        Failure::Unreachable => true,
        Failure::Status(status) => match status.as_u16() {
            429 => rules.outlasts_limits,
            status => matches!(status, 500 | 502 | 503 | 504),
        },
    };
    let forbidding = Flags::NO_CACHE.with(Flags::MUST_REVALIDATE).with(Flags::INVALID);
    if !failed || request.no_cache || stored.flags.intersects(forbidding) {
        return false;
    }
    let said = stored.flags.contains(Flags::STALE_IF_ERROR);
    let allowed = if said { stored.stale_if_error } else { rules.stale_if_error };
    stored.ttl(now) > 0 || within(stored.staleness(now), allowed.max(request.stale_if_error.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS_NOTHING: RequestDirectives = RequestDirectives {
        no_cache: false,
        no_store: false,
        only_if_cached: false,
        max_age: None,
        max_stale: None,
        min_fresh: None,
        stale_if_error: None,
    };

    /// Returns a response received at 1000 and fresh for 60 seconds.
    fn stored(flags: Flags) -> Freshness {
        Freshness { received: 1000, lifetime: 60, date: 1000, flags, ..Default::default() }
    }

    #[test]
    fn request_directives_restrict_and_relax() {
        use Reuse::{Fresh, MaxStale, OnlyIfCached, Revalidate};
        let any = u32::MAX;
        let cases = [
            (ASKS_NOTHING, 1000, Fresh),
            (ASKS_NOTHING, 1059, Fresh),
            (ASKS_NOTHING, 1060, Revalidate(Why::Expired)),
            (RequestDirectives { no_cache: true, ..ASKS_NOTHING }, 1000, Revalidate(Why::RequestNoCache)),
            (RequestDirectives { no_store: true, ..ASKS_NOTHING }, 1000, Fresh),
            (RequestDirectives { max_age: Some(10), ..ASKS_NOTHING }, 1010, Fresh),
            (RequestDirectives { max_age: Some(10), ..ASKS_NOTHING }, 1011, Revalidate(Why::RequestMaxAge)),
            (RequestDirectives { max_age: Some(0), ..ASKS_NOTHING }, 1000, Revalidate(Why::RequestMaxAge)),
            (RequestDirectives { min_fresh: Some(50), ..ASKS_NOTHING }, 1010, Fresh),
            (
                RequestDirectives { min_fresh: Some(50), ..ASKS_NOTHING },
                1011,
                Revalidate(Why::RequestMinFresh),
            ),
            (RequestDirectives { max_stale: Some(5), ..ASKS_NOTHING }, 1065, MaxStale),
            (RequestDirectives { max_stale: Some(5), ..ASKS_NOTHING }, 1066, Revalidate(Why::Expired)),
            (RequestDirectives { max_stale: Some(any), ..ASKS_NOTHING }, 999_999, MaxStale),
            (RequestDirectives { only_if_cached: true, ..ASKS_NOTHING }, 1059, Fresh),
            (RequestDirectives { only_if_cached: true, ..ASKS_NOTHING }, 1060, OnlyIfCached(Why::Expired)),
        ];
        for (request, now, expected) in cases {
            assert_eq!(reuse(&stored(Flags::default()), &request, now), expected, "{request:?} at {now}");
        }
    }

    #[test]
    fn no_client_directive_overrides_the_revalidation_that_the_origin_demands() {
        let lenient = RequestDirectives { max_stale: Some(u32::MAX), ..ASKS_NOTHING };
        assert_eq!(reuse(&stored(Flags::MUST_REVALIDATE), &lenient, 1060), Reuse::Revalidate(Why::Expired));
        assert_eq!(reuse(&stored(Flags::MUST_REVALIDATE), &lenient, 1059), Reuse::Fresh);
        assert_eq!(reuse(&stored(Flags::NO_CACHE), &lenient, 1000), Reuse::Revalidate(Why::ResponseNoCache));
    }

    #[test]
    fn immutable_spares_reloads_while_fresh() {
        let reload = RequestDirectives { max_age: Some(0), ..ASKS_NOTHING };
        let forced = RequestDirectives { no_cache: true, ..ASKS_NOTHING };
        let stored = stored(Flags::IMMUTABLE);
        assert_eq!(reuse(&stored, &reload, 1059), Reuse::Fresh);
        assert_eq!(reuse(&stored, &reload, 1060), Reuse::Revalidate(Why::RequestMaxAge));
        assert_eq!(reuse(&stored, &forced, 1000), Reuse::Revalidate(Why::RequestNoCache));
    }

    #[test]
    fn stale_while_revalidate_has_a_window() {
        let windowed = |flags| Freshness { stale_while_revalidate: 30, ..stored(flags) };
        let strict = RequestDirectives { max_age: Some(600), ..ASKS_NOTHING };
        assert_eq!(reuse(&windowed(Flags::default()), &ASKS_NOTHING, 1090), Reuse::StaleWhileRevalidate);
        assert_eq!(reuse(&windowed(Flags::default()), &ASKS_NOTHING, 1091), Reuse::Revalidate(Why::Expired));
        assert_eq!(reuse(&windowed(Flags::default()), &strict, 1070), Reuse::Revalidate(Why::Expired));
        let forbidden = reuse(&windowed(Flags::MUST_REVALIDATE), &ASKS_NOTHING, 1070);
        assert_eq!(forbidden, Reuse::Revalidate(Why::Expired));
    }

    #[test]
    fn a_failed_origin_is_stood_in_for_within_bounds() {
        let rules = Rules { stale_if_error: 100, ..Rules::default() };
        let may = |stored: Freshness, now| {
            stale_on_error(&stored, &ASKS_NOTHING, &rules, now, Failure::Unreachable)
        };
        let said = |seconds| Freshness { stale_if_error: seconds, ..stored(Flags::STALE_IF_ERROR) };
        assert!(may(stored(Flags::default()), 1160));
        assert!(!may(stored(Flags::default()), 1161));
        assert!(may(said(200), 1260) && !may(said(200), 1261));
        assert!(!may(said(0), 1060), "an explicit 0 outweighs the rules");
        assert!(!may(stored(Flags::MUST_REVALIDATE), 1061));
        assert!(!may(stored(Flags::NO_CACHE), 1001));
    }

    #[test]
    fn a_softly_purged_response_is_served_stale_only_on_failure_or_request() {
        let lenient = Freshness { stale_while_revalidate: 500, ..stored(Flags::default()) };
        let purged = lenient.purged(1010);
        let rules = Rules { stale_if_error: 100, ..Rules::default() };
        let stands_in = |now| stale_on_error(&purged, &ASKS_NOTHING, &rules, now, Failure::Unreachable);
        assert_eq!(reuse(&purged, &ASKS_NOTHING, 1010), Reuse::Revalidate(Why::Purged));
        assert!(stands_in(1110) && !stands_in(1111));
        let tolerant = RequestDirectives { max_stale: Some(5), ..ASKS_NOTHING };
        assert_eq!(reuse(&purged, &tolerant, 1015), Reuse::MaxStale);
    }

    #[test]
    fn an_invalid_response_is_never_used_without_validation() {
        let invalid = stored(Flags::IMMUTABLE).invalid();
        let lenient = RequestDirectives { max_stale: Some(u32::MAX), ..ASKS_NOTHING };
        assert_eq!(reuse(&invalid, &lenient, 1000), Reuse::Revalidate(Why::Invalidated));
        let rules = Rules { stale_if_error: 100, ..Rules::default() };
        assert!(!stale_on_error(&invalid, &lenient, &rules, 1000, Failure::Unreachable));
    }

    #[test]
    fn only_server_errors_are_failures() {
        let rules = Rules::default();
        for (status, expected) in
            [(500, true), (502, true), (503, true), (504, true), (501, false), (404, false)]
        {
            let failure = Failure::Status(StatusCode::from_u16(status).unwrap());
            let found = stale_on_error(&stored(Flags::default()), &ASKS_NOTHING, &rules, 1061, failure);
            assert_eq!(found, expected, "{status}");
        }
    }

    #[test]
    fn clients_have_a_say_when_the_origin_fails() {
        let rules = Rules { stale_if_error: 0, ..Rules::default() };
        let may =
            |request| stale_on_error(&stored(Flags::default()), &request, &rules, 1070, Failure::Unreachable);
        assert!(!may(ASKS_NOTHING));
        assert!(may(RequestDirectives { stale_if_error: Some(60), ..ASKS_NOTHING }));
        assert!(!may(RequestDirectives { no_cache: true, stale_if_error: Some(60), ..ASKS_NOTHING }));
    }
}
