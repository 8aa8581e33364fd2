//! Rows that are written together, in one transaction of the database.

use hashbrown::HashTable;

use crate::row::Row;

/// Rows in the order they came, with an index by which equal ones are found.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<Row>,
    /// Hashes and places of rows, the first of equal ones.
    index: HashTable<(u64, usize)>,
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
        match self.find(&row) {
            Some(_) => self.has_equals = true,
            None => drop(self.index.insert_unique(row.hash, (row.hash, self.rows.len()), |&(hash, _)| hash)),
        }
        self.rows.push(row);
    }

    /// Adds the row to one that equals it, or gives it back.
    pub(crate) fn merge(&mut self, row: Row) -> Option<Row> {
        match self.find(&row) {
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

    fn find(&self, row: &Row) -> Option<usize> {
        let equals = |&(hash, at): &(u64, usize)| hash == row.hash && self.rows[at].equals(row);
        self.index.find(row.hash, equals).map(|&(_, at)| at)
    }
}
