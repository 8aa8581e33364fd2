//! Lifetimes and directives that the operator sets in place of those of origins (RFC 9111 section 4.2, "Varnish" and
//! "NGINX" call the same a TTL).

use crate::directives::ResponseDirectives;

/// Where a lifetime comes from; in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Explicit(u32),
    Heuristic(u32),
    /// The operator's.
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

/// Lifetimes of the operator, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// In place of any lifetime that the origin gives.
    pub replace: Option<u32>,
    /// Where the origin gives none.
    pub default: Option<u32>,
    /// At least.
    pub least: Option<u32>,
    /// At most.
    pub most: Option<u32>,
}

impl Lifetimes {
    /// The lifetime in force for a response with this one.
    pub(crate) fn apply(&self, own: Lifetime) -> Lifetime {
        let chosen = match (self.replace, self.default, own) {
            (Some(replaced), ..) => Lifetime::Configured(replaced),
            (None, Some(default), Lifetime::Unknown | Lifetime::Heuristic(_)) => {
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

/// Directives of `Cache-Control` in responses that have no effect, against RFC 9111 section 5.2.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// `no-cache`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `private`.
    pub private: bool,
    /// `must-revalidate`, `proxy-revalidate`, and `s-maxage` as far as it forbids stale responses.
    pub must_revalidate: bool,
}

impl Ignored {
    /// The directives that are left.
    pub(crate) fn remove_from(self, directives: &mut ResponseDirectives) {
        directives.no_cache &= !self.no_cache;
        directives.no_store &= !self.no_store;
        directives.private &= !self.private;
        directives.must_revalidate &= !self.must_revalidate;
        directives.proxy_revalidate &= !self.must_revalidate;
    }
}
