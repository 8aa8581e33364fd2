//! The lengths of the names in a head, by which most fields that are looked for are known to be absent.

/// The lengths of names, modulo 64. Most absent fields have a length that no name has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameLengths(u64);

impl NameLengths {
    #[inline]
    pub(super) fn add(&mut self, length: usize) {
        self.0 |= 1 << (length % 64);
    }

    #[inline]
    pub(super) fn has(self, length: usize) -> bool {
        self.0 >> (length % 64) & 1 != 0
    }
}
