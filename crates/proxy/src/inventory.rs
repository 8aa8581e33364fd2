//! What is on the disks, in words: the objects that `larder cache` and `GET /cache` list, dump and verify.
//!
//! It waits for the disks, and is asked from threads that may. How the answers travel is the admin listener's
//! business, how they look the command's.

use std::borrow::Cow;
use std::collections::BTreeMap;

use larder_semantics::freshness::Freshness;
use larder_semantics::{key, vary};
use larder_store::Disks;
use larder_store::disks::{Held, Stored, Verified};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::request::{Address, write_key};
use crate::settings::Role;

/// A stored response. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// What [`Disks::named`] finds it by.
    pub name: String,
    /// What it answers.
    pub url: String,
    /// For clients of which listeners: `forward` or `reverse`.
    pub role: String,
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes that it takes on the disk.
    pub bytes_on_disk: u64,
    /// When it was stored.
    pub stored: u32,
    /// When it was last used.
    pub used: u32,
    /// When it becomes stale, or did.
    pub expires: i64,
    /// Whether it may answer without being validated.
    pub fresh: bool,
    /// The request fields it was selected by, if it is a variant: `null` for those that were not sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Option<String>>,
    /// The directory it is in.
    pub disk: String,
}

/// How far a check of everything is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Records that are what was written: those of responses, and what belongs to them.
    pub objects: u64,
    /// Bytes of content that are.
    pub bytes: u64,
    /// Records that are not, and are gone.
    pub corrupt: u64,
    /// Records there were when it began.
    pub of: u64,
    /// Whether this is the end.
    pub done: bool,
}

/// Bytes a second that a check reads at least.
pub const LEAST_RATE: u64 = 64 << 10;

/// The cache keys of a URL: for clients of forward listeners, and of reverse ones.
pub type Keys = [Vec<u8>; 2];

/// The keys of `url`. A fragment is no part of it.
///
/// # Errors
/// Why it is none that could be stored, in one line.
pub fn keys(url: &str) -> Result<Keys, String> {
    let address = address(url)?;
    Ok([Role::Forward, Role::Reverse].map(|role| {
        let mut key = Vec::new();
        write_key(&mut key, role, &address);
        key
    }))
}

/// `url` in parts, as far as the first `#`.
///
/// # Errors
/// Why it is none that could be stored, in one line.
pub(crate) fn address(url: &str) -> Result<Address<'_>, String> {
    let shown = url.escape_debug();
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("'{shown}': write the scheme too, such as 'http://{shown}'"));
    };
    let known = ["http", "https"].into_iter().find(|known| known.eq_ignore_ascii_case(scheme));
    let Some(scheme) = known else {
        return Err(format!("'{shown}': scheme '{}' is neither http nor https", scheme.escape_debug()));
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() {
        return Err(format!("'{shown}': no host in it"));
    }
    Ok(Address { scheme, authority, path })
}

/// Shows all that is stored, or what is stored under `keys`, until `see` says false.
pub fn list(disks: &Disks, keys: Option<&Keys>, see: &mut dyn FnMut(Object) -> bool) {
    let (now, mut goes_on) = (clock::now(), true);
    let mut show = |stored: Stored<'_>| {
        goes_on = Object::of(&stored, now).is_none_or(&mut *see);
        goes_on
    };
    match keys {
        None => disks.list(&mut show),
        Some([forward, reverse]) => {
            disks.list_of(forward, &mut show);
            if goes_on {
                disks.list_of(reverse, &mut |stored| Object::of(&stored, now).is_none_or(&mut *see));
            }
        }
    }
}

/// The head of a stored response as HTTP/1.1 has it, with its empty line.
pub fn head(held: &Held) -> Vec<u8> {
    let status = held.status;
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or_default())
            .into_bytes();
    head.extend_from_slice(&held.lines);
    head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", held.content.len()).as_bytes());
    head
}

/// Reads everything, at most `rate` bytes a second, and gives up what is not what was written. Goes on for as long
/// as `tell` says so, which is told at every block.
pub fn verify(disks: &Disks, rate: u64, tell: &mut dyn FnMut(&Progress) -> bool) -> Progress {
    let of = disks.records();
    let progress = |verified: &Verified, done| {
        let Verified { objects, bytes, corrupt } = *verified;
        Progress { objects, bytes, corrupt, of, done }
    };
    let mut goes_on = true;
    let verified = disks.verify(rate, &mut |verified| {
        goes_on = tell(&progress(verified, false));
        goes_on
    });
    progress(&verified, goes_on)
}

impl Object {
    /// `None` for what no request of ours was stored under.
    fn of(stored: &Stored<'_>, now: u32) -> Option<Self> {
        let (role, target) = stored.key.split_last()?;
        let role = match role {
            b'F' => "forward",
            b'R' => "reverse",
            _ => return None,
        };
        let (scheme, authority, path) = key::parse(target)?;
        let Freshness { received, initial_age, lifetime, .. } = stored.freshness;
        let fields = vary::fields(&stored.signature);
        Some(Self {
            name: stored.name.to_string(),
            url: format!("{scheme}://{}{}", text(authority), text(path)),
            role: role.to_owned(),
            status: stored.status.as_u16(),
            bytes: stored.len,
            bytes_on_disk: stored.size,
            stored: stored.stored,
            used: stored.used,
            expires: i64::from(received) - i64::from(initial_age) + i64::from(lifetime),
            fresh: stored.freshness.is_fresh(now),
            vary: fields
                .map(|(name, value)| (name.to_owned(), value.map(|v| text(v).into_owned())))
                .collect(),
            disk: stored.directory.display().to_string(),
        })
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(url: &str) -> Result<Vec<String>, String> {
        let shown = |key: &Vec<u8>| {
            let (role, target) = key.split_last().unwrap();
            let (scheme, authority, path) = key::parse(target).unwrap();
            format!("{} {scheme}://{}{}", *role as char, text(authority), text(path))
        };
        keys(url).map(|keys| keys.iter().map(shown).collect())
    }

    #[test]
    fn a_url_has_the_keys_that_requests_have() {
        let table = [
            ("http://a/b?c", "http://a/b?c"),
            ("HTTP://A.Example:80", "http://a.example/"),
            ("https://a:443?q=://#part", "https://a/?q=://"),
            ("http://[::1]:81/x#y", "http://[::1]:81/x"),
        ];
        for (url, expected) in table {
            let expected = vec![format!("F {expected}"), format!("R {expected}")];
            assert_eq!(urls(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_is_told_in_a_line() {
        let table = [
            ("a.test/\n", "'a.test/\\n': write the scheme too, such as 'http://a.test/\\n'"),
            ("ftp://a/", "'ftp://a/': scheme 'ftp' is neither http nor https"),
            ("http:///b", "'http:///b': no host in it"),
        ];
        for (url, error) in table {
            assert_eq!(urls(url), Err(error.to_owned()));
        }
    }
}
