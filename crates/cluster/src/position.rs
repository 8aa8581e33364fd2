//! A position in the stream of invalidations, in the engine's numbering of entries.

use std::fmt;
use std::str::FromStr;

/// The number of an entry: the engine's milliseconds, and a count within them. Later entries have greater numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    millis: u64,
    count: u64,
}

impl Position {
    /// Returns the position with these numbers.
    pub const fn new(millis: u64, count: u64) -> Self {
        Self { millis, count }
    }

    /// Returns the two numbers.
    pub const fn parts(self) -> [u64; 2] {
        [self.millis, self.count]
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.count)
    }
}

/// The error for a text that is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPosition;

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| NoPosition),
            false => Err(NoPosition),
        };
        let (millis, count) = text.split_once('-').ok_or(NoPosition)?;
        Ok(Self { millis: number(millis)?, count: number(count)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_the_engine_does_not_write_is_no_position() {
        for text in
            ["", "-", "1", "1-", "-1", "1-2-3", "+1-2", "1-+2", " 1-2", "a-b", "99999999999999999999-0"]
        {
            assert_eq!(text.parse::<Position>(), Err(NoPosition), "{text}");
        }
    }

    proptest! {
        #[test]
        fn positions_come_back_as_they_were_written(millis: u64, count: u64) {
            let position = Position::new(millis, count);
            prop_assert_eq!(position.to_string().parse(), Ok(position));
        }

        #[test]
        fn the_later_is_the_greater(a: (u64, u64), b: (u64, u64)) {
            prop_assert_eq!(Position::new(a.0, a.1).cmp(&Position::new(b.0, b.1)), a.cmp(&b));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            if let Ok(position) = text.parse::<Position>() {
                prop_assert_eq!(position.to_string().parse(), Ok(position));
            }
        }
    }
}
