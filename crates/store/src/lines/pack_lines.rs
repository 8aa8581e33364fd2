//! The numbers of shared lines in a pack: its records need numbers that two processes understand.

use std::sync::OnceLock;

use super::SharedLines;

/// The lines that responses of a pack share, at their numbers.
#[derive(Debug, Default)]
pub(crate) struct PackLines([[OnceLock<SharedLines>; 16]; 8]);

impl PackLines {
    /// There are fewer numbers.
    pub(crate) const MOST: u8 = u8::MAX;

    /// Returns the number of `lines`; they get one, if they have none and one is left.
    pub(crate) fn number(&self, lines: &SharedLines) -> Option<u8> {
        (0..Self::MOST).find(|number| self.has(*number, lines))
    }

    /// Whether `lines` have this number. They get it if no lines have it.
    pub(crate) fn has(&self, number: u8, lines: &SharedLines) -> bool {
        let place = self.0.as_flattened().get(usize::from(number));
        place.is_some_and(|own| own.get_or_init(|| lines.clone()).is(lines))
    }

    /// Returns the lines with this number.
    pub(crate) fn get(&self, number: u8) -> Option<SharedLines> {
        self.0.as_flattened().get(usize::from(number))?.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{LinePool, Lines};

    #[test]
    fn lines_keep_their_numbers_and_those_beyond_the_table_have_none() {
        let (pool, table) = (LinePool::default(), PackLines::default());
        let kept = |number: usize| {
            let server = number.to_string();
            let keep = || pool.keep_lines([(&b"server"[..], server.as_bytes())].into_iter(), 0);
            [(); 4].map(|()| keep())
        };
        let all: Vec<Lines> = (0..200).flat_map(kept).collect();
        let mut shared: Vec<_> = all.iter().filter_map(|lines| lines.shared.as_ref()).collect();
        shared.dedup_by(|one, other| one.is(other));
        assert!(shared.len() > 150);
        for _ in 0..2 {
            for (at, lines) in shared.iter().enumerate() {
                let number = table.number(lines);
                assert_eq!(number, u8::try_from(at).ok().filter(|number| *number < 128));
                assert!(number.is_none_or(|number| table.get(number).is_some_and(|own| own.is(lines))));
            }
        }
        assert!(!table.has(0, shared[1]) && !table.has(PackLines::MOST, shared[0]));
    }
}
