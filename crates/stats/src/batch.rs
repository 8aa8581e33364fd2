//! Rows that are written together, in one transaction of the database.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;

use crate::row::Row;

/// Rows in the order they came, with an index by which equal ones are found.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<Row>,
    index: HashTable<usize>,
    hasher: RandomState,
    /// The latest second that a row belongs to, and the rows that came in it.
    second: u64,
    in_second: u32,
    /// Whether any two rows are equal.
    has_equals: bool,
}

impl Batch {
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Requests that the rows stand for.
    pub(crate) fn requests(&self) -> u64 {
        self.rows.iter().map(|row| row.requests).sum()
    }

    /// Rows that have come in the second of `row`.
    pub(crate) fn rate(&self, row: &Row) -> u32 {
        if row.second() > self.second { 0 } else { self.in_second }
    }

    /// Adds a row of its own.
    pub(crate) fn push(&mut self, row: Row) {
        if row.second() > self.second {
            (self.second, self.in_second) = (row.second(), 0);
        }
        self.in_second = self.in_second.saturating_add(1);
        let hash = self.hash(&row);
        // The index has the first of equal rows: one is enough to merge with.
        if self.find(hash, &row).is_none() {
            let (rows, hasher) = (&self.rows, &self.hasher);
            self.index.insert_unique(hash, rows.len(), |&at| hash_of(hasher, &rows[at]));
        } else {
            self.has_equals = true;
        }
        self.rows.push(row);
    }

    /// Adds the row to one that equals it, or gives it back.
    pub(crate) fn merge(&mut self, row: Row) -> Option<Row> {
        match self.find(self.hash(&row), &row) {
            Some(at) => {
                self.rows[at].absorb(&row);
                None
            }
            None => Some(row),
        }
    }

    /// Lets all equal rows share one.
    pub(crate) fn merge_all(&mut self) {
        if !self.has_equals {
            return;
        }
        let mut merged = Self { second: self.second, in_second: self.in_second, ..Self::default() };
        for row in std::mem::take(&mut self.rows) {
            if let Some(row) = merged.merge(row) {
                merged.push(row);
            }
        }
        *self = merged;
    }

    fn find(&self, hash: u64, row: &Row) -> Option<usize> {
        self.index.find(hash, |&at| self.rows[at].equals(row)).copied()
    }

    fn hash(&self, row: &Row) -> u64 {
        hash_of(&self.hasher, row)
    }
}

fn hash_of(hasher: &RandomState, row: &Row) -> u64 {
    let mut hasher = hasher.build_hasher();
    row.mix(&mut hasher);
    hasher.finish()
}
