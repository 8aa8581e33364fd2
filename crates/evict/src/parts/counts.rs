//! Request counts of evicted objects, by key.
//!
//! A table of rows, each as long as half a cache line, newest first: entries that do not fit their row are dropped. An
//! entry is 4 bytes, a count and 24 bits of the key, so that two keys in 2 million may be confused: a policy then gets
//! a wrong hint, but no client gets a wrong object.

const ROW: usize = 8;

/// Counts from 1 to 255 by key. 0 means that the key has no entry.
pub(crate) struct Counts {
    /// The rows; their number is 0 or a power of two.
    rows: Vec<[u32; ROW]>,
}

impl Counts {
    pub(crate) const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Returns the count for `key`, or 0.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> u8 {
        let Some(row) = self.rows.get(self.row(key)) else { return 0 };
        row.iter().find(|&&entry| tag(entry) == tag_of(key)).map_or(0, |&entry| count(entry))
    }

    /// Stores `count` for `key` as the newest in its row, in a table with room for at least `bound` keys and at most
    /// twice as many.
    pub(crate) fn put(&mut self, key: u64, count: u8, bound: usize) {
        while self.rows.len() * ROW < bound {
            self.grow();
        }
        let at = self.row(key);
        let Some(row) = self.rows.get_mut(at) else { return };
        let is_key = |&entry: &u32| tag(entry) == tag_of(key);
        let place = row.iter().position(is_key).unwrap_or(ROW - 1);
        row.copy_within(..place, 1);
        row[0] = tag_of(key) | u32::from(count);
    }

    /// Removes and returns the count for `key`.
    #[inline]
    pub(crate) fn take(&mut self, key: u64) -> u8 {
        let at = self.row(key);
        let Some(row) = self.rows.get_mut(at) else { return 0 };
        let Some(place) = row.iter().position(|&entry| tag(entry) == tag_of(key)) else { return 0 };
        let taken = count(row[place]);
        row.copy_within(place + 1.., place);
        row[ROW - 1] = 0;
        taken
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<[u32; ROW]>()
    }

    /// Doubles the rows. An entry does not determine which of two rows its key now selects, so both get a copy: the
    /// copy in the wrong row is never looked up, and is dropped in time.
    #[cold]
    fn grow(&mut self) {
        let rows = self.rows.len();
        self.rows.reserve_exact(rows.max(1));
        match rows {
            0 => self.rows.push([0; ROW]),
            _ => self.rows.extend_from_within(..),
        }
    }

    #[inline]
    fn row(&self, key: u64) -> usize {
        key as usize & self.rows.len().wrapping_sub(1)
    }
}

/// Returns the key's part of an entry. It depends on all bits of the key, since the lowest bits select the row.
#[inline]
fn tag_of(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) as u32 & !0xFF
}

#[inline]
fn tag(entry: u32) -> u32 {
    entry & !0xFF
}

#[inline]
fn count(entry: u32) -> u8 {
    entry as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::spread;

    #[test]
    fn remembers_the_newest_of_a_row() {
        let mut counts = Counts::new();
        let key = |n: u64| n << 20 | n << 50;
        (1..=9).for_each(|n| counts.put(key(n), n as u8, ROW));
        assert_eq!((counts.get(key(1)), counts.get(key(2)), counts.get(key(9))), (0, 2, 9));
        counts.put(key(2), 200, ROW);
        counts.put(key(10), 10, ROW);
        assert_eq!((counts.get(key(2)), counts.get(key(3)), counts.get(key(4))), (200, 0, 4));
        assert_eq!((counts.take(key(4)), counts.take(key(4)), counts.get(key(5))), (4, 0, 5));
        counts.put(key(11), 11, ROW);
        assert_eq!(counts.get(key(5)), 5, "a place was vacant");
    }

    #[test]
    fn most_keys_are_remembered_once_it_has_grown() {
        let mut counts = Counts::new();
        let keys = 10_000_u32;
        let put = |n| counts.put(spread(n), 1 + (n % 100) as u8, n as usize + 1);
        (0..keys).chain(0..keys).for_each(put);
        let right = (0..keys).filter(|&n| counts.get(spread(n)) == 1 + (n % 100) as u8).count();
        assert!(right > 9_500, "{right} of {keys}");
        let strangers = (keys..2 * keys).filter(|&n| counts.get(spread(n)) != 0).count();
        assert!(strangers < 20, "{strangers} strangers taken for known");
        assert!(counts.heap_bytes() <= 8 * keys as usize);
    }
}
