//! Purges as numbers, for lookup and for the journal.

use std::hash::Hasher;
use std::num::NonZeroU32;

use larder_semantics::purge::{Effect, Scope};
use siphasher::sip::SipHasher13;

/// The origin of rules that an earlier process wrote to a journal, which does not contain the origin.
pub(super) const UNKNOWN: u64 = 0;

/// A purge of one scope, in the form of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPurge {
    /// The scope, as a hash.
    pub(crate) hash: u64,
    pub(crate) kind: PurgeKind,
    /// The length, for a prefix.
    pub(crate) length: u16,
    pub(crate) effect: Effect,
    pub(crate) second: NonZeroU32,
    /// The hash of the origin, for a group from a response; the journal does not contain it.
    pub(crate) origin: u64,
}

impl JournalPurge {
    /// Returns a rule for the case that purges up to `second` (UNIX) are unknown: all responses received
    /// until then are invalid.
    pub(crate) fn everything_invalid(second: u32) -> Self {
        written(&Scope::All, Effect::Invalid, NonZeroU32::new(second).unwrap_or(NonZeroU32::MIN))
    }
}

/// The kinds of scopes of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PurgeKind {
    Url,
    Prefix,
    Host,
    Tag,
    Group,
    /// All responses with tags or groups: the merged rule of these.
    Tagged,
    All,
    SiteTag,
    /// A group, from a response of its origin.
    AnsweredGroup,
    /// All responses of an origin with groups, from one of its responses.
    AnsweredOrigin,
    /// All responses with groups: the merged rule of the other rules from responses.
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

    /// Returns the hash of a scope, the same in all processes. Scopes with equal hashes are only purged together.
    pub(super) fn hash(self, parts: [&[u8]; 2]) -> u64 {
        let mut hasher = self.hasher();
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish()
    }

    pub(super) fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self as u64, 0)
    }

    /// Returns the kind that rules of this kind are merged into when there are too many.
    pub(super) fn folded(self) -> Self {
        match self {
            Self::Tag | Self::SiteTag | Self::Group | Self::Tagged => Self::Tagged,
            Self::Url | Self::Prefix | Self::Host | Self::All => Self::All,
            Self::AnsweredGroup | Self::AnsweredOrigin | Self::AnsweredAll => Self::AnsweredAll,
        }
    }
}

/// Returns the scope with its tags of all sites.
pub(super) fn of_any_site(scope: Scope) -> Scope {
    match scope {
        Scope::SiteTag { tag, .. } => Scope::Tag(tag),
        other => other,
    }
}

/// Returns the rule for a purge of `scope`.
pub(super) fn written(scope: &Scope, effect: Effect, second: NonZeroU32) -> JournalPurge {
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
        // The end of an origin is unambiguous.
        Scope::Origin(origin) => (PurgeKind::AnsweredOrigin, [&origin[..], b""]),
        Scope::Group { origin, name } if effect == Effect::Invalid => {
            (PurgeKind::AnsweredGroup, [&origin[..], name.as_bytes()])
        }
        Scope::Group { origin, name } => (PurgeKind::Group, [&origin[..], name.as_bytes()]),
        Scope::All => (PurgeKind::All, [&b""[..], b""]),
    };
    let length = if kind == PurgeKind::Prefix { parts[0].len() } else { 0 };
    // Keys are no longer, so that none begins with a prefix that is cut off here.
    let length = length.try_into().unwrap_or(u16::MAX);
    let origin = match kind {
        PurgeKind::AnsweredGroup => PurgeKind::AnsweredOrigin.hash([parts[0], b""]),
        _ => UNKNOWN,
    };
    JournalPurge { hash: kind.hash(parts), kind, length, effect, second, origin }
}

/// Returns a site's name and a byte that does not occur in names.
pub(super) fn end_of_name(site: &str) -> Vec<u8> {
    [site.as_bytes(), b"\n"].concat()
}
