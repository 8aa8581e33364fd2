//! Counts of requests, bytes and the time that origins take, by the groups of a sample.

use std::ops::{Add, AddAssign, Mul, Sub};

use crate::sample::GROUPS;

/// Requests, their bytes and the time of their fetches, weighted by what they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Requests.
    pub requests: f64,
    /// Bytes sent for them.
    pub bytes: f64,
    /// Microseconds that origins take for them. Only shadows know it: 0 in what the cache really did.
    pub micros: f64,
}

/// Requests, and those that were hits: of the cache, or of a shadow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Cacheable requests.
    pub asked: Sums,
    /// Requests that a stored response answered; bytes that came from the cache, also after a validation.
    pub hit: Sums,
}

/// The counts of a shadow: of each group of the sample, and of heavy keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) groups: [Traffic; GROUPS],
    pub(crate) heavy: Traffic,
}

impl Add for Sums {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (requests, bytes) = (self.requests + other.requests, self.bytes + other.bytes);
        Self { requests, bytes, micros: self.micros + other.micros }
    }
}

impl Sub for Sums {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let (requests, bytes) = (self.requests - other.requests, self.bytes - other.bytes);
        Self { requests, bytes, micros: self.micros - other.micros }
    }
}

impl Mul<f64> for Sums {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { requests: self.requests * times, bytes: self.bytes * times, micros: self.micros * times }
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

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.heavy += other.heavy;
        self.groups.iter_mut().zip(other.groups).for_each(|(group, other)| *group += other);
    }
}

impl Counts {
    /// Counts requests of a `group` of the sample, and what the cache gave; `None`: for a heavy key.
    pub(crate) fn count(&mut self, group: Option<usize>, asked: Sums, hit: Sums) {
        let count = group.map_or(&mut self.heavy, |group| &mut self.groups[group]);
        count.asked += asked;
        count.hit += hit;
    }

    /// Returns the requests of all groups and heavy keys.
    pub(crate) fn asked(&self) -> Sums {
        self.groups.iter().fold(self.heavy.asked, |sum, group| sum + group.asked)
    }
}
