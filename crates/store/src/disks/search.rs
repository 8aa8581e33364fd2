//! The search for a response on a disk: one record, a second one if responses vary, a third if a long
//! response has a newer head. The caller reads the records, and may or may not wait.

use std::sync::Arc;

use larder_disk::{Disk, StoredObject};
use larder_semantics::stored_head::StoredHead;

use super::Drive;
use super::meta::{Meta, head_key, page_key, variant_key};
use crate::body::Record;
use crate::entry::Parts;
use crate::purges::Generation;
use crate::tier::SignatureOf;
use crate::{Body, Entry, LinePool};

/// A search in progress.
pub(super) struct Search<'k> {
    drive: &'k Drive,
    /// The store in the directory.
    pub(super) disk: &'k Arc<Disk>,
    key: &'k [u8],
    /// The key of the record to read next.
    pub(super) wanted: Vec<u8>,
    /// The response that was found, and its serial, before its newer head is looked up.
    found: Option<(Entry, u64)>,
}

/// The next step of a search.
pub(super) enum SearchStep {
    /// The caller has to read the record that is wanted now.
    Look,
    /// The search has ended.
    Done(Option<Entry>),
}

impl<'k> Search<'k> {
    /// Returns `None` if the directory is not open.
    pub(super) fn new(drive: &'k Drive, key: &'k [u8]) -> Option<Self> {
        Some(Self { drive, disk: drive.disk()?, key, wanted: page_key(key), found: None })
    }

    /// Continues with the record that was wanted, or without it.
    pub(super) fn take(
        &mut self,
        record: Option<StoredObject>,
        signature: SignatureOf<'_>,
        lines: &LinePool,
    ) -> SearchStep {
        if let Some((entry, serial)) = self.found.take() {
            let newer = record.and_then(|record| newer(&entry, serial, &record.meta, lines));
            return SearchStep::Done(Some(newer.unwrap_or(entry)));
        }
        let Some(StoredObject { meta, content, body, serial, .. }) = record else {
            return SearchStep::Done(None);
        };
        match Meta::decode(&meta) {
            Some(Meta::Response(head)) => {
                let is_long = content.is_none();
                let body = match content {
                    Some(content) => Body::Heap(content.into()),
                    None => Body::disk(Record::new(body, serial).into()),
                };
                let entry = entry(self.key, &head, body, lines);
                match entry {
                    Some(entry) if is_long => {
                        self.wanted = head_key(&self.wanted);
                        self.found = Some((entry, serial));
                        SearchStep::Look
                    }
                    entry => SearchStep::Done(entry),
                }
            }
            Some(Meta::Sliced(sliced, head)) => {
                SearchStep::Done(entry(self.key, &head, Body::sliced(sliced), lines))
            }
            Some(Meta::Varies(number, varies)) if self.wanted.first() == Some(&b'p') => {
                self.wanted = variant_key(self.key, number, &signature(varies));
                SearchStep::Look
            }
            Some(_) => SearchStep::Done(None),
            None => {
                self.drive.tell_of_other_version();
                SearchStep::Done(None)
            }
        }
    }
}

fn newer(entry: &Entry, serial: u64, meta: &[u8], lines: &LinePool) -> Option<Entry> {
    match Meta::decode(meta)? {
        Meta::Newer(of, head) if of == serial => {
            self::entry(entry.key(), &head, entry.body().duplicate(), lines)
        }
        _ => None,
    }
}

fn entry(key: &[u8], head: &StoredHead<'_>, body: Body, lines: &LinePool) -> Option<Entry> {
    let StoredHead { signature, status, freshness, cost, shared, own, .. } = *head;
    let fields = &lines.share(shared, own.to_vec());
    // The lookup sets the generation up to which it has been checked.
    let born = Generation::default();
    Entry::new(Parts { key, signature, status, freshness, cost, born, fields, body })
}
