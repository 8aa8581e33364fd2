//! The memory tier of the earlier process of an upgrade, as the successor takes it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use larder_semantics::freshness::Freshness;

use super::slice::{Malformed, Record, SliceReader};
use crate::arena::inherited::InheritedFile;
use crate::equivalents::Source;
use crate::fill::Epochs;
use crate::memory::Uses;
use crate::{Entry, Fills};

/// Takes what the process before this one has offered.
pub struct MemoryImport {
    fills: Arc<Fills>,
    files: HashMap<u32, Arc<InheritedFile>>,
    taken: Taken,
    /// The moment of the cut; `None` before. From then on, this process serves.
    cut: Option<Epochs>,
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// URLs in memory.
    pub objects: u64,
    /// The bytes that they take.
    pub bytes: u64,
}

impl MemoryImport {
    /// Returns an import into the store of `fills`, which has no responses yet.
    pub fn new(fills: &Arc<Fills>) -> Self {
        Self { fills: Arc::clone(fills), files: HashMap::new(), taken: Taken::default(), cut: None }
    }

    /// Takes over the memory file with this number.
    ///
    /// # Errors
    /// It is no such file. The contents in it are left out.
    pub fn file(&mut self, number: u32, file: OwnedFd) -> io::Result<()> {
        self.files.insert(number, self.fills.arena().inherit(file)?);
        Ok(())
    }

    /// Takes a slice, without the responses that `is_spent` returns true for.
    ///
    /// # Errors
    /// It cannot be read; then nothing of it is taken.
    pub fn slice(&mut self, bytes: &[u8], is_spent: &dyn Fn(&Freshness) -> bool) -> Result<(), Malformed> {
        let adopt = |file: u32, offset: u64, len: u64| self.files.get(&file)?.adopt(offset, len);
        let lines = self.fills.store().memory.lines();
        for record in SliceReader::new(bytes, lines, &adopt).records()? {
            match record {
                Record::Cleared => self.fills.purge_all_noted(false),
                Record::Gone(key) => _ = self.fills.purge_noted(key, false),
                Record::Resident(mut variants, uses) => {
                    variants.retain(|entry| !is_spent(&entry.freshness()));
                    match &self.cut {
                        None => self.restore(variants, uses),
                        Some(cut) => self.add(variants, cut),
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the import before this process serves. What comes afterwards are changes of requests that the earlier process
    /// has not ended yet; it in turn is told what this one [removes](Fills::removals).
    pub fn complete(&mut self) -> Taken {
        let usage = self.fills.store().memory.usage();
        self.taken = Taken { objects: usage.objects, bytes: usage.bytes };
        self.cut = Some(self.fills.epochs());
        self.fills.store().memory.note_changes(true);
        self.taken
    }

    /// Removes everything that was taken.
    pub fn give_up(&mut self) {
        self.fills.purge_all();
    }

    /// Frees what no response has of the memory files. To be called when the process before this one has ended.
    pub fn predecessor_ended(self) {
        self.fills.store().memory.note_changes(false);
        self.files.values().for_each(|file| file.free_rest());
    }

    /// Stores the responses of a URL as the earlier process had them.
    fn restore(&self, mut variants: Vec<Entry>, uses: Uses) {
        let store = self.fills.store();
        variants.retain(|entry| {
            store.purges.know(entry.key(), entry.tagged().as_ref(), entry.checked());
            if !entry.says_queries() {
                return true;
            }
            let (of, received) = ((entry.key(), entry.signature()), entry.freshness().received);
            let learned = store.learn(of, entry.status(), &entry.fields(), (Source::Elsewhere, received));
            let is_latest = !learned.is_refused;
            store.learned(entry.key(), received, learned);
            is_latest
        });
        store.memory.restore(variants, uses);
    }

    /// Stores responses that the earlier process has fetched, unless this one has the URL or a purge came since the cut.
    fn add(&self, variants: Vec<Entry>, cut: &Epochs) {
        let store = self.fills.store();
        let Some(hash) = variants.first().map(|entry| store.memory.hash(entry.key())) else { return };
        if store.memory.copy(hash).is_some() {
            return;
        }
        let began = cut.of(hash);
        // The latest is put last.
        for entry in variants.iter().rev().filter(|entry| !entry.says_queries()) {
            entry.note_checked(began.generation());
            store.purges.know(entry.key(), entry.tagged().as_ref(), began.generation());
            self.fills.alone(entry.key(), began).publish(entry, None);
        }
    }
}
