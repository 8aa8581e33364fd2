//! The links for early hints, in the form of a slice.

use super::slice::{Malformed, Record, SliceReader, write_resident};
use crate::memory::Uses;
use crate::{Hints, Store};

impl Store {
    /// Returns a copy of all hints.
    pub fn copy_hints(&self) -> Vec<u8> {
        let mut copy = Vec::new();
        for entry in self.hints.all() {
            write_resident(&mut copy, &[entry], &Uses::default(), &mut |_| None);
        }
        copy
    }

    /// Stores the hints of a copy, which were made under the purges in force.
    ///
    /// # Errors
    /// The copy cannot be read; then nothing of it is stored.
    pub fn restore_hints(&self, copy: &[u8]) -> Result<(), Malformed> {
        let hints: &Hints = &self.hints;
        for record in SliceReader::new(copy, hints.lines(), &|_, _, _| None).records()? {
            let Record::Resident(variants, _) = record else { continue };
            for entry in variants {
                self.purges.know(entry.key(), Some(&entry.fields()), entry.checked());
                hints.put(self.memory.hash(entry.key()), entry);
            }
        }
        Ok(())
    }
}
