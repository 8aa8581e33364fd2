//! The further pools that a change blanks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Pools, and the pools that a change to each of them blanks as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Couplings(HashMap<Box<str>, Box<[Box<str>]>>);

impl Couplings {
    /// Creates the couplings `from -> to`. Transitive couplings continue: if `users` blanks `paths`, it also
    /// blanks the pools that `paths` blanks.
    pub fn new(direct: &BTreeMap<Box<str>, Vec<Box<str>>>, transitive: bool) -> Self {
        let reached = |from: &str| {
            let mut found = BTreeSet::new();
            let mut left = vec![from];
            while let Some(next) = left.pop() {
                for to in direct.get(next).into_iter().flatten() {
                    if found.insert(&**to) && transitive {
                        left.push(to);
                    }
                }
            }
            found.into_iter().filter(|to| *to != from).map(Box::from).collect()
        };
        Self(direct.keys().map(|from| (from.clone(), reached(from))).collect())
    }

    /// Returns the pools that a change to `pool` blanks in addition to it.
    pub fn of(&self, pool: &str) -> &[Box<str>] {
        self.0.get(pool).map_or(&[], |pools| pools)
    }

    /// Iterates over the pools, each with those coupled to it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Box<str>])> {
        let sorted: BTreeMap<_, _> = self.0.iter().map(|(from, to)| (&**from, &**to)).collect();
        sorted.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn couplings(written: &[(&str, &[&str])], transitive: bool) -> Couplings {
        let pools = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        Couplings::new(&written.iter().map(|(from, to)| (Box::from(*from), pools(to))).collect(), transitive)
    }

    fn reached(couplings: &Couplings, from: &str) -> String {
        couplings.of(from).join(" ")
    }

    #[test]
    fn transitive_couplings_go_on_and_end() {
        let written: &[(&str, &[&str])] =
            &[("users", &["paths"]), ("paths", &["feeds", "users"]), ("x", &["x"])];
        let (direct, transitive) = (couplings(written, false), couplings(written, true));
        for (from, once, on) in [
            ("users", "paths", "feeds paths"),
            ("paths", "feeds users", "feeds users"),
            ("feeds", "", ""),
            ("x", "", ""),
        ] {
            assert_eq!(
                (reached(&direct, from), reached(&transitive, from)),
                (once.into(), on.into()),
                "{from}"
            );
        }
        assert_eq!(direct.iter().map(|(from, _)| from).collect::<Vec<_>>(), ["paths", "users", "x"]);
    }
}
