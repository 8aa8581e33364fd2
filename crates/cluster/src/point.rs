//! A point in a stream: an entry, and the process of the engine that stored it.

use std::fmt;
use std::str::FromStr;

use crate::Position;

/// An entry of the stream in one process of the engine. Streams of different processes differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The process of the engine.
    pub engine: Box<str>,
    /// The position of the entry.
    pub position: Position,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.engine, self.position)
    }
}

/// The error for a text that is not a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPoint;

impl FromStr for Point {
    type Err = NoPoint;

    fn from_str(text: &str) -> Result<Self, NoPoint> {
        let (engine, position) = text.split_once('/').ok_or(NoPoint)?;
        Ok(Self { engine: engine.into(), position: position.parse().map_err(|_| NoPoint)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Follower;

    #[test]
    fn a_point_is_reached_by_a_follower_that_is_there_or_further() {
        let follower = Follower::at("e", Position::new(5, 0));
        for (text, expected) in
            [("e/4-9", true), ("e/5-0", true), ("e/5-1", false), ("f/4-0", false), ("e/", false), ("", false)]
        {
            let is_reached = text.parse().is_ok_and(|point| follower.has_reached(&point));
            assert_eq!(is_reached, expected, "{text}");
        }
        let point = "e/0-0".parse().expect("a point");
        assert!(!Follower::default().has_reached(&point));
    }

    proptest! {
        #[test]
        fn points_come_back_as_they_were_written(engine in "[0-9a-f]{0,40}", millis: u64, count: u64) {
            let point = Point { engine: engine.into(), position: Position::new(millis, count) };
            prop_assert_eq!(point.to_string().parse(), Ok(point));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            if let Ok(point) = text.parse::<Point>() {
                prop_assert_eq!(point.to_string().parse(), Ok(point));
            }
        }
    }
}
