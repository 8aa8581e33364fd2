//! The stored responses on the disks: lists, one response by its name, and a verification of every byte. None of these
//! counts as a use.
//!
//! Only responses are listed: not the records that list selecting fields, nor those of newer heads, nor those that a
//! purge has removed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use http::StatusCode;
use larder_disk::{Directory, Disk, Listed, OpenError, Verified};
use larder_semantics::freshness::Freshness;

use super::meta::{Head, Meta, cache_key, head_key, page_key, variant_number};
use super::{DiskTier, Disks, Drive, Record, Tell};
use crate::LinesRef;
use crate::body::SENDFILE_FROM;
use crate::purges::Since;

/// More bytes than any directory has: nothing in it has to leave.
const UNBOUNDED: u64 = 1 << 56;

/// What a stored response is called: a number that its directory derives from its key, and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(u64);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What is not 16 hex digits is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoName;

impl FromStr for Name {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let is_name = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_name).map(Self).ok_or(NoName)
    }
}

/// A stored response, as a list shows it.
#[derive(Clone, Debug)]
pub struct Stored<'d> {
    /// Its name.
    pub name: Name,
    /// Its cache key.
    pub key: Vec<u8>,
    /// The request fields it was selected by (`larder_semantics::vary`); empty if it is no variant.
    pub signature: Vec<u8>,
    /// The status code.
    pub status: StatusCode,
    /// Age and lifetime.
    pub freshness: Freshness,
    /// Bytes of content.
    pub len: u64,
    /// Bytes that it takes on the disk.
    pub size: u64,
    /// When it was stored, in seconds since 1970.
    pub stored: u32,
    /// When it was last used, in seconds since 1970.
    pub used: u32,
    /// The directory it is in.
    pub directory: &'d Path,
}

/// A stored response to be read.
pub struct Held {
    /// The status code.
    pub status: StatusCode,
    /// Its field lines, each with its end.
    pub lines: Vec<u8>,
    /// Its content.
    pub content: Record,
}

impl Disks {
    /// The directories at `paths`, which no proxy uses, opened to be looked at: nothing in them has to leave.
    /// Waits until all that is in them is known.
    ///
    /// # Errors
    /// The first that cannot be used, and why; `NotFound` for what Larder has never used.
    pub fn at_rest(paths: &[PathBuf], tell: &Tell) -> Result<Self, OpenError> {
        let tier = |path: &PathBuf| DiskTier { size: UNBOUNDED, ..DiskTier::at(path.clone()) };
        let disks = Self::new(&paths.iter().map(tier).collect::<Vec<_>>());
        for drive in disks.drives() {
            Directory::must_exist(drive.path())?;
            drive.open(tell)?;
        }
        disks.in_use().for_each(|disk| disk.wait_until_known());
        Ok(disks)
    }

    /// The first directory of which it is not known yet what it holds.
    pub fn unknown(&self) -> Option<&Path> {
        let is_scanning = |drive: &&Drive| drive.disk().is_some_and(|disk| disk.is_scanning());
        self.drives().iter().find(is_scanning).map(Drive::path)
    }

    /// Records that the directories hold, of responses and of what belongs to them.
    pub fn records(&self) -> u64 {
        self.in_use().map(|disk| disk.usage().objects).sum()
    }

    /// Shows every stored response, as they lie on the disks, until `see` says false. Waits for the disks.
    pub fn list<'d>(&'d self, see: &mut dyn FnMut(Stored<'d>) -> bool) {
        let mut goes_on = true;
        for (directory, disk) in self.directories() {
            disk.list(&mut |listed| {
                goes_on = self.stored(directory, disk, &listed).is_none_or(&mut *see);
                goes_on
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Shows the stored responses of a cache key, in whichever directory they are, until `see` says false.
    /// Waits for the disks; where responses vary, until they have been looked through.
    pub fn list_of<'d>(&'d self, key: &[u8], see: &mut dyn FnMut(Stored<'d>) -> bool) {
        for (directory, disk) in self.directories() {
            let Some(page) = disk.listed(&page_key(key)) else { continue };
            let mut goes_on = true;
            let mut show = |listed: &Listed| {
                goes_on = self.stored(directory, disk, listed).is_none_or(&mut *see);
                goes_on
            };
            match Meta::decode(&page.meta) {
                Some(Meta::Varies(..)) => {
                    disk.list(&mut |listed| cache_key(&listed.key) != Some(key) || show(&listed));
                }
                _ => drop(show(&page)),
            }
            if !goes_on {
                return;
            }
        }
    }

    /// The response that a record holds, as purges have left it; `None` for what is none.
    fn stored<'d>(&self, directory: &'d Path, disk: &Disk, listed: &Listed) -> Option<Stored<'d>> {
        let key = cache_key(&listed.key)?;
        let Some(Meta::Response(head)) = Meta::decode(&listed.meta) else { return None };
        if !is_found(disk, &listed.key) {
            return None;
        }
        let state = |head: &Head<'_>| {
            let (freshness, fields) = (head.freshness, LinesRef::written(head.shared, head.own));
            let reach = self.purges().reach(Since::Second(freshness.received), key, Some(&fields));
            let freshness = reach.map_or(Some(freshness), |reach| reach.left_of(&freshness));
            Some((head.status, freshness?))
        };
        let newer = newer_head(disk, &listed.key, listed.serial, listed.len, state);
        let (status, freshness) = newer.unwrap_or_else(|| state(&head))?;
        Some(Stored {
            name: Name(listed.hash),
            key: key.to_vec(),
            signature: head.signature.to_vec(),
            status,
            freshness,
            len: listed.len,
            size: listed.size,
            stored: listed.stored,
            used: listed.used,
            directory,
        })
    }

    /// The stored response with this name. Waits for the disks.
    pub fn named(&self, name: Name) -> Option<Held> {
        self.in_use().find_map(|disk| {
            let (key, found) = disk.named(name.0, 0)?;
            let Some(Meta::Response(head)) = Meta::decode(&found.meta) else { return None };
            if !is_found(disk, &key) {
                return None;
            }
            let content = Record::new(found.body, found.serial);
            let newer = newer_head(disk, &key, found.serial, content.len(), held_head);
            let (status, lines) = newer.unwrap_or_else(|| held_head(&head));
            Some(Held { status, lines, content })
        })
    }

    /// Reads everything, at most `rate` bytes a second, and gives up what is not what was written. Goes on for
    /// as long as `go_on` says so, which is told how far it is at every block. Waits for the disks.
    pub fn verify(&self, rate: u64, go_on: &mut dyn FnMut(&Verified) -> bool) -> Verified {
        self.in_use().fold(Verified::default(), |before, disk| {
            sum(before, disk.verify(rate, &mut |there| go_on(&sum(before, *there))))
        })
    }

    fn directories(&self) -> impl Iterator<Item = (&Path, &Arc<Disk>)> {
        self.drives().iter().filter_map(|drive| Some((drive.path(), drive.disk()?)))
    }
}

fn sum(one: Verified, other: Verified) -> Verified {
    Verified {
        objects: one.objects + other.objects,
        bytes: one.bytes + other.bytes,
        corrupt: one.corrupt + other.corrupt,
    }
}

/// Whether a request can find the response in the record of this key: a variant needs the record that leads to it.
pub(super) fn is_found(disk: &Disk, key: &[u8]) -> bool {
    let Some(number) = variant_number(key) else { return true };
    let page = cache_key(key).and_then(|key| disk.peek(&page_key(key), 0));
    page.is_some_and(
        |page| matches!(Meta::decode(&page.meta), Some(Meta::Varies(current, _)) if current == number),
    )
}

/// What `read` makes of the newer head of a record, if it has one.
pub(super) fn newer_head<T>(
    disk: &Disk,
    key: &[u8],
    serial: u64,
    len: u64,
    read: impl FnOnce(&Head<'_>) -> T,
) -> Option<T> {
    if len < SENDFILE_FROM {
        return None;
    }
    let found = disk.peek(&head_key(key), 0)?;
    match Meta::decode(&found.meta)? {
        Meta::Newer(of, head) if of == serial => Some(read(&head)),
        _ => None,
    }
}

fn held_head(head: &Head<'_>) -> (StatusCode, Vec<u8>) {
    (head.status, [head.shared, head.own].concat())
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
