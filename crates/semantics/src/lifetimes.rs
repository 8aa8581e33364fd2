//! Lifetimes and directives that the operator sets in place of those of origins (RFC 9111 section 4.2;
//! Varnish and NGINX call such a lifetime a TTL).

use crate::directives::ResponseDirectives;

/// A lifetime in seconds, with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Explicit(u32),
    Heuristic(u32),
    /// The lifetime is the operator's.
    Configured(u32),
    Unknown,
}

impl Lifetime {
    pub(crate) fn seconds(self) -> u32 {
        match self {
            Self::Explicit(seconds) | Self::Heuristic(seconds) | Self::Configured(seconds) => seconds,
            Self::Unknown => 0,
        }
    }
}

/// The operator's lifetimes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// The lifetime in place of any lifetime from the origin.
    pub replace: Option<u32>,
    /// Whether that is also for errors that are not cacheable without a lifetime.
    pub replaces_errors: bool,
    /// The lifetime where the origin gives none, except for those errors.
    pub default: Option<u32>,
    /// The least lifetime.
    pub least: Option<u32>,
    /// The greatest lifetime.
    pub most: Option<u32>,
}

impl Lifetimes {
    /// Returns the lifetime in force for a response whose fields give `own`; `takes_default`: it is no error that must not
    /// reach other clients by default.
    pub(crate) fn apply(&self, own: Lifetime, takes_default: bool) -> Lifetime {
        let replaces = takes_default || self.replaces_errors || matches!(own, Lifetime::Explicit(_));
        let chosen = match (self.replace, self.default, own) {
            (Some(replaced), ..) if replaces => Lifetime::Configured(replaced),
            (None, Some(default), Lifetime::Unknown | Lifetime::Heuristic(_)) if takes_default => {
                Lifetime::Configured(default)
            }
            _ => own,
        };
        let longer = match self.least {
            Some(least) if chosen != Lifetime::Unknown && chosen.seconds() < least => {
                Lifetime::Configured(least)
            }
            _ => chosen,
        };
        match (self.most, longer) {
            (None, _) | (_, Lifetime::Unknown) => longer,
            (Some(most), Lifetime::Explicit(seconds)) => Lifetime::Explicit(seconds.min(most)),
            (Some(most), Lifetime::Heuristic(seconds)) => Lifetime::Heuristic(seconds.min(most)),
            (Some(most), Lifetime::Configured(seconds)) => Lifetime::Configured(seconds.min(most)),
        }
    }
}

/// Directives of `Cache-Control` in responses that are ignored, against RFC 9111 section 5.2.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredDirectives {
    /// The directive `no-cache`.
    pub no_cache: bool,
    /// The directive `no-store`.
    pub no_store: bool,
    /// The directive `private`.
    pub private: bool,
    /// The directives `must-revalidate` and `proxy-revalidate`, and `s-maxage` as far as it forbids stale responses.
    pub must_revalidate: bool,
}

impl IgnoredDirectives {
    /// Clears the ignored directives.
    pub(crate) fn remove_from(self, directives: &mut ResponseDirectives) {
        directives.no_cache &= !self.no_cache;
        directives.no_store &= !self.no_store;
        directives.private &= !self.private;
        directives.must_revalidate &= !self.must_revalidate;
        directives.proxy_revalidate &= !self.must_revalidate;
    }
}
