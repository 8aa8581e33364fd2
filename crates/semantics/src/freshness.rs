//! Age and lifetime of a stored response (RFC 9111 section 4.2), in a few integers.
//!
//! [`crate::reuse`] decides how they are used; [`crate::storable`] decides whether a response is stored at all.

use http::StatusCode;
use larder_words::named;

use crate::directives::ResponseDirectives;
use crate::fields::{Fields, list};
use crate::history::{Guess, History};
use crate::lifetimes::Lifetime;
use crate::rules::{Rules, Times};
use crate::{date, wire};

/// The data of a stored response that decides whether it may answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// The time at which it was received (`response_time`).
    pub received: u32,
    /// Its age at that time (`corrected_initial_age`), in seconds.
    pub initial_age: u32,
    /// The age up to which it is fresh (`freshness_lifetime`), in seconds.
    pub lifetime: u32,
    /// Its `Date`, or the time at which it was received.
    pub date: u32,
    /// Seconds of staleness allowed while revalidating (RFC 5861 section 3).
    pub stale_while_revalidate: u32,
    /// Seconds of staleness allowed when the origin fails (RFC 5861 section 4); has a meaning only with
    /// [`Flags::STALE_IF_ERROR`].
    pub stale_if_error: u32,
    /// Its boolean properties.
    pub flags: Flags,
}

impl Freshness {
    /// Returns `current_age` (RFC 9111 section 4.2.3), in seconds: the value of `Age`.
    pub fn age(&self, now: u32) -> u32 {
        self.initial_age.saturating_add(now.saturating_sub(self.received))
    }

    /// Returns the seconds of freshness left; zero or less means stale.
    pub fn ttl(&self, now: u32) -> i64 {
        i64::from(self.lifetime) - i64::from(self.age(now))
    }

    /// Whether it is fresh, and no more than `percent` of its lifetime is left.
    pub fn is_ending(&self, now: u32, percent: u8) -> bool {
        let left = u32::try_from(self.ttl(now)).unwrap_or(0);
        left > 0 && u64::from(left) * 100 <= u64::from(self.lifetime) * u64::from(percent)
    }

    /// Whether it may answer, without validation, a request without cache directives.
    pub fn is_fresh(&self, now: u32) -> bool {
        self.ttl(now) > 0 && !self.flags.intersects(Flags::NO_CACHE.with(Flags::INVALID))
    }

    /// Whether it was purged, or invalidated by a change.
    pub fn is_taken_back(&self) -> bool {
        self.flags.intersects(Flags::INVALID.with(Flags::PURGED))
    }

    /// Returns the seconds since it became stale; 0 while fresh.
    pub fn staleness(&self, now: u32) -> u32 {
        self.age(now).saturating_sub(self.lifetime)
    }

    /// Returns the same freshness after a soft purge: stale from `then` on. The response may be used if the
    /// origin fails, but not while it is revalidated.
    pub fn purged(&self, then: u32) -> Self {
        let lifetime = self.lifetime.min(self.age(then));
        Self { lifetime, stale_while_revalidate: 0, flags: self.flags.with(Flags::PURGED), ..*self }
    }

    /// Returns the same freshness with the need for validation before any use (RFC 9111 section 4.4).
    pub fn invalid(&self) -> Self {
        Self { flags: self.flags.with(Flags::INVALID), ..*self }
    }

    /// Returns the same freshness without lifetime, for a response of which each use is validated.
    pub fn unproven(&self) -> Self {
        Self { lifetime: 0, ..*self }
    }

    /// Returns the same freshness for a request to which no heuristic lifetime applies.
    pub fn without_guess(&self) -> Self {
        match self.flags.contains(Flags::HEURISTIC) {
            true => Self { lifetime: 0, stale_while_revalidate: 0, ..*self },
            false => *self,
        }
    }

    /// Returns the freshness of a response that may not be stored: its age without a lifetime.
    pub fn unstored(response: &impl Fields, times: Times) -> Self {
        let date = response.first("date").and_then(date::parse).unwrap_or(times.received);
        Self {
            received: times.received,
            initial_age: initial_age(response, date, times),
            date,
            ..Self::default()
        }
    }

    /// Returns the freshness of `response`, which may be stored, and its lifetime with the lifetime's source.
    pub(crate) fn of(
        rules: &Rules,
        directives: &ResponseDirectives,
        status: StatusCode,
        response: &impl Fields,
        times: Times,
    ) -> (Self, Lifetime) {
        let unstored = Self::unstored(response, times);
        let dated = (unstored.date, times);
        let own = lifetime(rules, directives, status, response, dated);
        let lifetime = rules.lifetimes.apply(own, takes_default(status, directives));
        let flags = [
            (Flags::NO_CACHE, directives.no_cache),
            (Flags::MUST_REVALIDATE, must_revalidate(directives) && !rules.ignored.must_revalidate),
            (Flags::IMMUTABLE, directives.immutable),
            (Flags::HEURISTIC, matches!(lifetime, Lifetime::Heuristic(_))),
            (Flags::VALIDATOR, status.is_success() && response.contains_any(&["etag", "last-modified"])),
            (Flags::STALE_IF_ERROR, directives.stale_if_error.is_some()),
        ];
        let set = flags.into_iter().filter(|(_, is_set)| *is_set);
        let freshness = Self {
            lifetime: lifetime.seconds(),
            stale_while_revalidate: directives.stale_while_revalidate.unwrap_or(rules.stale_while_revalidate),
            stale_if_error: directives.stale_if_error.unwrap_or(0),
            flags: set.fold(Flags::default(), |flags, (flag, _)| flags.with(flag)),
            ..unstored
        };
        (freshness, lifetime)
    }
}

/// A set of properties of a stored response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Each use must be validated (RFC 9111 section 5.2.2.4).
    pub const NO_CACHE: Self = Self(1);
    /// It must not be used when stale: `must-revalidate`, `proxy-revalidate` or `s-maxage` (RFC 9111 sections
    /// 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    pub const MUST_REVALIDATE: Self = Self(2);
    /// It does not change while fresh (RFC 8246).
    pub const IMMUTABLE: Self = Self(4);
    /// The lifetime is heuristic (RFC 9111 section 4.2.2).
    pub const HEURISTIC: Self = Self(8);
    /// It has an `ETag` or `Last-Modified` for validation, and a status that a 304 confirms (RFC 9110 section 15.4.5).
    pub const VALIDATOR: Self = Self(16);
    /// The origin has given the staleness allowed when it fails.
    pub const STALE_IF_ERROR: Self = Self(32);
    /// A purge has ended its lifetime.
    pub const PURGED: Self = Self(64);
    /// It must be validated before any use, for any lifetime (RFC 9111 section 4.4).
    pub const INVALID: Self = Self(128);

    /// Returns the set as a number, which [`from_bits`](Self::from_bits) reads.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set for `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whether the directives forbid a shared cache to use the response when stale.
fn must_revalidate(directives: &ResponseDirectives) -> bool {
    directives.must_revalidate || directives.proxy_revalidate || directives.s_maxage.is_some()
}

named! {
    /// The source of a response's lifetime (RFC 9111 sections 4.2.1 and 4.2.2).
    pub enum Source, name {
        /// The directive `s-maxage`.
        SMaxage = "s-maxage",
        /// The directive `max-age`.
        MaxAge = "max-age",
        /// The field `Expires`.
        Expires = "Expires",
        /// A share of the time since `Last-Modified`: heuristic.
        LastModified = "Last-Modified",
        /// The same, extended or shortened by the results of validations.
        Adapted = "Last-Modified and validations",
        /// A share of the time for which validations have found it unchanged.
        Validations = "validations",
        /// A rule of the configuration.
        Rule = "a rule",
        /// No source: each use is validated.
        Nothing = "nothing",
    }
}

impl Source {
    /// Returns the source of the lifetime of `response`, generated at `date`.
    pub(crate) fn of(
        rules: &Rules,
        directives: &ResponseDirectives,
        status: StatusCode,
        response: &impl Fields,
        (date, times): (u32, Times),
    ) -> Self {
        let may_be_guessed = is_heuristically_cacheable(status) || directives.public;
        if directives.s_maxage.is_some() {
            Self::SMaxage
        } else if directives.max_age.is_some() {
            Self::MaxAge
        } else if response.contains("expires") && !directives.targeted {
            Self::Expires
        } else if may_be_guessed && modified(response).is_some_and(|modified| modified < date) {
            let is_adapted = rules.heuristic_adaptive && times.history.adapts();
            if is_adapted { Self::Adapted } else { Self::LastModified }
        } else if may_be_guessed
            && rules.heuristic_adaptive
            && times.history.since_first(guess(rules), times.received).is_some()
        {
            Self::Validations
        } else {
            Self::Nothing
        }
    }
}

fn guess(rules: &Rules) -> Guess {
    Guess { percent: rules.heuristic_percent, most: rules.heuristic_max }
}

fn modified(response: &impl Fields) -> Option<u32> {
    response.first("last-modified").and_then(date::parse)
}

/// Returns the lifetime of a response by its fields.
pub(crate) fn lifetime(
    rules: &Rules,
    directives: &ResponseDirectives,
    status: StatusCode,
    response: &impl Fields,
    (date, times): (u32, Times),
) -> Lifetime {
    let unchanged = || date.saturating_sub(modified(response).unwrap_or(date));
    match Source::of(rules, directives, status, response, (date, times)) {
        Source::SMaxage => Lifetime::Explicit(directives.s_maxage.unwrap_or(0)),
        Source::MaxAge => Lifetime::Explicit(directives.max_age.unwrap_or(0)),
        Source::Expires => {
            let expires = response.first("expires").and_then(date::parse).unwrap_or(0);
            Lifetime::Explicit(expires.saturating_sub(date))
        }
        Source::LastModified => {
            Lifetime::Heuristic(History::default().since_modified(guess(rules), unchanged()))
        }
        Source::Adapted => Lifetime::Heuristic(times.history.since_modified(guess(rules), unchanged())),
        Source::Validations => {
            let lifetime = times.history.since_first(guess(rules), times.received);
            lifetime.map_or(Lifetime::Unknown, Lifetime::Heuristic)
        }
        Source::Rule | Source::Nothing => Lifetime::Unknown,
    }
}

/// Whether a response gets the operator's default lifetime. An error may be about the one request that caused it, or
/// last for a moment, so it needs a lifetime of its own, or a status that permits a heuristic one.
pub(crate) fn takes_default(status: StatusCode, directives: &ResponseDirectives) -> bool {
    let is_error = status.is_client_error() || status.is_server_error();
    !is_error || is_heuristically_cacheable(status) || directives.public
}

/// Whether a status code is defined as heuristically cacheable (RFC 9110 section 15.1).
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns `corrected_initial_age` (RFC 9111 section 4.2.3).
fn initial_age(response: &impl Fields, date: u32, times: Times) -> u32 {
    let apparent = if times.by_age { 0 } else { times.received.saturating_sub(date) };
    let delay = times.received.saturating_sub(times.requested);
    apparent.max(age_value(response).saturating_add(delay))
}

/// Returns the first member of the first `Age` line; 0 when it is not a number (RFC 9111 section 5.1).
fn age_value(response: &impl Fields) -> u32 {
    let first = response.first("age").and_then(|value| list(value).next());
    first.and_then(wire::decimal).map_or(0, |age| age.min(u32::MAX.into()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_takes_at_most_28_bytes() {
        assert!(size_of::<Freshness>() <= 28);
    }

    #[test]
    fn clocks_that_run_backwards_and_overflow_do_no_harm() {
        let stored =
            Freshness { received: 100, initial_age: u32::MAX - 1, lifetime: 10, ..Default::default() };
        assert_eq!(stored.age(50), u32::MAX - 1);
        assert_eq!(stored.age(u32::MAX), u32::MAX);
        assert_eq!(stored.ttl(u32::MAX), 10 - i64::from(u32::MAX));
    }

    #[test]
    fn a_lifetime_ends_when_a_share_of_it_is_left() {
        let stored = Freshness { received: 1_000, initial_age: 10, lifetime: 100, ..Freshness::default() };
        for (now, percent, expected) in [
            (1_000, 10, false),
            (1_079, 10, false),
            (1_080, 10, true),
            (1_089, 10, true),
            (1_090, 10, false),
            (1_089, 0, false),
            (1_000, 100, true),
        ] {
            assert_eq!(stored.is_ending(now, percent), expected, "{now} {percent}");
        }
    }

    #[test]
    fn a_soft_purge_leaves_a_stale_response() {
        let stored =
            Freshness { received: 100, lifetime: 60, stale_while_revalidate: 9, ..Default::default() };
        let purged = stored.purged(110);
        assert_eq!((purged.ttl(110), purged.staleness(115)), (0, 5));
        assert_eq!((purged.stale_while_revalidate, purged.flags), (0, Flags::PURGED));
        assert_eq!(stored.purged(200).staleness(200), stored.staleness(200), "it was stale before");
        assert_eq!(purged.purged(130), purged, "the first purge counts");
    }
}
