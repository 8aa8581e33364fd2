//! Purges as numbers, for lookup and for the journal.

use std::hash::Hasher;
use std::num::NonZeroU32;

use larder_semantics::purge::{Effect, Scope};
use larder_semantics::{key, partition};
use siphasher::sip::SipHasher13;

/// The origin of rules that an earlier process wrote to a journal, which does not contain the origin.
pub(super) const UNKNOWN: u64 = 0;

/// A purge of one scope, in the form of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPurge {
    /// The scope, as a hash.
    pub(crate) hash: u64,
    pub(crate) kind: PurgeKind,
    /// The length, for a prefix; the [lengths](GlobLengths) of a glob.
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
    Glob,
}

impl PurgeKind {
    pub(crate) const ALL: [Self; 12] = [
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
        Self::Glob,
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
            Self::Url | Self::Prefix | Self::Glob | Self::Host | Self::All => Self::All,
            Self::AnsweredGroup | Self::AnsweredOrigin | Self::AnsweredAll => Self::AnsweredAll,
        }
    }
}

/// The lengths of both parts of a glob, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GlobLengths(u16);

impl GlobLengths {
    /// Returns the lengths of these parts; `None` if one of them is too long.
    pub(super) fn of(start: &[u8], end: &[u8]) -> Option<Self> {
        let fit = start.len() <= LONGEST_START && end.len() <= LONGEST_END;
        fit.then_some(Self((end.len() << START_BITS | start.len()) as u16))
    }

    pub(super) fn new(packed: u16) -> Self {
        Self(packed)
    }

    /// Returns both in one number.
    pub(super) fn packed(self) -> u16 {
        self.0
    }

    /// Returns the hash of the glob with these lengths that reaches `path`, a key up to its query; `None` if it is too short.
    pub(super) fn hash_in(self, path: &[u8]) -> Option<u64> {
        let packed = usize::from(self.0);
        let (start, end) = (packed & LONGEST_START, packed >> START_BITS);
        let behind = path.len().checked_sub(end).filter(|behind| start <= *behind)?;
        Some(self.hash([&path[..start], &path[behind..]]))
    }

    fn hash(self, parts: [&[u8]; 2]) -> u64 {
        let mut hasher = PurgeKind::Glob.hasher();
        hasher.write(&self.0.to_le_bytes());
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish()
    }
}

const START_BITS: u32 = 10;
/// The most bytes of the beginning of a glob.
pub const LONGEST_START: usize = (1 << START_BITS) - 1;
/// The most bytes of the end of a glob.
pub const LONGEST_END: usize = u16::MAX as usize >> START_BITS;

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
        Scope::Glob { start, end } => {
            return match GlobLengths::of(start, end) {
                Some(lengths) => JournalPurge {
                    hash: lengths.hash([start, end]),
                    kind: PurgeKind::Glob,
                    length: lengths.0,
                    effect,
                    second,
                    origin: UNKNOWN,
                },
                // It reaches more than the glob.
                None => written(&Scope::Prefix(start.clone()), effect, second),
            };
        }
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

/// Returns the scope of the responses in partitions of the URL under `key`. They count as a cache group of an origin apart,
/// which no field can name: so the rules that unsafe requests of clients cause have the limits of groups.
pub(super) fn partitions(key: &[u8]) -> Option<Scope> {
    let (url, start) = (key::of_url(key), key::origin(key)?);
    let name = String::from_utf8_lossy(&url[start.len()..]).into_owned();
    Some(Scope::Group { origin: [start, b"\0"].concat(), name })
}

/// Returns the rule of that scope, for the key of a response in a partition; `None` for other keys.
pub(super) fn of_partition(key: &[u8]) -> Option<JournalPurge> {
    let scope = partition::is_key(key).then(|| partitions(key))??;
    Some(written(&scope, Effect::Invalid, NonZeroU32::MIN))
}

/// Returns a site's name and a byte that does not occur in names.
pub(super) fn end_of_name(site: &str) -> Vec<u8> {
    [site.as_bytes(), b"\n"].concat()
}
