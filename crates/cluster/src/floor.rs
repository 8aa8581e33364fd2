//! The oldest position that a node accepts from other nodes: the later of the position up to which it has read the stream
//! and that of its own last entry.
//!
//! A purge is in force on its own node before it is acknowledged, but that node may read it in the stream only later. If its
//! requests to other nodes carried only the position that it has read, an answer from before its own purge could come back.
//! So the position of its own last entry counts as well.
//!
//! An own entry counts for the allowed lag: a node that has not read it by then has read no entry for that long, and
//! sends no requests to other nodes. If an own entry belongs to another process of the engine than the stream that is
//! read, their positions cannot be compared: then no other node is used, until the new stream is read or the lag is
//! over.

use std::cmp::max;

use crate::{Follower, Lag, Point, Position};

/// The position that another node has to have reached, so that its answers are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// No position: this node knows of no entry.
    Nothing,
    /// Every entry up to this one.
    Point(Point),
    /// An unknown position: answers are not accepted.
    Unknown,
}

/// The position that a node has read, and the entries that it has added.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    read: Follower,
    /// For each process of the engine, the last entry that this node has added there.
    own: Vec<OwnEntry>,
}

/// An entry that this node has added.
#[derive(Clone, Debug)]
struct OwnEntry {
    point: Point,
    /// The time until which it counts, in milliseconds.
    until: u64,
}

impl Floor {
    /// Records the position up to which the stream was read.
    pub fn read(&mut self, read: Follower) {
        if read.engine() != self.read.engine() {
            // Every node that follows a later process has marked the responses of the former one for revalidation.
            self.own.retain(|own| self.read.engine() != Some(&*own.point.engine));
        }
        self.read = read;
    }

    /// Records that an entry of this node is at `point`, as the node learned at `now` (milliseconds).
    pub fn added(&mut self, point: Point, now: u64, lag: Lag) {
        let until = lag.until(now);
        self.own.retain(|own| now < own.until);
        match self.own.iter_mut().find(|own| own.point.engine == point.engine) {
            Some(own) => (own.point.position, own.until) = (max(own.point.position, point.position), until),
            None => self.own.push(OwnEntry { point, until }),
        }
    }

    /// Returns the position that another node has to have reached at `now` (milliseconds).
    pub fn demand(&self, now: u64) -> Demand {
        let mut demand = self.read.point();
        for OwnEntry { point, .. } in self.own.iter().filter(|own| now < own.until) {
            match &mut demand {
                None => demand = Some(point.clone()),
                Some(read) if read.engine == point.engine => {
                    read.position = max(read.position, point.position);
                }
                Some(_) => return Demand::Unknown,
            }
        }
        demand.map_or(Demand::Nothing, Demand::Point)
    }

    /// Whether a follower that has reached `position` in the process called `engine` satisfies the demand.
    pub fn is_met(&self, engine: &str, position: Position, now: u64) -> bool {
        match self.demand(now) {
            Demand::Nothing => true,
            Demand::Point(point) => Follower::at(engine, position).has_reached(&point),
            Demand::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const LAG: Duration = Duration::from_millis(1_000);

    fn point(text: &str) -> Point {
        text.parse().expect("a point")
    }

    /// Returns the floor of a node that has read up to `read`, and has added `own` at 0.
    fn floor(read: &str, own: &[&str]) -> Floor {
        let mut floor = Floor::default();
        if let Ok(Point { engine, position }) = read.parse() {
            floor.read(Follower::at(&engine, position));
        }
        own.iter().for_each(|own| floor.added(point(own), 0, Lag::new(LAG)));
        floor
    }

    #[test]
    fn the_floor_is_the_later_of_the_read_and_the_own_position() {
        for (read, own, expected) in [
            ("", &[][..], Demand::Nothing),
            ("", &["e/5-0"], Demand::Point(point("e/5-0"))),
            ("e/4-0", &[], Demand::Point(point("e/4-0"))),
            ("e/4-0", &["e/5-0"], Demand::Point(point("e/5-0"))),
            ("e/6-0", &["e/5-0"], Demand::Point(point("e/6-0"))),
            ("e/4-0", &["e/7-0", "e/5-0"], Demand::Point(point("e/7-0"))),
            ("e/4-0", &["f/1-0"], Demand::Unknown),
        ] {
            assert_eq!(floor(read, own).demand(0), expected, "{read} {own:?}");
        }
    }

    #[test]
    fn an_own_entry_counts_no_longer_than_the_lag() {
        let late = LAG.as_millis() as u64;
        assert_eq!(floor("e/4-0", &["e/5-0"]).demand(late), Demand::Point(point("e/4-0")));
        assert_eq!(floor("e/4-0", &["f/1-0"]).demand(late), Demand::Point(point("e/4-0")));
    }

    #[test]
    fn a_new_stream_takes_the_place_of_the_old_one() {
        let mut of_old = floor("e/4-0", &["e/5-0"]);
        of_old.read(Follower::at("f", Position::new(1, 0)));
        assert_eq!(of_old.demand(0), Demand::Point(point("f/1-0")));
        of_old.added(point("e/6-0"), 0, Lag::new(LAG));
        assert_eq!(of_old.demand(0), Demand::Unknown, "an answer of the old engine that comes late");
        let mut of_new = floor("e/4-0", &["f/3-0"]);
        of_new.read(Follower::at("f", Position::new(1, 0)));
        assert_eq!(of_new.demand(0), Demand::Point(point("f/3-0")));
        assert!(of_new.is_met("f", Position::new(3, 0), 0) && !of_new.is_met("f", Position::new(2, 9), 0));
        assert!(!of_new.is_met("e", Position::new(9, 0), 0));
    }

    /// Events of a stream, the node that adds to it, and another node that follows it.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// The node adds an order, and gets the acknowledgement.
        Adds,
        /// The node adds an order, and gets the acknowledgement this many events later.
        AddsSlowly(usize),
        Reads,
        OtherReads,
        /// The engine restarts without the last entries.
        Restart(usize),
        /// The node sends a request to the other one.
        Asks,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => Just(Event::Adds),
            2 => (1..4_usize).prop_map(Event::AddsSlowly),
            3 => Just(Event::Reads),
            3 => Just(Event::OtherReads),
            1 => (0..4_usize).prop_map(Event::Restart),
            4 => Just(Event::Asks),
        ]
    }

    /// A stream in its engine.
    struct Stream {
        engine: usize,
        entries: Vec<u64>,
        last: u64,
    }

    impl Stream {
        fn name(&self) -> String {
            self.engine.to_string()
        }

        fn add(&mut self) -> Point {
            self.last += 1;
            self.entries.push(self.last);
            Point { engine: self.name().into(), position: Position::new(self.last, 0) }
        }

        /// Returns the state of a node that followed it up to `follower` after a complete read; true: it
        /// marks its responses for revalidation.
        fn read(&mut self, follower: &Follower) -> (Follower, bool) {
            let from = follower.position().unwrap_or_default();
            let entries: Vec<_> =
                self.entries.iter().map(|n| Position::new(*n, 0)).filter(|n| *n >= from).collect();
            match (follower.check(&self.name(), &entries), entries.last()) {
                (Ok(_), Some(last)) => (Follower::at(&self.name(), *last), false),
                _ => {
                    let Point { engine, position } = self.add();
                    (Follower::at(&engine, position), true)
                }
            }
        }
    }

    proptest! {
        /// For all events: another node that is accepted has applied every order that the requesting node has
        /// acknowledged, or has marked all responses for revalidation later than that.
        #[test]
        fn no_accepted_node_has_missed_an_acknowledged_order(events in prop::collection::vec(event(), 1..80)) {
            let mut stream = Stream { engine: 0, entries: vec![1], last: 1 };
            let (mut floor, mut read) = (Floor::default(), Follower::at("0", Position::new(1, 0)));
            floor.read(read.clone());
            // Orders that are not acknowledged yet: the events until then, and whether the other node has
            // applied them.
            let (mut other, mut on_the_way) = (read.clone(), Vec::new());
            // Acknowledged orders that the other node has not applied.
            let mut unknown: Vec<Point> = Vec::new();
            for event in events {
                match event {
                    Event::Adds => on_the_way.push((0, stream.add(), false)),
                    Event::AddsSlowly(events) => on_the_way.push((events, stream.add(), false)),
                    Event::Reads => {
                        read = stream.read(&read).0;
                        floor.read(read.clone());
                    }
                    Event::OtherReads => {
                        let (now, distrusts) = stream.read(&other);
                        unknown.retain(|point| !distrusts && !now.has_reached(point));
                        for (_, point, is_known) in &mut on_the_way {
                            *is_known |= distrusts || now.has_reached(point);
                        }
                        other = now;
                    }
                    Event::Restart(lost) => {
                        stream.entries.truncate(stream.entries.len().saturating_sub(lost));
                        stream.engine += 1;
                    }
                    Event::Asks => {
                        let is_accepted = match floor.demand(0) {
                            Demand::Nothing => true,
                            Demand::Point(point) => other.has_reached(&point),
                            Demand::Unknown => false,
                        };
                        prop_assert!(!is_accepted || unknown.is_empty(), "{unknown:?} {floor:?} {other:?}");
                    }
                }
                on_the_way.retain_mut(|(events, point, is_known)| {
                    if *events == 0 {
                        floor.added(point.clone(), 0, Lag::new(LAG));
                        unknown.extend((!*is_known).then(|| point.clone()));
                    }
                    *events = events.wrapping_sub(1);
                    *events != usize::MAX
                });
            }
        }
    }
}
