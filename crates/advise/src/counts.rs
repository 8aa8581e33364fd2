//! Counts of requests and bytes, by the groups of a sample.

use std::ops::{Add, AddAssign};

use crate::sample::GROUPS;

/// Requests and their bytes, weighted by what they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Requests.
    pub requests: f64,
    /// Bytes sent for them.
    pub bytes: f64,
}

/// What the cache really did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Cacheable requests.
    pub asked: Sums,
    /// Those that a stored response answered.
    pub hit: Sums,
}

/// The requests that a shadow has seen, and its hits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupCount {
    pub(crate) asked: Sums,
    pub(crate) hit: Sums,
}

/// The counts of a shadow: of each group of the sample, and of heavy keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) groups: [GroupCount; GROUPS],
    pub(crate) heavy: GroupCount,
}

impl Add for Sums {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.hit += other.hit;
    }
}

impl AddAssign for GroupCount {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.hit += other.hit;
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.heavy += other.heavy;
        self.groups.iter_mut().zip(other.groups).for_each(|(group, other)| *group += other);
    }
}

impl Counts {
    /// Counts requests of a `group` of the sample; `None`: for a heavy key.
    pub(crate) fn count(&mut self, group: Option<usize>, asked: Sums, is_hit: bool) {
        let count = group.map_or(&mut self.heavy, |group| &mut self.groups[group]);
        count.asked += asked;
        if is_hit {
            count.hit += asked;
        }
    }
}
