//! What is wrong with a draft as a whole. A key that could not be read has its default, which is no reason to blame others: what
//! concerns its table is left out, and comes to light when the key is mended.

use crate::config::draft::{DiskDraft, Draft, SiteDraft};

/// The problems so far, a line each.
pub(super) struct Problems<'d> {
    draft: &'d Draft,
    found: Vec<String>,
}

impl<'d> Problems<'d> {
    /// None yet.
    pub(super) fn of(draft: &'d Draft) -> Self {
        Self { draft, found: Vec::new() }
    }

    /// Adds one that concerns `keys`; its place is that of the first of them that was written.
    pub(super) fn add(&mut self, keys: &[&str], text: &str) {
        let table = |key: &&str| key.split('.').next().unwrap_or_default().to_owned();
        if !keys.iter().any(|key| self.draft.unread.contains(&table(key))) {
            self.found.push(format!("{}: {text}", self.draft.place(keys)));
        }
    }

    /// Adds one that concerns a site.
    pub(super) fn add_to_site(&mut self, site: &SiteDraft, text: &str) {
        if !site.is_unread {
            self.found.push(format!("{}: {text}", site.place));
        }
    }

    /// Adds one that concerns a key of a site.
    pub(super) fn add_to_key(&mut self, site: &SiteDraft, key: &str, text: &str) {
        if !site.is_unread {
            self.found.push(format!("{}: {text}", site.place_of(key)));
        }
    }

    /// Adds one that concerns a directory of the disk tier.
    pub(super) fn add_to_disk(&mut self, disk: &DiskDraft, text: &str) {
        if !self.draft.unread.contains("disk") {
            self.found.push(format!("{}: {text}", disk.place));
        }
    }

    /// Adds one that concerns these tables, and names its place itself.
    pub(super) fn add_of_tables(&mut self, tables: &[&str], line: String) {
        if !tables.iter().any(|table| self.draft.unread.contains(*table)) {
            self.found.push(line);
        }
    }

    /// Adds one that names its place itself.
    pub(super) fn add_line(&mut self, line: String) {
        self.found.push(line);
    }

    /// All of them.
    pub(super) fn lines(self) -> Vec<String> {
        self.found
    }
}
