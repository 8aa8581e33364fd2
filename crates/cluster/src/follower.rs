//! Following a stream without missing an entry, or detecting that one was missed.
//!
//! A node keeps the [`Position`] of the last entry that it has applied, and reads the entries from **that one** on. If the
//! engine has it, it also has everything after it. If not, the stream was trimmed past the node, or is another one. An
//! engine that was restarted, or took over from another one, may have lost acknowledged entries: so it counts as another
//! stream.

use larder_words::named;

use crate::{Point, Position};

named! {
    /// The reason why the missed entries are unknown.
    pub enum GapReason, name {
        /// The node has never followed this stream.
        New = "this node has not followed it before",
        /// The last entry that the node has applied is not in the stream any more.
        Trimmed = "it was trimmed, or lost",
        /// The engine is another process than before.
        Restarted = "the engine was restarted, or another one took over",
        /// An entry cannot be read.
        Unknown = "an entry is of another version",
    }
}

/// The position up to which a node has followed the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follower {
    /// The process of the engine that had the stream.
    engine: Option<Box<str>>,
    position: Option<Position>,
}

impl Follower {
    /// Returns a follower that continues behind `position`, in the process that `engine` names.
    pub fn at(engine: &str, position: Position) -> Self {
        Self { engine: Some(engine.into()), position: Some(position) }
    }

    /// Returns the last entry applied.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns the process of the engine at the last read.
    pub fn engine(&self) -> Option<&str> {
        self.engine.as_deref()
    }

    /// Returns the last entry applied, with its process; `None` if the node follows no stream.
    pub fn point(&self) -> Option<Point> {
        Some(Point { engine: self.engine.clone()?, position: self.position? })
    }

    /// Whether every entry up to `point` has been applied.
    pub fn has_reached(&self, point: &Point) -> bool {
        self.engine.as_deref() == Some(&*point.engine) && self.position >= Some(point.position)
    }

    /// Checks the answer of the engine called `engine`: the positions of its entries from the
    /// [position](Self::position) on. Returns how many of them have been applied already: the first one.
    ///
    /// # Errors
    /// The reason why entries may have been missed. Then all responses have to be revalidated, and the stream
    /// is followed [from](Self::at) the end that it had before.
    pub fn check(&self, engine: &str, entries: &[Position]) -> Result<usize, GapReason> {
        let (Some(known), Some(position)) = (&self.engine, self.position) else { return Err(GapReason::New) };
        if **known != *engine {
            return Err(GapReason::Restarted);
        }
        match entries.first() {
            Some(first) if *first == position => Ok(1),
            _ => Err(GapReason::Trimmed),
        }
    }

    /// Records that every entry up to `position` has been applied.
    pub fn obeyed(&mut self, position: Position) {
        self.position = self.position.max(Some(position));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(millis: u64) -> Position {
        Position::new(millis, 0)
    }

    #[test]
    fn an_entry_that_is_still_there_says_that_nothing_was_missed() {
        let follower = Follower::at("e", at(5));
        for (engine, entries, expected) in [
            ("e", &[at(5)][..], Ok(1)),
            ("e", &[at(5), at(6)], Ok(1)),
            ("e", &[], Err(GapReason::Trimmed)),
            ("e", &[at(6)], Err(GapReason::Trimmed)),
            ("f", &[at(5)], Err(GapReason::Restarted)),
            ("f", &[], Err(GapReason::Restarted)),
        ] {
            assert_eq!(follower.check(engine, entries), expected, "{engine} {entries:?}");
        }
        assert_eq!(Follower::default().check("e", &[at(5)]), Err(GapReason::New));
    }

    #[test]
    fn a_follower_goes_forward() {
        let mut follower = Follower::at("e", at(5));
        follower.obeyed(at(7));
        follower.obeyed(at(6));
        assert_eq!((follower.engine(), follower.position()), (Some("e"), Some(at(7))));
    }

    /// An event of a stream, or of its follower.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Add,
        Trim(usize),
        Lose(usize),
        Restart(usize),
        Read(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => Just(Event::Add),
            1 => (0..4_usize).prop_map(Event::Trim),
            1 => (0..4_usize).prop_map(Event::Lose),
            1 => (0..4_usize).prop_map(Event::Restart),
            4 => (1..4_usize).prop_map(Event::Read),
        ]
    }

    proptest! {
        /// For all events of a stream: a follower without an error has applied every entry up to its position, or has
        /// marked everything for revalidation since.
        #[test]
        fn nothing_is_missed_unnoticed(events in prop::collection::vec(event(), 1..80)) {
            // An entry that marks the beginning, as the first node writes one.
            let (mut stream, mut last, mut engine) = (vec![1_u64], 1, 0);
            let mut unknown: Vec<u64> = Vec::new();
            let mut follower = Follower::at("0", at(1));
            for event in events {
                match event {
                    Event::Add => {
                        last += 1;
                        stream.push(last);
                        unknown.push(last);
                    }
                    Event::Trim(count) => drop(stream.drain(..count.min(stream.len()))),
                    // An administrator empties the database, or it is lost.
                    Event::Lose(0) => stream.clear(),
                    Event::Lose(_) => {}
                    Event::Restart(lost) => {
                        stream.truncate(stream.len().saturating_sub(lost));
                        engine += 1;
                    }
                    Event::Read(most) => {
                        let name = engine.to_string();
                        let from = follower.position().expect("it has one");
                        let behind = stream.iter().map(|n| at(*n)).filter(|n| *n >= from);
                        let read: Vec<_> = behind.take(most + 1).collect();
                        match follower.check(&name, &read) {
                            Ok(known) => for position in &read[known..] {
                                unknown.retain(|n| at(*n) != *position);
                                follower.obeyed(*position);
                            },
                            Err(_) => {
                                unknown.clear();
                                last += 1;
                                stream.push(last);
                                follower = Follower::at(&name, at(last));
                            }
                        }
                        let position = follower.position().expect("it has one");
                        prop_assert!(unknown.iter().all(|n| at(*n) > position), "{unknown:?} {position}");
                    }
                }
            }
        }
    }
}
