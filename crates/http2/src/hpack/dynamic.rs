//! The dynamic table (RFC 7541 section 2.3.2), with the entries of the peer's encoder.

use std::collections::VecDeque;

use super::kind::Kind;
use super::list::OVERHEAD;

/// A dynamic table. It allocates no memory before its first entry, and at most about twice its limit.
#[derive(Debug)]
pub(super) struct Dynamic {
    /// Names and values of all entries, oldest first.
    bytes: Vec<u8>,
    /// The position of the first byte, counted from the first byte that was ever inserted.
    base: usize,
    /// The entries, oldest first.
    entries: VecDeque<Entry>,
    /// The size as defined by RFC 7541 section 4.1.
    size: usize,
    /// The limit that the peer's encoder has chosen.
    limit: usize,
    /// The maximum of that limit.
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The position of the name; the value follows it.
    at: usize,
    name: usize,
    value: usize,
    kind: Kind,
    is_sound: bool,
}

/// A field of a table.
#[derive(Clone, Copy)]
pub(super) struct TableField<'t> {
    /// The name and, behind it, the value.
    pub(super) bytes: &'t [u8],
    /// The length of the name.
    pub(super) name: usize,
    pub(super) kind: Kind,
    /// Whether name and value are [sound](super::list::is_sound).
    pub(super) is_sound: bool,
}

impl Dynamic {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), base: 0, entries: VecDeque::new(), size: 0, limit: most, most }
    }

    /// Changes the limit. Returns false if the new limit is above the maximum.
    pub(super) fn resize(&mut self, limit: usize) -> bool {
        if limit > self.most {
            return false;
        }
        self.limit = limit;
        self.evict(limit);
        true
    }

    /// Returns an entry; the newest one has index 0.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<TableField<'_>> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(place)?;
        let start = entry.at - self.base;
        let bytes = &self.bytes[start..start + entry.len()];
        Some(TableField { bytes, name: entry.name, kind: entry.kind, is_sound: entry.is_sound })
    }

    pub(super) fn insert(&mut self, field: TableField<'_>) {
        let TableField { bytes, name, kind, is_sound } = field;
        let size = bytes.len() + OVERHEAD;
        if size > self.limit {
            return self.evict(0);
        }
        self.evict(self.limit - size);
        if self.evicted() > self.most {
            let evicted = self.evicted();
            self.bytes.drain(..evicted);
            self.base += evicted;
        }
        let at = self.base + self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.entries.push_back(Entry { at, name, value: bytes.len() - name, kind, is_sound });
        self.size += size;
    }

    /// Removes the oldest entries until the size is at most `size`.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.len() + OVERHEAD;
        }
    }

    /// Returns the number of bytes at the start that belong to evicted entries.
    fn evicted(&self) -> usize {
        self.entries.front().map_or(self.bytes.len(), |oldest| oldest.at - self.base)
    }

    pub(super) fn allocated(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    pub(super) fn validate(&self) -> Result<(), &'static str> {
        let bytes: usize = self.entries.iter().map(Entry::len).sum();
        let size = bytes + self.entries.len() * OVERHEAD;
        if bytes != self.bytes.len() - self.evicted() {
            return Err("the bytes of the dynamic table are not those of its entries");
        }
        if size != self.size || self.size > self.limit || self.limit > self.most {
            return Err("the size of the dynamic table is wrong");
        }
        if self.bytes.len() > 2 * self.most {
            return Err("the dynamic table keeps evicted bytes");
        }
        Ok(())
    }
}

impl Entry {
    fn len(&self) -> usize {
        self.name + self.value
    }
}
