//! The stored responses on the disks: lists, one response by its name, and a verification of every byte. None
//! of these operations counts as a use.
//!
//! Only responses are listed: not the records of selecting fields, nor those of newer heads, nor responses
//! that a purge has removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::StatusCode;
use larder_disk::{Directory, Disk, ObjectSummary, OpenError, VerifyResult};
use larder_semantics::stored_head::StoredHead;

use super::disk_response::{DiskResponse, is_found, newer_head};
use super::meta::{Meta, cache_key, page_key};
use super::{DiskTier, Disks, Drive, EventHandler};
use crate::LinesRef;
use crate::body::Record;
use crate::listed_response::{ListedResponse, Name};
use crate::purges::PurgeStart;

/// More bytes than any directory has, so that opening a directory evicts no object.
const UNBOUNDED: u64 = 1 << 56;

/// A stored response for reading.
pub struct ResponseReader {
    /// The status code.
    pub status: StatusCode,
    /// The field lines, each with its line end.
    pub lines: Vec<u8>,
    /// The content.
    pub content: Record,
}

impl Disks {
    /// Opens the directories at `paths` for inspection, while no proxy uses them: no object is evicted. Waits
    /// until their scans have found all objects.
    ///
    /// # Errors
    /// The error of the first directory that cannot be opened; `NotFound` for a directory that Larder has never used.
    pub fn at_rest(paths: &[PathBuf], tell: &EventHandler) -> Result<Self, OpenError> {
        let tier = |path: &PathBuf| DiskTier { size: UNBOUNDED, ..DiskTier::at(path.clone()) };
        let disks = Self::new(&paths.iter().map(tier).collect::<Vec<_>>());
        for drive in disks.drives() {
            Directory::must_exist(drive.path())?;
            drive.open(tell)?;
        }
        disks.in_use().for_each(|disk| disk.wait_until_known());
        Ok(disks)
    }

    /// Returns the first directory whose scan is still running.
    pub fn unknown(&self) -> Option<&Path> {
        let is_scanning = |drive: &&Drive| drive.disk().is_some_and(|disk| disk.is_scanning());
        self.drives().iter().find(is_scanning).map(Drive::path)
    }

    /// Implements [`Tier::list`](crate::Tier::list).
    pub(super) fn list_directories<'d>(
        &'d self,
        key: Option<&[u8]>,
        see: &mut dyn FnMut(ListedResponse<'d>) -> bool,
    ) {
        let is_asked = |listed: &ObjectSummary| key.is_none_or(|key| cache_key(&listed.key) == Some(key));
        for (directory, disk) in self.directories() {
            let mut goes_on = true;
            let mut show = |listed: &ObjectSummary| {
                goes_on = self.stored(directory, disk, listed).is_none_or(&mut *see);
                goes_on
            };
            match key.map(|key| disk.listed(&page_key(key))) {
                Some(None) => {}
                Some(Some(page)) if !matches!(Meta::decode(&page.meta), Some(Meta::Varies(..))) => {
                    show(&page);
                }
                // All responses, or the variants of one URL.
                _ => disk.list(&mut |listed| !is_asked(&listed) || show(&listed)),
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Returns the response in a record, with the effects of purges applied; `None` if the record is not a response.
    fn stored<'d>(
        &self,
        directory: &'d Path,
        disk: &Disk,
        listed: &ObjectSummary,
    ) -> Option<ListedResponse<'d>> {
        let response = DiskResponse::of(disk, listed).filter(DiskResponse::is_found)?;
        let StoredHead { key, signature, .. } = response.head;
        let (status, freshness) = response.newest(|head| {
            let (freshness, fields) = (head.freshness, LinesRef::written(head.shared, head.own));
            let reach = self.purges().reach(PurgeStart::Second(freshness.received), key, Some(&fields));
            let freshness = reach.map_or(Some(freshness), |reach| reach.freshness_left(&freshness));
            Some((head.status, freshness?))
        })?;
        Some(ListedResponse {
            name: Name(listed.hash),
            key: key.to_vec(),
            signature: signature.to_vec(),
            status,
            freshness,
            len: response.len,
            size: listed.size,
            stored: listed.stored,
            used: listed.used,
            directory,
        })
    }

    /// Returns the stored response with this name. Blocks while the disk reads.
    pub fn named(&self, name: Name) -> Option<ResponseReader> {
        self.in_use().find_map(|disk| {
            let (key, found) = disk.named(name.0, 0)?;
            let Some(Meta::Response(head)) = Meta::decode(&found.meta) else { return None };
            if !is_found(disk, &key) {
                return None;
            }
            let content = Record::new(found.body, found.serial);
            let newer = newer_head(disk, &key, found.serial, content.len(), held_head);
            let (status, lines) = newer.unwrap_or_else(|| held_head(&head));
            Some(ResponseReader { status, lines, content })
        })
    }

    /// Reads all records, at most `rate` bytes a second, and removes those whose bytes differ from the
    /// written ones. Continues while `go_on` returns true; `go_on` receives the progress at every block.
    /// Blocks while the disks read.
    pub fn verify(&self, rate: u64, go_on: &mut dyn FnMut(&VerifyResult) -> bool) -> VerifyResult {
        self.in_use().fold(VerifyResult::default(), |before, disk| {
            sum(before, disk.verify(rate, &mut |there| go_on(&sum(before, *there))))
        })
    }

    fn directories(&self) -> impl Iterator<Item = (&Path, &Arc<Disk>)> {
        self.drives().iter().filter_map(|drive| Some((drive.path(), drive.disk()?)))
    }
}

fn sum(one: VerifyResult, other: VerifyResult) -> VerifyResult {
    VerifyResult {
        objects: one.objects + other.objects,
        bytes: one.bytes + other.bytes,
        corrupt: one.corrupt + other.corrupt,
    }
}

fn held_head(head: &StoredHead<'_>) -> (StatusCode, Vec<u8>) {
    (head.status, [head.shared, head.own].concat())
}
