//! A stored response as an element of a list.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use http::StatusCode;
use larder_semantics::freshness::Freshness;

/// The name of a stored response: a number that its directory derives from its key and does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(pub(crate) u64);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The error for a text that is not 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoName;

impl FromStr for Name {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let is_name = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_name).map(Self).ok_or(NoName)
    }
}

/// A stored response, as an element of a list.
#[derive(Clone, Debug)]
pub struct ListedResponse<'d> {
    /// The name of the response.
    pub name: Name,
    /// The cache key.
    pub key: Vec<u8>,
    /// The request fields that select the response (`larder_semantics::vary`); empty if it is not a variant.
    pub signature: Vec<u8>,
    /// The status code.
    pub status: StatusCode,
    /// Age and lifetime.
    pub freshness: Freshness,
    /// Bytes of content.
    pub len: u64,
    /// Bytes that the response takes on the disk.
    pub size: u64,
    /// The time at which it was stored, in seconds since 1970.
    pub stored: u32,
    /// The time of its last use, in seconds since 1970.
    pub used: u32,
    /// The directory that contains it.
    pub directory: &'d Path,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_is_read_as_it_is_shown(number: u64) {
            prop_assert_eq!(Name(number).to_string().parse(), Ok(Name(number)));
        }

        #[test]
        fn nothing_else_is_a_name(text in "[0-9a-f+-]{0,15}|[0-9a-f]{17,20}|[0-9a-f]{15}[^0-9a-fA-F]|\\PC*") {
            let is_name = text.len() == 16 && text.chars().all(|c| c.is_ascii_hexdigit());
            prop_assert_eq!(text.parse::<Name>().is_ok(), is_name);
        }
    }
}
