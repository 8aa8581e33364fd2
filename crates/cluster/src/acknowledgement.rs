//! The nodes that have applied an entry of the stream.

use crate::Position;

/// The members that have applied an entry, and those that have not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The number of members that have applied it.
    pub acknowledged: usize,
    /// The number of members.
    pub of: usize,
    /// The names of the members that have not applied it, in order.
    pub missing: Vec<String>,
}

impl Acknowledgement {
    /// Counts `members`, each with the last entry that it has applied, if that is known.
    pub fn count<'m>(
        entry: Position,
        members: impl IntoIterator<Item = (&'m str, Option<Position>)>,
    ) -> Self {
        let mut counted = Self::default();
        for (name, position) in members {
            counted.of += 1;
            match position.is_some_and(|position| position >= entry) {
                true => counted.acknowledged += 1,
                false => counted.missing.push(name.to_owned()),
            }
        }
        counted.missing.sort_unstable();
        counted
    }

    /// Whether all members have applied it.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_behind_the_position_and_nodes_without_one_are_missing() {
        let at = |millis| Some(Position::new(millis, 0));
        let members = [("c", at(4)), ("a", at(5)), ("b", None), ("d", at(6))];
        let counted = Acknowledgement::count(Position::new(5, 0), members);
        let missing = ["b", "c"].map(str::to_owned).to_vec();
        assert_eq!(counted, Acknowledgement { acknowledged: 2, of: 4, missing });
        assert!(!counted.is_whole());
        assert!(Acknowledgement::count(Position::new(4, 0), [("a", at(4))]).is_whole());
    }
}
