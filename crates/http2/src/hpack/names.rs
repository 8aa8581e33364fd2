//! The names of fields that the static table has, or that HTTP/2 excludes, in any letter case: a hash table without
//! collisions, so that a name is compared once.

use super::table::STATIC;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A name in the static table, with its index.
    Known(u8),
    /// No name, or a field that HTTP/2 excludes (RFC 9113 section 8.2.2).
    Omitted,
    Other,
}

const EXCLUDED: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

#[derive(Clone, Copy)]
struct Place {
    ends: [u64; 2],
    name: &'static str,
    kind: Name,
}

const BITS: u32 = 7;
/// A number with which no two names have the same place, found by trial.
const MULTIPLIER: u64 = 0x61d6_0172_9917_ff47;

static PLACES: [Place; 1 << BITS] = {
    let mut places = [Place { ends: [0; 2], name: "", kind: Name::Omitted }; 1 << BITS];
    let mut number = 0;
    while number < STATIC.len() + EXCLUDED.len() {
        let (name, kind) = match number.checked_sub(STATIC.len()) {
            None => (STATIC[number].0, Name::Known(number as u8 + 1)),
            Some(excluded) => (EXCLUDED[excluded], Name::Omitted),
        };
        let ends = ends(name.as_bytes());
        let known = &mut places[place(ends)];
        if name.as_bytes()[0] != b':' {
            assert!(known.name.is_empty() || known.ends[0] == ends[0], "two names have the same place");
            *known = Place { ends, name, kind };
        }
        number += 1;
    }
    places
};

/// Returns the first and the last eight bytes of a name in lower case, which are all of it up to 16 bytes. A bit makes
/// capitals small ones, and changes no other byte of a token to a byte of a known name.
#[inline(always)]
const fn ends(name: &[u8]) -> [u64; 2] {
    const LOWER: u64 = u64::from_ne_bytes([0x20; 8]);
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return [u64::from_le_bytes(*first) | LOWER, u64::from_le_bytes(*last) | LOWER];
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return [first as u64 | (last as u64) << 32 | LOWER, 0];
    }
    let (mut short, mut at) = (0, 0);
    while at < name.len() {
        short = short << 8 | (name[at] | 0x20) as u64;
        at += 1;
    }
    [short, 0]
}

#[inline(always)]
const fn place([first, last]: [u64; 2]) -> usize {
    (first.wrapping_add(last.rotate_left(21)).wrapping_mul(MULTIPLIER) >> (u64::BITS - BITS)) as usize
}

impl Name {
    #[inline(always)]
    pub(super) fn of(name: &[u8]) -> Self {
        let ends = ends(name);
        let known = &PLACES[place(ends)];
        let is_known = known.ends == ends
            && known.name.len() == name.len()
            && (name.len() <= 16 || name.eq_ignore_ascii_case(known.name.as_bytes()));
        match is_known {
            true => known.kind,
            false if name.is_empty() => Self::Omitted,
            false => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_static_table_are_known_in_any_letter_case() {
        let is_known = |name: &str| !name.starts_with(':') && !EXCLUDED.contains(&name);
        for (index, (name, _)) in (1..).zip(STATIC).filter(|(_, (name, _))| is_known(name)) {
            assert_eq!(Name::of(name.as_bytes()), Name::Known(index), "{name}");
            assert_eq!(Name::of(name.to_uppercase().as_bytes()), Name::Known(index), "{name}");
        }
        for name in EXCLUDED.iter().chain(&[""]) {
            assert_eq!(Name::of(name.as_bytes()), Name::Omitted, "{name}");
        }
        for name in ["x", "ag", "aged", ":path", "set_cookie", "strict-trbnsport-security"] {
            assert_eq!(Name::of(name.as_bytes()), Name::Other, "{name}");
        }
    }
}
