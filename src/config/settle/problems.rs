//! The problems of a draft as a whole. A key that could not be read has its default, and must not cause errors about
//! other keys: problems that concern its table are omitted, and appear when the key is corrected.

use std::collections::BTreeSet;

use crate::config::draft::{DiskDraft, Draft, SiteDraft};

/// The problems so far, a line each.
pub(super) struct Problems<'d> {
    draft: &'d Draft,
    found: Vec<String>,
}

impl<'d> Problems<'d> {
    /// Creates an empty list of problems.
    pub(super) fn of(draft: &'d Draft) -> Self {
        Self { draft, found: Vec::new() }
    }

    /// Adds a problem that concerns `keys`; its place is that of the first of them that was written.
    pub(super) fn add(&mut self, keys: &[&str], text: &str) {
        let table = |key: &&str| key.split('.').next().unwrap_or_default().to_owned();
        if !keys.iter().any(|key| self.draft.unread.contains(&table(key))) {
            self.found.push(format!("{}: {text}", self.draft.place(keys)));
        }
    }

    /// Adds a problem that concerns a site.
    pub(super) fn add_to_site(&mut self, site: &SiteDraft, text: &str) {
        if !site.is_unread {
            self.found.push(format!("{}: {text}", site.place));
        }
    }

    /// Adds a problem that concerns a key of a site.
    pub(super) fn add_to_key(&mut self, site: &SiteDraft, key: &str, text: &str) {
        if !site.is_unread {
            self.found.push(format!("{}: {text}", site.place_of(key)));
        }
    }

    /// Adds a problem that concerns a directory of the disk tier.
    pub(super) fn add_to_disk(&mut self, disk: &DiskDraft, text: &str) {
        if !self.draft.unread.contains("disk") {
            self.found.push(format!("{}: {text}", disk.place));
        }
    }

    /// Adds a problem that concerns these tables. `line` includes its place.
    pub(super) fn add_of_tables(&mut self, tables: &[&str], line: String) {
        if !tables.iter().any(|table| self.draft.unread.contains(*table)) {
            self.found.push(line);
        }
    }

    /// Adds a problem. `line` includes its place.
    pub(super) fn add_line(&mut self, line: String) {
        self.found.push(line);
    }

    /// Whether there are none. Errors: a line for each problem; those of a [[rule]] are the same at each site.
    pub(super) fn none(mut self) -> Result<(), Vec<String>> {
        let mut seen = BTreeSet::new();
        self.found.retain(|line| seen.insert(line.clone()));
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}
