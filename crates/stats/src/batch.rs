//! Rows that are written together, in one transaction of the database.

use hashbrown::HashTable;

use crate::row::Row;

/// Rows in the order of their arrival, with an index that finds equal ones.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<Row>,
    /// Hashes and indices of rows, the first of equal ones.
    index: HashTable<(u64, usize)>,
    /// The latest second of a row, and the rows of that second.
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

    /// Returns the number of requests in the rows.
    pub(crate) fn requests(&self) -> u64 {
        self.rows.iter().map(|row| row.requests).sum()
    }

    /// Returns the number of rows in the second of `row`.
    pub(crate) fn rate(&self, row: &Row) -> u32 {
        if row.second() > self.second { 0 } else { self.in_second }
    }

    /// Adds a separate row.
    pub(crate) fn push(&mut self, row: Row) {
        if row.second() > self.second {
            (self.second, self.in_second) = (row.second(), 0);
        }
        self.in_second = self.in_second.saturating_add(1);
        match self.find(&row) {
            Some(_) => self.has_equals = true,
            None => drop(self.index.insert_unique(row.hash, (row.hash, self.rows.len()), |&(hash, _)| hash)),
        }
        self.rows.push(row);
    }

    /// Adds the row to an equal one, or returns it.
    pub(crate) fn merge(&mut self, row: Row) -> Option<Row> {
        match self.find(&row) {
            Some(at) => {
                self.rows[at].absorb(&row);
                None
            }
            None => Some(row),
        }
    }

    /// Merges all equal rows.
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

    fn find(&self, row: &Row) -> Option<usize> {
        let equals = |&(hash, at): &(u64, usize)| hash == row.hash && self.rows[at].equals(row);
        self.index.find(row.hash, equals).map(|&(_, at)| at)
    }
}
