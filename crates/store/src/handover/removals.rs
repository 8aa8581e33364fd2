//! Removals while both processes of an upgrade answer requests: each tells the other one.

use super::slice::{Malformed, Record, SliceReader, write_cleared, write_gone};
use crate::Fills;

impl Fills {
    /// Returns what was removed since the last call, as a slice; it is empty if there was nothing. To be called by the later
    /// process.
    pub fn removals(&self) -> Vec<u8> {
        let (noted, mut slice) = (self.store().memory.take_changes(), Vec::new());
        if noted.is_cleared {
            write_cleared(&mut slice);
        }
        let removed = noted.keys.iter().filter(|(_, is_removed)| **is_removed);
        removed.for_each(|(key, _)| write_gone(&mut slice, key));
        slice
    }

    /// Removes what the later process has removed.
    ///
    /// # Errors
    /// The slice cannot be read; then nothing is removed.
    pub fn remove_likewise(&self, slice: &[u8]) -> Result<(), Malformed> {
        for record in SliceReader::new(slice, self.store().memory.lines(), &|_, _, _| None).records()? {
            match record {
                Record::Cleared => self.purge_all_noted(false),
                Record::Gone(key) => _ = self.purge_noted(key, false),
                Record::Resident(..) => {}
            }
        }
        Ok(())
    }
}
