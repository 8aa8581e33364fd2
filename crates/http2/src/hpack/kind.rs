//! What a field means to the head of a request. This is found out when the field enters a table, not each time that a
//! request repeats it.

use super::table::STATIC;

/// The kind of a field, by its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Method,
    Scheme,
    Authority,
    Path,
    Protocol,
    /// A pseudo-header field that requests do not have.
    UnknownPseudo,
    Host,
    ContentLength,
    Cookie,
    Priority,
    Te,
    /// A field that concerns an HTTP/1 connection (RFC 9113 section 8.2.2).
    OfConnection,
    Other,
}

/// The kinds of the fields in the static table.
pub(super) const STATIC_KINDS: [Kind; STATIC.len()] = {
    let (mut kinds, mut place) = ([Kind::Other; STATIC.len()], 0);
    while place < kinds.len() {
        kinds[place] = Kind::of(STATIC[place].0.as_bytes());
        place += 1;
    }
    kinds
};

impl Kind {
    pub(super) const fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":protocol" => Self::Protocol,
            [b':', ..] => Self::UnknownPseudo,
            b"host" => Self::Host,
            b"content-length" => Self::ContentLength,
            b"cookie" => Self::Cookie,
            b"priority" => Self::Priority,
            b"te" => Self::Te,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Self::OfConnection
            }
            _ => Self::Other,
        }
    }

    #[inline]
    pub(crate) const fn is_pseudo(self) -> bool {
        (self as u8) <= Self::UnknownPseudo as u8
    }
}
