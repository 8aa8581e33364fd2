//! Small content in a memory file, together with that of other responses, while two processes of an upgrade have it.

use std::ops::Range;
use std::sync::Arc;

use super::{Body, LongBody, Storage};
use crate::Extent;

/// Content that is a part of a pack: of an extent that is mapped into memory.
#[derive(Clone, Debug)]
pub struct PackedBody {
    pack: Arc<Extent>,
    from: u32,
    len: u16,
    _kind: Kind,
}

/// The kind of a [`LongBody`]. Its other values are those of the other kinds: so each of these takes two words.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Kind {
    Packed,
}

impl PackedBody {
    /// Returns the content in the range `len` from `from` of `pack`; `None` if the pack has no such range, cannot be
    /// mapped, or is too long for small content.
    pub(crate) fn new(pack: Arc<Extent>, from: u32, len: u32) -> Option<Self> {
        let body = Self { pack, from, len: len.try_into().ok()?, _kind: Kind::Packed };
        body.pack.mapped()?.get(body.range())?;
        Some(body)
    }

    pub(crate) fn pack(&self) -> &Arc<Extent> {
        &self.pack
    }

    /// Returns the offset in the pack, and the length.
    pub(crate) fn part(&self) -> [u32; 2] {
        [self.from, self.len.into()]
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // It was mapped when this value was made, and stays so.
        self.pack.mapped().and_then(|bytes| bytes.get(self.range())).unwrap_or_default()
    }

    /// Returns so many bytes of the pack right before the content.
    pub(crate) fn before(&self, count: usize) -> Option<&[u8]> {
        let to = self.from as usize;
        self.pack.mapped()?.get(to.checked_sub(count)?..to)
    }

    fn range(&self) -> Range<usize> {
        self.from as usize..self.from as usize + usize::from(self.len)
    }
}

impl Body {
    /// Returns the content, which is stored in a pack.
    pub(crate) fn packed(packed: PackedBody) -> Self {
        Self::Long(Box::new(LongBody::Packed(packed)))
    }

    /// Returns the place in a pack, if the content has one.
    pub(crate) fn in_pack(&self) -> Option<&PackedBody> {
        match self.plain() {
            Self::Long(long) => match &**long {
                LongBody::Packed(packed) => Some(packed),
                _ => None,
            },
            Self::Heap(_) => None,
        }
    }

    /// Returns the bytes that could be in a pack, and are not.
    pub(crate) fn to_pack(&self) -> Option<&[u8]> {
        match (self.in_pack(), self.place()) {
            (None, Storage::Heap(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the same content outside of packs, if it is in one.
    pub(crate) fn unpacked(&self) -> Option<Self> {
        self.in_pack().map(|packed| Self::Heap(packed.bytes().into()))
    }

    /// Returns the body after `change` has replaced the storage of its content or of other forms; `None` if all stay.
    pub(crate) fn moved(&self, change: &mut dyn FnMut(&Self) -> Option<Self>) -> Option<Self> {
        match self.forms() {
            None => change(self),
            Some(coded) => coded.moved(change).map(Self::coded),
        }
    }
}
