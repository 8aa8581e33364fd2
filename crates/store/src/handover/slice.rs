//! Slices of the memory tier as bytes: residents and what has become of others.
//!
//! | record   | bytes after its first one, which names it                                              |
//! |----------|----------------------------------------------------------------------------------------|
//! | cleared  | none: everything before was removed                                                    |
//! | gone     | the length of a key (4), the key: everything under it was removed                       |
//! | resident | last use, hits, earlier hits (4 each), number of variants (1); the variants, latest first |
//!
//! A variant is its [head](larder_semantics::stored_head), the generation up to which no purge reaches it (8), its body, the number
//! of its coded forms (1), and for each its coding (1) and body. A body is absent; or its length (4) and bytes; or the number of a
//! memory file (4), offset and length (8 each); or the same of a pack, and its offset in there and its length (4 each); or number,
//! length and size of slices that are residents (8 each). Numbers are
//! little-endian.

use std::sync::Arc;

use larder_semantics::coding::Coding;
use larder_semantics::stored_head::StoredHead;

use crate::entry::Parts;
use crate::memory::Uses;
use crate::{Body, CodedBody, Entry, Extent, Generation, LinePool, PackedBody, SlicedBody, Storage};

/// The version of the encoding.
pub const VERSION: u32 = 2;

const CLEARED: u8 = 0;
const GONE: u8 = 1;
const RESIDENT: u8 = 2;

const ABSENT: u8 = 0;
const INLINE: u8 = 1;
const IN_FILE: u8 = 2;
const IN_PACK: u8 = 3;
const IN_SLICES: u8 = 4;

/// A slice that cannot be read: nothing of it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A record of a slice.
pub(super) enum Record<'s> {
    Cleared,
    /// Everything under this key is gone.
    Gone(&'s [u8]),
    /// The responses under a key, without those whose content is not there.
    Resident(Vec<Entry>, Uses),
}

/// Appends the record that everything before was removed.
pub(super) fn write_cleared(out: &mut Vec<u8>) {
    out.push(CLEARED);
}

/// Appends the record that everything under `key` is gone.
pub(super) fn write_gone(out: &mut Vec<u8>, key: &[u8]) {
    out.push(GONE);
    write_bytes(out, key);
}

/// Returns the number of an extent's memory file, its offset and its length, if the other process gets it.
type Place<'p> = dyn FnMut(&Arc<Extent>) -> Option<(u32, u64, u64)> + 'p;

/// Appends the responses under a key. `place` returns the number of an extent's memory file, and its range.
pub(super) fn write_resident(out: &mut Vec<u8>, variants: &[Entry], uses: &Uses, place: &mut Place<'_>) {
    out.push(RESIDENT);
    for number in [&uses.last, &uses.hits, &uses.earlier] {
        out.extend(number.get().to_le_bytes());
    }
    let variants = &variants[..variants.len().min(usize::from(u8::MAX))];
    out.push(variants.len() as u8);
    for entry in variants {
        entry.stored_head(&entry.fields().own()).encode(out);
        out.extend(entry.checked().0.to_le_bytes());
        write_body(out, Some(entry.body()), place);
        let forms = entry.coded().map(CodedBody::tried);
        out.push(forms.as_ref().map_or(0, |forms| forms.len() as u8));
        for (coding, body) in forms.into_iter().flatten() {
            out.push(CodedBody::number(coding));
            write_body(out, body, place);
        }
    }
}

fn write_body(out: &mut Vec<u8>, body: Option<&Body>, place: &mut Place<'_>) {
    if let Some(packed) = body.and_then(Body::in_pack)
        && let Some(pack) = place(packed.pack())
    {
        out.push(IN_PACK);
        write_range(out, pack);
        return out.extend(packed.part().map(u32::to_le_bytes).as_flattened());
    }
    match body.map(Body::place) {
        Some(Storage::Heap(bytes)) => {
            out.push(INLINE);
            write_bytes(out, bytes);
        }
        Some(Storage::File(extent)) => match place(extent) {
            Some(range) => {
                out.push(IN_FILE);
                write_range(out, range);
            }
            None => out.push(ABSENT),
        },
        Some(Storage::Slices(sliced)) => {
            out.push(IN_SLICES);
            out.extend(sliced.encode());
        }
        // The next process reads its disks itself.
        Some(Storage::Disk(_)) | None => out.push(ABSENT),
    }
}

/// Appends the number of a memory file, and a range in it.
fn write_range(out: &mut Vec<u8>, (file, offset, len): (u32, u64, u64)) {
    out.extend(file.to_le_bytes());
    out.extend([offset, len].map(u64::to_le_bytes).as_flattened());
}

/// Appends the length of `bytes`, which are no content of a memory file, and the bytes.
fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads slices.
pub(super) struct SliceReader<'s> {
    bytes: &'s [u8],
    lines: &'s LinePool,
    /// Returns the content of a range of a memory file.
    adopt: &'s dyn Fn(u32, u64, u64) -> Option<Arc<Extent>>,
}

impl<'s> SliceReader<'s> {
    /// Returns a reader of `bytes` that keeps field lines in `lines`.
    pub(super) fn new(
        bytes: &'s [u8],
        lines: &'s LinePool,
        adopt: &'s dyn Fn(u32, u64, u64) -> Option<Arc<Extent>>,
    ) -> Self {
        Self { bytes, lines, adopt }
    }

    /// Reads all records.
    pub(super) fn records(mut self) -> Result<Vec<Record<'s>>, Malformed> {
        let mut records = Vec::new();
        while !self.bytes.is_empty() {
            records.push(self.record().ok_or(Malformed)?);
        }
        Ok(records)
    }

    fn record(&mut self) -> Option<Record<'s>> {
        match self.byte()? {
            CLEARED => Some(Record::Cleared),
            GONE => Some(Record::Gone(self.run()?)),
            RESIDENT => {
                let [last, hits, earlier] = [self.number()?, self.number()?, self.number()?].map(Into::into);
                let mut variants = Vec::new();
                for _ in 0..self.byte()? {
                    variants.extend(self.variant()?);
                }
                let is_one_url = variants.windows(2).all(|pair| pair[0].key() == pair[1].key());
                is_one_url.then_some(Record::Resident(variants, Uses { last, hits, earlier }))
            }
            _ => None,
        }
    }

    /// Reads a response; the inner `None` is one whose content is not there.
    fn variant(&mut self) -> Option<Option<Entry>> {
        let (head, rest) = StoredHead::decode(self.bytes)?;
        self.bytes = rest;
        let born = Generation(u64::from_le_bytes(self.array()?));
        let StoredHead { key, signature, status, freshness, cost, shared, own } = head;
        let body = self.body()?;
        let mut entry = None;
        if let Some(body) = body {
            let fields = &self.lines.share(shared, own.to_vec());
            entry = Some(Entry::new(Parts { key, signature, status, freshness, cost, born, fields, body })?);
        }
        for _ in 0..self.byte()? {
            let coding = CodedBody::coding(self.byte()?)?;
            let form = self.body()?;
            entry = entry.and_then(|entry| with_form(&entry, coding, form));
        }
        Some(entry)
    }

    /// Reads a body; the inner `None` is one that is not there.
    fn body(&mut self) -> Option<Option<Body>> {
        match self.byte()? {
            ABSENT => Some(None),
            INLINE => Some(Some(Body::Heap(self.run()?.into()))),
            IN_FILE => Some(self.extent()?.map(Body::file)),
            IN_PACK => {
                let (pack, from, len) = (self.extent()?, self.number()?, self.number()?);
                Some(pack.and_then(|pack| in_pack(pack, from, len)))
            }
            IN_SLICES => Some(Some(Body::sliced(SlicedBody::decode(&self.array()?)?.into()))),
            _ => None,
        }
    }

    /// Reads a range of a memory file; the inner `None` is one that is not there.
    fn extent(&mut self) -> Option<Option<Arc<Extent>>> {
        let (file, offset, len) = (self.number()?, self.array()?, self.array()?);
        Some((self.adopt)(file, u64::from_le_bytes(offset), u64::from_le_bytes(len)))
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*array)
    }

    fn run(&mut self) -> Option<&'s [u8]> {
        let len = self.number()? as usize;
        let (run, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(run)
    }
}

/// Returns the content in a range of `pack`: a copy, if the pack cannot be mapped.
fn in_pack(pack: Arc<Extent>, from: u32, len: u32) -> Option<Body> {
    if let Some(packed) = PackedBody::new(Arc::clone(&pack), from, len) {
        return Some(Body::packed(packed));
    }
    let end = u64::from(from) + u64::from(len);
    let mut bytes = vec![0; if end <= pack.len() { len as usize } else { return None }];
    pack.read(from.into(), &mut bytes).ok()?;
    Some(Body::Heap(bytes.into()))
}

/// Returns `entry` with one more form. A form that is no shorter than the content is none.
fn with_form(entry: &Entry, coding: Option<Coding>, form: Option<Body>) -> Option<Entry> {
    let form = form.filter(|form| coding.is_none() || form.len() < entry.body().len());
    entry.with_form(coding, form)
}
