//! Describes stored objects: `larder cache` and `GET /cache` list, dump and verify them.
//!
//! These functions wait for the disks, so callers run them in threads that may block. The admin listener transports
//! the results, and the command formats them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use http::uri::Authority;
use larder_semantics::freshness::Freshness;
use larder_semantics::{key, partition, vary};
use larder_store::disks::{ListedResponse, ResponseReader, VerifyResult};
use larder_store::memory::KeyUsage;
use larder_store::{Disks, Entry, Memory, Resident, Store, Tier};
use serde::{Deserialize, Serialize};

use crate::base::clock;
use crate::base::settings::Role;
use crate::exchange::target::{self, Address, key_role, write_key};

/// A stored response. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// The name by which [`Disks::named`] finds it; empty if it is in memory only.
    pub name: String,
    /// The tiers that hold it.
    pub tier: ObjectTiers,
    /// The URL that it answers.
    pub url: String,
    /// The role of the listeners whose clients it answers: `forward` or `reverse`.
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
    /// The number of hits in memory since it was stored there, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u32>,
    /// When it becomes or became stale.
    pub expires: i64,
    /// Whether it may answer without revalidation.
    pub fresh: bool,
    /// The request fields that selected it, if it is a variant; `null` for fields that were not sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Option<String>>,
    /// The directory that holds it; empty if it is in memory only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub disk: String,
}

/// The tiers that hold an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectTiers {
    /// In memory only.
    Memory,
    /// On a disk only.
    Disk,
    /// In memory and on a disk.
    Both,
}

/// The progress of a check of all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Intact records: those of responses, and those that belong to them.
    pub objects: u64,
    /// Bytes of content of intact records.
    pub bytes: u64,
    /// Corrupt records, which were removed.
    pub corrupt: u64,
    /// The number of records when the check began.
    pub of: u64,
    /// Whether the check is complete.
    pub done: bool,
}

/// The lowest rate of a check, in bytes per second.
pub const LEAST_RATE: u64 = 64 << 10;

/// The cache keys of a URL: for clients of forward listeners, and for those of reverse listeners.
pub type Keys = [Vec<u8>; 2];

/// Returns the keys of `url`. A fragment is not part of a key.
///
/// # Errors
/// The reason why `url` cannot be stored, in one line.
pub fn keys(url: &str) -> Result<Keys, String> {
    let url = encoded(url);
    let address = address(&url)?;
    Ok([Role::Forward, Role::Reverse].map(|role| {
        let mut key = Vec::new();
        write_key(&mut key, role, &address, None);
        key
    }))
}

/// Returns `url` as clients send it: non-ASCII characters in its path and query are percent-encoded (RFC 3986 section
/// 2.1).
pub fn encoded(url: &str) -> Cow<'_, str> {
    let host = url.find("://").map_or(0, |at| at + "://".len());
    let Some(path) = url[host..].find(['/', '?']).filter(|_| !url.is_ascii()) else {
        return Cow::Borrowed(url);
    };
    let (before, path) = url.split_at(host + path);
    let mut encoded = before.to_owned();
    for c in path.chars() {
        match c.is_ascii() {
            true => encoded.push(c),
            false => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| encoded += &format!("%{byte:02X}")),
        }
    }
    Cow::Owned(encoded)
}

/// Splits `url` into its parts, up to the first `#`. The error is the reason why `url` cannot be stored, in one line.
pub(crate) fn address(url: &str) -> Result<Address<'_>, String> {
    let shown = url.escape_debug();
    if url.starts_with('/') {
        return Err(format!("'{shown}': write the whole URL, such as 'http://127.0.0.1:8080{shown}'"));
    }
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
    if authority.parse::<Authority>().is_err() {
        return Err(format!("'{shown}': '{}' is not a host", authority.escape_debug()));
    }
    Ok(Address { scheme, authority, path })
}

/// Passes each stored object, or each one of the URL with these `keys`, to `see` until `see` returns false. The objects are
/// those in the near `tiers`, and those in memory if a proxy serves from all as one `store`. An object that is in memory and
/// in another tier is shown once. Purges in force apply, also to objects that no request has used since. Where rules may
/// store the responses of a URL in partitions, all objects are searched for them.
pub fn list(
    tiers: &[Arc<dyn Tier>],
    store: Option<&Store>,
    keys: Option<&Keys>,
    see: &mut dyn FnMut(Object) -> bool,
) {
    let (now, mut goes_on, mut both) = (clock::now(), true, HashSet::new());
    let memory = store.map(|store| &store.memory);
    let mut show = |stored: ListedResponse<'_>| {
        let object = Object::of(&stored, now);
        let (key, signature) = (&stored.key, &stored.signature);
        let object = match memory.and_then(|memory| in_memory(memory, key, signature)) {
            Some(used) => {
                both.extend(memory.map(|memory| memory.variant(key, signature)));
                object.map(|object| object.found_in_memory(used))
            }
            None => object,
        };
        goes_on = goes_on && object.is_none_or(&mut *see);
        goes_on
    };
    let is_asked = |key: &[u8]| keys.is_none_or(|keys| keys.iter().any(|own| *own == *key::of_url(key)));
    let may_have = |key: &Vec<u8>| store.is_none_or(|store| store.purges.has_partitions(key));
    let found = keys.filter(|keys| !keys.iter().any(may_have));
    for tier in tiers {
        match found {
            None => tier.list(None, &mut |stored| !is_asked(&stored.key) || show(stored)),
            Some(keys) => keys.iter().for_each(|key| tier.list(Some(key), &mut show)),
        }
    }
    let Some(store) = store else { return };
    let memory = &store.memory;
    let mut show = |resident: &Resident, used: KeyUsage| {
        for entry in resident.variants().iter().filter_map(|entry| store.left(entry)) {
            if goes_on && !both.contains(&memory.variant(entry.key(), entry.signature())) {
                goes_on = Object::in_memory(&entry, used, now).is_none_or(&mut *see);
            }
        }
    };
    match found {
        None => memory.list(&mut |resident, used| {
            if resident.variants().first().is_some_and(|entry| is_asked(entry.key())) {
                show(resident, used);
            }
        }),
        Some(keys) => {
            keys.iter().filter_map(|key| memory.used(key)).for_each(|(resident, used)| show(&resident, used))
        }
    }
}

/// Returns the uses of the variant with this signature, if memory has it.
fn in_memory(memory: &Memory, key: &[u8], signature: &[u8]) -> Option<KeyUsage> {
    let (resident, used) = memory.used(key)?;
    resident.variants().iter().any(|entry| entry.signature() == signature).then_some(used)
}

/// Returns the head of a stored response in HTTP/1.1 format, with its empty line.
pub fn head(held: &ResponseReader) -> Vec<u8> {
    let status = held.status;
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or_default())
            .into_bytes();
    head.extend_from_slice(&held.lines);
    head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", held.content.len()).as_bytes());
    head
}

/// Reads all records, at most `rate` bytes per second, and removes the corrupt ones. Calls `tell` at every block, and
/// continues as long as `tell` returns true.
pub fn verify(disks: &Disks, rate: u64, tell: &mut dyn FnMut(&Progress) -> bool) -> Progress {
    let of = disks.records();
    let progress = |verified: &VerifyResult, done| {
        let VerifyResult { objects, bytes, corrupt } = *verified;
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
    /// Describes an object on a disk; `None` if its key is not that of a request.
    fn of(stored: &ListedResponse<'_>, now: u32) -> Option<Self> {
        let object = Self::named(&stored.key, &stored.signature, &stored.freshness, now)?;
        Some(Self {
            name: stored.name.to_string(),
            status: stored.status.as_u16(),
            bytes: stored.len,
            bytes_on_disk: stored.size,
            stored: stored.stored,
            used: stored.used,
            disk: stored.directory.display().to_string(),
            ..object
        })
    }

    /// Describes an entry in memory; `None` if its key is not that of a request.
    fn in_memory(entry: &Entry, used: KeyUsage, now: u32) -> Option<Self> {
        let object = Self::named(entry.key(), entry.signature(), &entry.freshness(), now)?;
        let (status, bytes, stored) =
            (entry.status().as_u16(), entry.body().len(), entry.freshness().received);
        let (tier, used, hits) = (ObjectTiers::Memory, used.last, Some(used.hits));
        Some(Self { tier, status, bytes, stored, used, hits, ..object })
    }

    fn found_in_memory(self, used: KeyUsage) -> Self {
        Self { tier: ObjectTiers::Both, used: self.used.max(used.last), hits: Some(used.hits), ..self }
    }

    /// Describes an object on a disk by its key, signature and freshness.
    fn named(key: &[u8], signature: &[u8], freshness: &Freshness, now: u32) -> Option<Self> {
        let role = key_role(key)?.name();
        let Freshness { received, initial_age, lifetime, .. } = *freshness;
        let fields = partition::fields(key).chain(vary::fields(signature));
        Some(Self {
            name: String::new(),
            tier: ObjectTiers::Disk,
            url: target::url(key)?,
            role: role.to_owned(),
            status: 0,
            bytes: 0,
            bytes_on_disk: 0,
            stored: 0,
            used: 0,
            hits: None,
            expires: i64::from(received) - i64::from(initial_age) + i64::from(lifetime),
            fresh: freshness.is_fresh(now),
            vary: fields
                .map(|(name, value)| (name.to_owned(), value.map(|v| text(v).into_owned())))
                .collect(),
            disk: String::new(),
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
        let role = |key: &[u8]| key.last().copied().map(char::from).unwrap();
        let shown = |key: &Vec<u8>| format!("{} {}", role(key), target::url(key).unwrap());
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
    fn an_invalid_url_is_reported_in_a_line() {
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
