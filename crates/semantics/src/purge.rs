//! The types of purges: the stored responses that a purge reaches, and its effect on them. Administrators,
//! responses to unsafe requests (RFC 9111 section 4.4) and cache groups (RFC 9875) create purges; memory,
//! disks and nodes of a cluster apply them. Times and the search for responses are not here.

/// The stored responses that a purge reaches. Keys are those of [`key`](crate::key); a part of a key behind
/// the URL, such as the kind of its clients, matters to [`Scope::Url`] and to no other scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The responses under this cache key.
    Url(Vec<u8>),
    /// The responses under keys with this prefix.
    Prefix(Vec<u8>),
    /// The responses under keys that begin with `start` and whose part before the query ends with `end`, behind `start`.
    Glob {
        /// The beginning of the keys.
        start: Vec<u8>,
        /// The end of the keys, or of their part before the query.
        end: Vec<u8>,
    },
    /// The responses of this host, in the form of keys: on every port, or on the port that it names.
    Host(Vec<u8>),
    /// The responses with this tag (`Cache-Tag`, `Surrogate-Key`, `xkey`), of all hosts.
    Tag(Vec<u8>),
    /// The responses of one site with this tag.
    SiteTag {
        /// The site's name.
        site: String,
        /// The tag.
        tag: Vec<u8>,
    },
    /// The responses in this cache group of one origin (RFC 9875).
    Group {
        /// The start of the origin's keys ([`key::origin`](crate::key::origin)).
        origin: Vec<u8>,
        /// The group's name.
        name: String,
    },
    /// The responses of this origin that have groups; the effect is always [`Effect::Invalid`].
    Origin(Vec<u8>),
    /// All responses.
    All,
}

/// The effect of a purge on the responses that it reaches. Of several purges, the greatest effect applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The lifetime ends: the response is validated, and may be used if the origin fails.
    Stale,
    /// The response is validated before any use, and never used if the origin fails (RFC 9111 section 4.4). Responses of
    /// origins do this to groups of the same origin; administrators do not.
    Invalid,
    /// The response is removed.
    Remove,
}

impl Effect {
    /// All effects, in their order.
    pub const ALL: [Self; 3] = [Self::Stale, Self::Invalid, Self::Remove];
}
