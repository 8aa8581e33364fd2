//! Purges as numbers, for lookup and for the journal.

use std::hash::Hasher;
use std::num::NonZeroU32;

use larder_semantics::purge::{Effect, Scope};
use siphasher::sip::SipHasher13;

use super::answered::UNKNOWN;

/// A purge of one scope, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The scope, as a number.
    pub(crate) hash: u64,
    pub(crate) kind: PurgeKind,
    /// Of a prefix.
    pub(crate) length: u16,
    pub(crate) effect: Effect,
    pub(crate) second: NonZeroU32,
    /// Of a group by an answer, its origin as a number; this is not written down.
    pub(crate) origin: u64,
}

impl Written {
    /// Whether responses received until `second` (UNIX) were purged is unknown.
    pub(crate) fn everything_invalid(second: u32) -> Self {
        written(&Scope::All, Effect::Invalid, NonZeroU32::new(second).unwrap_or(NonZeroU32::MIN))
    }
}

/// What rules are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PurgeKind {
    Url,
    Prefix,
    Host,
    Tag,
    Group,
    /// Whatever has tags or groups: what is left of rules about these.
    Tagged,
    All,
    SiteTag,
    /// A group, by an answer of its origin.
    AnsweredGroup,
    /// Whatever of an origin has groups, by one of its answers.
    AnsweredOrigin,
    /// Whatever has groups: what is left of the other rules by answers.
    AnsweredAll,
}

impl PurgeKind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Url,
        Self::Prefix,
        Self::Host,
        Self::Tag,
        Self::Group,
        Self::Tagged,
        Self::All,
        Self::SiteTag,
        Self::AnsweredGroup,
        Self::AnsweredOrigin,
        Self::AnsweredAll,
    ];

    /// Stands for a scope, in all processes: two that share it would only be purged together.
    pub(super) fn hash(self, parts: [&[u8]; 2]) -> u64 {
        let mut hasher = self.hasher();
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish()
    }

    pub(super) fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self as u64, 0)
    }

    /// How rules of this kind are folded when there are too many.
    pub(super) fn folded(self) -> Self {
        match self {
            Self::Tag | Self::SiteTag | Self::Group | Self::Tagged => Self::Tagged,
            Self::Url | Self::Prefix | Self::Host | Self::All => Self::All,
            Self::AnsweredGroup | Self::AnsweredOrigin | Self::AnsweredAll => Self::AnsweredAll,
        }
    }
}

/// The same of all sites.
pub(super) fn of_any_site(scope: Scope) -> Scope {
    match scope {
        Scope::SiteTag { tag, .. } => Scope::Tag(tag),
        other => other,
    }
}

/// A purge of `scope`.
pub(super) fn written(scope: &Scope, effect: Effect, second: NonZeroU32) -> Written {
    let named;
    let (kind, parts) = match scope {
        Scope::Url(key) => (PurgeKind::Url, [&key[..], b""]),
        Scope::Prefix(start) => (PurgeKind::Prefix, [&start[..], b""]),
        Scope::Host(host) => (PurgeKind::Host, [&host[..], b""]),
        Scope::Tag(tag) => (PurgeKind::Tag, [&tag[..], b""]),
        Scope::SiteTag { site, tag } => {
            named = end_of_name(site);
            (PurgeKind::SiteTag, [&named[..], &tag[..]])
        }
        // An origin says where it ends.
        Scope::Origin(origin) => (PurgeKind::AnsweredOrigin, [&origin[..], b""]),
        Scope::Group { origin, name } if effect == Effect::Invalid => {
            (PurgeKind::AnsweredGroup, [&origin[..], name.as_bytes()])
        }
        Scope::Group { origin, name } => (PurgeKind::Group, [&origin[..], name.as_bytes()]),
        Scope::All => (PurgeKind::All, [&b""[..], b""]),
    };
    let length = if kind == PurgeKind::Prefix { parts[0].len() } else { 0 };
    // No key is longer, so that nothing begins with what is cut off here.
    let length = length.try_into().unwrap_or(u16::MAX);
    let origin = match kind {
        PurgeKind::AnsweredGroup => PurgeKind::AnsweredOrigin.hash([parts[0], b""]),
        _ => UNKNOWN,
    };
    Written { hash: kind.hash(parts), kind, length, effect, second, origin }
}

/// A site's name and a byte that no name has.
pub(super) fn end_of_name(site: &str) -> Vec<u8> {
    [site.as_bytes(), b"\n"].concat()
}
